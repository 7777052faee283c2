#include "planner/pipelines/moving_stages.h"

#include "chunks/lack.h"
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
    struct early_end *end;
    uint32_t done, total;
};

struct moving_search {
    const struct pipeline_question *question;
    const struct pipeline_job *jobs; /* [count] */
    uint32_t count, listed;          /* listed: the first ones, whose shapes are known */
    uint32_t wanted;                 /* of these, whose stages are to have plans */
    GArray *shapes;                  /* struct moving_shape, by their estimates */
    uint32_t passed, looks;          /* at shapes */
    bool hurried;                    /* looked for plans that are found soon */
    uint32_t hurried_shapes;         /* that were listed for this */
    double least_bound;              /* of all shapes */
    struct moving_shape best_shape;  /* has the best plans so far */
    struct stage_plans *best;        /* of it; NULL if there are none */
    GError *error;                   /* why a shape does not fit */
    struct moving_progress progress;
};

/* ---- progress ---- */

/* Shows the progress, with so many shapes more. Returns false if the search is to end now. */
static bool show(struct moving_progress *progress, uint32_t more)
{
    early_end_go_on(progress->end, MIN(progress->done + more, progress->total), progress->total);
    return !early_end_is_due(progress->end);
}

static bool show_looks(void *data, uint32_t done, uint32_t total)
{
    (void)total;
    return show(data, done);
}

static bool go_on_looking(void *data, uint32_t done, uint32_t total)
{
    struct moving_progress *progress = data;
    (void)done;
    (void)total;
    return !early_end_is_due(progress->end);
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
    return show(progress, 0);
}

/* ---- shapes ---- */

bool moving_stages_can_plan(const struct pipeline_job *job)
{
    return job->stages > 1 && (job->width == 1 || stage_reduces_each(job));
}

static int by_estimate(const void *left, const void *right)
{
    const struct moving_shape *a = left, *b = right;
    return (a->estimate > b->estimate) - (a->estimate < b->estimate);
}

/* The shapes of jobs, which are listed at the same time. */
struct listing {
    struct moving_search *search;
    const struct pipeline_job *jobs; /* [count] */
    uint32_t count;
    GArray **shapes; /* [count] struct moving_shape; NULL of jobs that have none */
    bool *done;      /* [count] */
    gint found;      /* atomic: a job has shapes */
};

/* Returns whether stages of the job are to have plans. */
static bool is_wanted(const struct moving_search *search, const struct pipeline_job *job)
{
    return moving_stages_can_plan(job) &&
           (!pipeline_splits(job->schedule) || search->question->schedule == job->schedule);
}

static void list_job(void *data, uint32_t index)
{
    struct listing *listing = data;
    const struct pipeline_job *job = &listing->jobs[index];
    double bound;
    if (early_end_is_wanted(listing->search->progress.end) && g_atomic_int_get(&listing->found))
        return;
    listing->done[index] = true;
    if (!is_wanted(listing->search, job) || !moving_shapes_bound(job, &bound))
        return;
    GArray *shapes = listing->shapes[index] = moving_shapes_new();
    moving_shapes_add(shapes, job, bound);
    if (shapes->len)
        g_atomic_int_set(&listing->found, 1);
}

static bool show_listing(void *data, uint32_t done, uint32_t total)
{
    struct listing *listing = data;
    struct moving_progress *progress = &listing->search->progress;
    (void)total;
    show(progress, done);
    return !early_end_is_wanted(progress->end) || !g_atomic_int_get(&listing->found);
}

/* Takes the shapes of a job. */
static void take_shapes(struct moving_search *search, GArray *shapes)
{
    if (!shapes)
        return;
    if (shapes->len)
        search->least_bound = fmin(search->least_bound,
                                   g_array_index(shapes, struct moving_shape, 0).bound);
    g_array_append_vals(search->shapes, shapes->data, shapes->len);
    g_array_set_clear_func(shapes, NULL);
    g_array_unref(shapes);
}

/* Lists the shapes of the jobs that are left, behind those that were looked at. A search that is to
 * end lists no more than it needs to have any. */
static void list_shapes(struct moving_search *search)
{
    uint32_t left = search->count - search->listed, looked = search->shapes->len;
    g_autofree GArray **shapes = g_new0(GArray *, left);
    g_autofree bool *done = g_new0(bool, left);
    struct listing listing = {.search = search,
                              .jobs = search->jobs + search->listed,
                              .count = left,
                              .shapes = shapes,
                              .done = done};
    search->progress.done = search->listed;
    search->progress.total = search->count;
    workers_run(&(struct workers_job){.task = list_job,
                                      .data = &listing,
                                      .count = left,
                                      .threads = search->question->threads,
                                      .progress = show_listing,
                                      .progress_data = &listing});
    uint32_t j = 0;
    for (; j < left && done[j]; j++, search->listed++) {
        search->wanted += is_wanted(search, &listing.jobs[j]);
        take_shapes(search, shapes[j]);
    }
    for (; j < left; j++) /* behind one that was not listed any more */
        g_clear_pointer(&shapes[j], g_array_unref);
    if (search->shapes->len > looked)
        qsort(&g_array_index(search->shapes, struct moving_shape, looked),
              search->shapes->len - looked, sizeof(struct moving_shape), by_estimate);
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
    gint begun;                 /* atomic */
};

static void look(void *data, uint32_t index)
{
    struct looks *looks = data;
    struct moving_search *search = looks->search;
    if (early_end_is_due(search->progress.end))
        return;
    g_atomic_int_inc(&looks->begun);
    const struct stage_planning planning = {.question = search->question,
                                            .briefly = true,
                                            .most = search->best ? search->best->seconds : INFINITY,
                                            .threads = 1,
                                            .known = looks->beside ? search->best : NULL,
                                            .known_shape = &search->best_shape,
                                            .end = search->progress.end,
                                            .begin = go_on_to_stage,
                                            .progress = go_on_looking,
                                            .progress_data = &search->progress};
    looks->plans[index] = stage_plans_search(&planning, &looks->shapes[index],
                                             &looks->errors[index]);
    if (looks->plans[index])
        early_end_set_found(search->progress.end, true);
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
    struct looks looks = {search, shapes, count, beside, plans, errors, 0};
    workers_run(&(struct workers_job){.task = look,
                                      .data = &looks,
                                      .count = count,
                                      .threads = search->question->threads,
                                      .progress = show_looks,
                                      .progress_data = &search->progress});
    take_best(&looks);
    search->looks += beside ? 0 : (uint32_t)looks.begun;
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
    while (search->passed < most && go_on_looking(progress, 0, 0) &&
           (!search->best || shape_at(search, search->passed)->estimate < search->best->seconds)) {
        uint32_t count = MIN(LOOKS_AT_ONCE, most - search->passed);
        progress->done = search->passed;
        look_at(search, shape_at(search, search->passed), count, false);
        search->passed += count;
    }
}

/* Goes on to shapes beside the best one as long as one is better, but looks at no more than some. A
 * shape that is hardly better is taken, but nothing is looked at again because of it. */
static void look_beside(struct moving_search *search)
{
    GArray *beside = moving_shapes_beside(&search->best_shape);
    uint32_t next = 0, without = 0, looks = 0;
    while (without < beside->len && looks < MOST_BESIDE && go_on_looking(&search->progress, 0, 0)) {
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

/* ---- a search that is to end before it has a plan ---- */

static const struct pipeline_job *job_at(const struct moving_search *search, uint32_t index)
{
    return &search->jobs[index];
}

/* The fewer micro-batches, the shorter are the stages' iterations, and the search for their plans.
 */
static int by_micro_batches(const void *left, const void *right, void *data)
{
    const struct moving_search *search = data;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    uint32_t at_a = job_at(search, a)->micro_batches, at_b = job_at(search, b)->micro_batches;
    if (at_a != at_b)
        return at_a < at_b ? -1 : 1;
    return (a > b) - (a < b);
}

/* Looks at the shapes of a job, one after the other, until one of them has plans. */
static void look_at_job(struct moving_search *search, const struct pipeline_job *job)
{
    GArray *shapes = moving_shapes_new();
    double bound;
    if (is_wanted(search, job) && moving_shapes_bound(job, &bound))
        moving_shapes_add(shapes, job, bound);
    for (guint i = 0; i < shapes->len && !search->best; i++)
        look_at(search, &g_array_index(shapes, struct moving_shape, i), 1, false);
    search->hurried_shapes += shapes->len;
    g_array_unref(shapes);
}

/* Looks once for plans where they take the least time to find, if the search is to end and has
 * none. */
static void look_in_a_hurry(struct moving_search *search)
{
    if (search->hurried || search->best || !early_end_is_wanted(search->progress.end))
        return;
    search->hurried = true;
    g_autofree uint32_t *order = g_new(uint32_t, search->count);
    for (uint32_t j = 0; j < search->count; j++)
        order[j] = j;
    g_qsort_with_data(order, (gint)search->count, sizeof *order, by_micro_batches, search);
    for (uint32_t j = 0; j < search->count && !search->best; j++)
        look_at_job(search, job_at(search, order[j]));
}

static void look_for_plans(struct moving_search *search)
{
    do {
        look_in_a_hurry(search);
        if (!search->best)
            list_shapes(search);
        look_in_a_hurry(search);
        look_at_all(search);
    } while (!search->best && search->listed < search->count && search->passed < MOST_LOOKS);
}

/* ---- the best shape ---- */

/* Returns what is planned. Takes ownership of the plans. */
static struct moving_stages *finish(const struct pipeline_question *q,
                                    const struct moving_shape *shape, struct stage_plans *plans)
{
    struct moving_stages *moving = g_new0(struct moving_stages, 1);
    const struct pipeline_job *job = shape->job;
    moving->stages = job->stages;
    moving->width = job->width;
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
    const struct pipeline_question *q = progress->end->question;
    const struct stage_planning planning = {.question = q,
                                            .end = progress->end,
                                            .most = known ? known->seconds : INFINITY,
                                            .threads = q->threads,
                                            .begin = show_stage,
                                            .progress = show_search,
                                            .progress_data = progress};
    early_end_set_found(progress->end, known != NULL);
    if (!show(progress, 0))
        return known;
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
struct moving_stages *moving_stages_plan(struct early_end *end, const struct pipeline_job *job,
                                         const uint32_t *layers, const uint8_t *recompute,
                                         GError **error)
{
    const struct moving_shape shape = {
        .job = job, .recompute = (uint8_t *)recompute, .layers = (uint32_t *)layers};
    const struct pipeline_question *question = end->question;
    struct moving_progress progress = {.end = end, .total = job->stages};
    struct stage_plans *plans = plan_wholly(&progress, &shape,
                                            stage_plans_by_policy(question, &shape, NULL), error);
    struct moving_stages *moving = plans ? finish(question, &shape, plans) : NULL;
    if (moving)
        moving->stopped = early_end_was_early(end);
    return moving;
}

/* Other stages and other shapes may need more than the one that was looked at, so what would fit
 * that one is not said. */
static void refuse(const struct moving_search *search, GError **error)
{
    g_autofree char *why = search->error ? plan_lack_why(search->error) : NULL;
    if (why)
        g_set_error_literal(error, search->error->domain, search->error->code, why);
    else if (search->wanted)
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
                    "a stage's activations alone leave no room on its device");
}

struct moving_stages *moving_stages_search(struct early_end *end, const struct pipeline_job *jobs,
                                           uint32_t count, GError **error)
{
    const struct pipeline_question *question = end->question;
    struct moving_search search = {.question = question,
                                   .jobs = jobs,
                                   .count = count,
                                   .least_bound = INFINITY,
                                   .progress = {.end = end},
                                   .shapes = moving_shapes_new()};
    struct moving_stages *moving = NULL;
    look_for_plans(&search);
    if (search.best) {
        look_beside(&search);
        search.progress.done = MIN(search.shapes->len, MOST_LOOKS);
        search.best = plan_wholly(&search.progress, &search.best_shape, search.best, error);
        moving = finish(question, &search.best_shape, search.best);
        moving->bound_seconds = search.listed == count ? search.least_bound : 0;
        moving->shapes = MAX(search.shapes->len, search.hurried_shapes);
        moving->looks = search.looks;
        moving->stopped = early_end_was_early(end);
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
