#include "planner/pipelines/moving_stages.h"

#include "models/pipeline_derive.h"
#include "planner/pipelines/stage_plans.h"
#include "sim/workers.h"

#include <math.h>

/* How many shapes are looked at, at most, and at the same time; and how many beside the best one.
 */
enum { MOST_LOOKS = 24, LOOKS_AT_ONCE = 4, MOST_BESIDE = 32 };

/* The part of a step by which a shape has to be better for shapes beside it to be looked at. */
#define LEAST_GAIN 0.002

/* How far a search is, in shapes and stages. */
struct moving_progress {
    const struct pipeline_question *question;
    uint32_t done, total;
    gint stopped, found; /* atomic; found: there are plans of a shape */
};

struct moving_search {
    const struct pipeline_question *question;
    uint32_t jobs;                  /* that have shapes */
    GArray *shapes;                 /* struct moving_shape, by their estimates */
    uint32_t looks;                 /* at shapes */
    double least_bound;             /* of all shapes; 0 if it is not known */
    struct moving_shape best_shape; /* has the best plans so far */
    struct stage_plans *best;       /* of it; NULL if there are none */
    GError *error;                  /* why a shape does not fit */
    struct moving_progress progress;
};

/* ---- progress ---- */

static bool is_stopped(struct moving_progress *progress)
{
    return g_atomic_int_get(&progress->stopped);
}

/* Shows the progress, with so many shapes more. Returns false if the search is to end. */
static bool show(struct moving_progress *progress, uint32_t more)
{
    if (!pipeline_goes_on(progress->question, MIN(progress->done + more, progress->total),
                          progress->total))
        g_atomic_int_set(&progress->stopped, 1);
    return !is_stopped(progress);
}

/* Looks that have begun go on, until there are plans of one shape. */
static bool show_looks(void *data, uint32_t done, uint32_t total)
{
    struct moving_progress *progress = data;
    (void)total;
    return show(progress, done) || !g_atomic_int_get(&progress->found);
}

static bool go_on_looking(void *data, uint32_t done, uint32_t total)
{
    struct moving_progress *progress = data;
    (void)done;
    (void)total;
    return !is_stopped(progress) || !g_atomic_int_get(&progress->found);
}

static bool go_on_to_stage(void *data, uint32_t stage)
{
    (void)stage;
    return go_on_looking(data, 0, 0);
}

static bool show_search(void *data, uint32_t done, uint32_t total)
{
    (void)done;
    (void)total;
    return show(data, 0);
}

static bool show_stage(void *data, uint32_t stage)
{
    struct moving_progress *progress = data;
    (void)stage;
    progress->done++;
    show(progress, 0);
    return go_on_looking(data, 0, 0);
}

/* ---- shapes ---- */

bool moving_stages_can_plan(const struct pipeline_job *job)
{
    bool newest = job->schedule == PIPELINE_2BW && job->units->element_bytes == 2;
    return job->width == 1 && job->stages > 1 && !newest;
}

static int by_estimate(const void *left, const void *right)
{
    const struct moving_shape *a = left, *b = right;
    return (a->estimate > b->estimate) - (a->estimate < b->estimate);
}

static void list_shapes(struct moving_search *search, const struct pipeline_job *jobs,
                        uint32_t count)
{
    const struct pipeline_question *q = search->question;
    for (uint32_t j = 0; j < count; j++) {
        const struct pipeline_job *job = &jobs[j];
        bool special = pipeline_splits(job->schedule);
        double bound;
        if (!moving_stages_can_plan(job) || (special && q->schedule != job->schedule))
            continue;
        if (search->shapes->len && !show(&search->progress, 0)) {
            search->least_bound = 0; /* others may take less */
            break;
        }
        search->jobs++;
        if (!moving_shapes_bound(job, &bound))
            continue;
        guint before = search->shapes->len;
        moving_shapes_add(search->shapes, job, bound);
        if (search->shapes->len > before)
            search->least_bound = fmin(search->least_bound, bound);
    }
    g_array_sort(search->shapes, by_estimate);
}

/* ---- looks ---- */

/* Shapes that are looked at at the same time. */
struct looks {
    struct moving_search *search;
    const struct moving_shape *shapes; /* [count] */
    uint32_t count;
    bool beside;                /* the best shape, whose stages' plans are borrowed */
    struct stage_plans **plans; /* [count] */
    GError **errors;            /* [count] */
};

static void look(void *data, uint32_t index)
{
    struct looks *looks = data;
    struct moving_search *search = looks->search;
    const struct stage_planning planning = {.question = search->question,
                                            .briefly = true,
                                            .most = search->best ? search->best->seconds : INFINITY,
                                            .threads = 1,
                                            .known = looks->beside ? search->best : NULL,
                                            .known_shape = &search->best_shape,
                                            .begin = go_on_to_stage,
                                            .progress = go_on_looking,
                                            .progress_data = &search->progress};
    looks->plans[index] = stage_plans_search(&planning, &looks->shapes[index],
                                             &looks->errors[index]);
    if (looks->plans[index])
        g_atomic_int_set(&search->progress.found, 1);
}

/* Keeps the best plans of the looks, if they are better than the best so far. */
static void take_best(struct looks *looks)
{
    struct moving_search *search = looks->search;
    struct stage_plans *best = search->best;
    uint32_t index = NO_INDEX;
    for (uint32_t i = 0; i < looks->count; i++)
        if (looks->plans[i] && (!best || looks->plans[i]->seconds < best->seconds)) {
            best = looks->plans[i];
            index = i;
        }
    if (index == NO_INDEX)
        return;
    if (search->best)
        stage_plans_adopt(best, search->best);
    stage_plans_free(search->best);
    moving_shape_clear(&search->best_shape);
    search->best = g_steal_pointer(&looks->plans[index]);
    search->best_shape = moving_shape_copy(&looks->shapes[index]);
}

/* Looks at the shapes with short searches, and keeps the best plans. */
static void look_at(struct moving_search *search, const struct moving_shape *shapes, uint32_t count,
                    bool beside)
{
    g_autofree struct stage_plans **plans = g_new0(struct stage_plans *, count);
    g_autofree GError **errors = g_new0(GError *, count);
    struct looks looks = {search, shapes, count, beside, plans, errors};
    workers_run(&(struct workers_job){.task = look,
                                      .data = &looks,
                                      .count = count,
                                      .threads = search->question->threads,
                                      .progress = show_looks,
                                      .progress_data = &search->progress});
    take_best(&looks);
    for (uint32_t i = 0; i < count; i++) {
        stage_plans_free(plans[i]);
        if (errors[i] && !search->error)
            search->error = g_steal_pointer(&errors[i]);
        g_clear_error(&errors[i]);
    }
}

static const struct moving_shape *shape_at(const struct moving_search *search, uint32_t index)
{
    return &g_array_index(search->shapes, struct moving_shape, index);
}

/* Looks at shapes in the order of their estimates, until the next one's is not below the best. */
static void look_at_all(struct moving_search *search)
{
    struct moving_progress *progress = &search->progress;
    uint32_t most = MIN(search->shapes->len, MOST_LOOKS);
    progress->total = most + (most ? shape_at(search, 0)->job->stages : 0);
    while (search->looks < most && go_on_looking(progress, 0, 0) &&
           (!search->best || shape_at(search, search->looks)->estimate < search->best->seconds)) {
        uint32_t count = MIN(LOOKS_AT_ONCE, most - search->looks);
        progress->done = search->looks;
        look_at(search, shape_at(search, search->looks), count, false);
        search->looks += count;
    }
}

/* Goes on to shapes beside the best one as long as one is better, but looks at no more than some. A
 * shape that is hardly better is taken, but nothing is looked at again because of it. */
static void look_beside(struct moving_search *search)
{
    GArray *beside = moving_shapes_beside(&search->best_shape);
    uint32_t next = 0, without = 0, looks = 0;
    while (without < beside->len && looks < MOST_BESIDE && !is_stopped(&search->progress)) {
        double before = search->best->seconds;
        uint32_t count = MIN(LOOKS_AT_ONCE, beside->len - next);
        look_at(search, &g_array_index(beside, struct moving_shape, next), count, true);
        looks += count;
        without += count;
        next = (next + count) % beside->len;
        if (search->best->seconds < before * (1 - LEAST_GAIN)) {
            without = 0;
            g_array_unref(beside);
            beside = moving_shapes_beside(&search->best_shape);
            next = next < beside->len ? next : 0;
        }
    }
    g_array_unref(beside);
}

/* ---- the best shape ---- */

/* Returns what is planned. Takes ownership of the plans. */
static struct moving_stages *finish(const struct pipeline_question *q,
                                    const struct moving_shape *shape, struct stage_plans *plans)
{
    struct moving_stages *moving = g_new0(struct moving_stages, 1);
    const struct pipeline_job *job = shape->job;
    moving->stages = job->stages;
    moving->parts = job->parts;
    moving->micro_batch = job->units->micro_batch;
    moving->micro_batches = job->micro_batches;
    moving->schedule = job->schedule;
    moving->recompute = g_memdup2(shape->recompute, q->config->layers);
    moving->layers = shape->layers ? g_memdup2(shape->layers, job->stages * sizeof *shape->layers)
                                   : NULL;
    moving->plans = g_steal_pointer(&plans->plans);
    moving->traces = g_steal_pointer(&plans->traces);
    moving->results = g_steal_pointer(&plans->results);
    moving->step_seconds = plans->seconds;
    plans->stages = 0;
    stage_plans_free(plans);
    return moving;
}

/* Plans the stages by whole searches, and returns the better ones of these plans and the known
 * ones, which may be NULL. Takes ownership of `known`. */
static struct stage_plans *plan_wholly(struct moving_progress *progress,
                                       const struct moving_shape *shape, struct stage_plans *known,
                                       GError **error)
{
    const struct stage_planning planning = {.question = progress->question,
                                            .most = known ? known->seconds : INFINITY,
                                            .threads = progress->question->threads,
                                            .begin = show_stage,
                                            .progress = show_search,
                                            .progress_data = progress};
    g_atomic_int_set(&progress->found, known != NULL);
    struct stage_plans *plans = stage_plans_search(&planning, shape, known ? NULL : error);
    if (known && (!plans || known->seconds <= plans->seconds)) {
        stage_plans_free(plans);
        return known;
    }
    stage_plans_free(known);
    return plans;
}

/* Everything may fit, and then a policy's plans move nothing: no plan of the search may be slower.
 */
struct moving_stages *moving_stages_plan(const struct pipeline_question *question,
                                         const struct pipeline_job *job, const uint32_t *layers,
                                         const uint8_t *recompute, GError **error)
{
    const struct moving_shape shape = {
        .job = job, .recompute = (uint8_t *)recompute, .layers = (uint32_t *)layers};
    struct moving_progress progress = {.question = question, .total = job->stages};
    struct stage_plans *plans = plan_wholly(&progress, &shape,
                                            stage_plans_by_policy(question, &shape, NULL), error);
    struct moving_stages *moving = plans ? finish(question, &shape, plans) : NULL;
    if (moving)
        moving->stopped = is_stopped(&progress);
    return moving;
}

static void refuse(struct moving_search *search, GError **error)
{
    if (search->error)
        g_propagate_error(error, g_steal_pointer(&search->error));
    else if (search->jobs)
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
                    "a stage's activations alone leave no room on its device");
}

struct moving_stages *moving_stages_search(const struct pipeline_question *question,
                                           const struct pipeline_job *jobs, uint32_t count,
                                           GError **error)
{
    struct moving_search search = {.question = question,
                                   .least_bound = INFINITY,
                                   .progress = {.question = question, .total = count},
                                   .shapes = moving_shapes_new()};
    struct moving_stages *moving = NULL;
    list_shapes(&search, jobs, count);
    look_at_all(&search);
    if (search.best) {
        look_beside(&search);
        search.progress.done = MIN(search.shapes->len, MOST_LOOKS);
        search.best = plan_wholly(&search.progress, &search.best_shape, search.best, error);
        moving = finish(question, &search.best_shape, search.best);
        moving->bound_seconds = search.least_bound;
        moving->shapes = search.shapes->len;
        moving->looks = search.looks;
        moving->stopped = is_stopped(&search.progress);
    } else {
        refuse(&search, error);
    }
    moving_shape_clear(&search.best_shape);
    g_clear_error(&search.error);
    g_array_unref(search.shapes);
    return moving;
}

void moving_stages_free(struct moving_stages *moving)
{
    if (!moving)
        return;
    for (uint32_t s = 0; s < moving->stages; s++)
        plan_free(moving->plans[s]);
    g_free(moving->plans);
    pipeline_traces_free(moving->traces, moving->stages);
    stage_results_free(moving->results, moving->stages);
    g_free(moving->recompute);
    g_free(moving->layers);
    g_free(moving);
}
