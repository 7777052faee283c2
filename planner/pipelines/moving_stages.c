#include "planner/pipelines/moving_stages.h"

#include "models/pipeline_derive.h"
#include "planner/pipelines/cuts.h"
#include "planner/pipelines/pass_clock.h"
#include "planner/search/search.h"
#include "sim/baselines.h"
#include "sim/operator_times.h"
#include "sim/sizes.h"
#include "sim/workers.h"

#include <math.h>
#include <string.h>

/* How many shapes are looked at, at most, and at the same time; how many borders of each are
 * tried, at most; with which of the layouts that a sweep has, whose chunks are as large as the
 * mean tensor; and how many moments ahead chunks are fetched. */
enum { MOST_LOOKS = 24, LOOKS_AT_ONCE = 4, MOST_BORDERS = 16, LOOK_LAYOUT = 4, LOOK_AHEAD = 16 };

/* The shares of a device that activations may take in different shapes: the smaller, the more
 * layers are recomputed, and the more model data stays. */
static const double shares[] = {0.8, 0.5, 0.25};

/* A job with recomputed layers and a cut. */
struct moving_shape {
    const struct pipeline_job *job;
    uint8_t *recompute; /* [layers] */
    uint32_t *layers;   /* [stages]; NULL if they have several parts */
    double estimate;    /* seconds of a step, to begin with those that promise most */
    double bound;       /* seconds; no shape of the job takes less */
    double seconds;     /* of the best first look; INFINITY if nothing fits */
    bool on_host;       /* where that has the updates */
    GError *error;      /* why nothing fits */
};

/* How far a search is, in shapes and stages. */
struct moving_progress {
    const struct pipeline_question *question;
    uint32_t done, total;
    bool stopped;
};

struct looks {
    const struct pipeline_question *question;
    uint32_t jobs;  /* that are looked at */
    GArray *shapes; /* by their estimates */
    uint32_t first; /* of those that are looked at at the same time */
    struct moving_progress progress;
};

/* ---- progress ---- */

/* Shows the progress, with so many shapes more. Returns false if the search is to end. */
static bool show(struct moving_progress *progress, uint32_t more)
{
    const struct pipeline_question *q = progress->question;
    if (q->progress && !q->progress(q->progress_data, MIN(progress->done + more, progress->total),
                                    progress->total))
        progress->stopped = true;
    return !progress->stopped;
}

/* Looks that have begun go on, because one that fits is needed. */
static bool show_looks(void *data, uint32_t done, uint32_t total)
{
    (void)total;
    show(data, done);
    return true;
}

static bool show_search(void *data, uint32_t done, uint32_t total)
{
    (void)done;
    (void)total;
    return show(data, 0);
}

/* ---- shapes ---- */

/* Returns the job with chunks that come and go, if activations take at most a share of the device.
 */
static struct pipeline_job moving_job(const struct pipeline_job *job, double share)
{
    struct pipeline_job moving = *job;
    moving.moves = true;
    moving.device_bytes = job->device_budget;
    moving.device_budget = (uint64_t)((double)job->device_budget * share);
    return moving;
}

/* Bounds the step of a job, whatever is recomputed, wherever it is cut. */
static bool bound(const struct pipeline_job *job, double *seconds)
{
    g_autofree uint32_t *ends = g_new0(uint32_t, job->stages);
    const struct pipeline_job moving = moving_job(job, 1);
    uint64_t chain_ns;
    if (!cuts_find(&moving, ends, &chain_ns))
        return false;
    *seconds = (double)chain_ns * 1e-9;
    return true;
}

/* Adds a cut of a job whose activations take at most a share of the device: from the balanced one,
 * layers go to neighbours as long as that helps. Adds none if no cut fits, or if it recomputes the
 * same layers as the shape before. */
static void add_shape(struct looks *looks, const struct pipeline_job *job, double job_bound,
                      double share)
{
    const struct moving_shape *last = looks->shapes->len
                                          ? &g_array_index(looks->shapes, struct moving_shape,
                                                           looks->shapes->len - 1)
                                          : NULL;
    uint32_t layers = job->units->layers;
    g_autofree uint32_t *ends = g_new0(uint32_t, job->stages);
    g_autofree struct stage_cost *costs = g_new0(struct stage_cost, job->stages);
    const struct pipeline_job moving = moving_job(job, share);
    if ((job->parts == 1 && !cuts_balance(&moving, ends)) || !cuts_cost(&moving, ends, costs))
        return;
    double step_ns = pass_clock_step(&moving, costs, false);
    cuts_improve(&moving, costs, &step_ns, MOST_BORDERS);
    struct moving_shape shape = {.job = job,
                                 .recompute = g_new0(uint8_t, layers),
                                 .estimate = step_ns * 1e-9,
                                 .bound = job_bound,
                                 .seconds = INFINITY};
    for (uint32_t s = 0; s < job->stages; s++)
        stage_mark_recomputed(&moving, &costs[s], shape.recompute);
    if (last && last->job == job && memcmp(last->recompute, shape.recompute, layers) == 0) {
        g_free(shape.recompute);
        return;
    }
    if (job->parts == 1) {
        shape.layers = g_new(uint32_t, job->stages);
        for (uint32_t s = 0; s < job->stages; s++)
            shape.layers[s] = costs[s].end - costs[s].first;
    }
    g_array_append_val(looks->shapes, shape);
}

static int by_estimate(const void *left, const void *right)
{
    const struct moving_shape *a = left, *b = right;
    return (a->estimate > b->estimate) - (a->estimate < b->estimate);
}

static void clear_shape(void *data)
{
    struct moving_shape *shape = data;
    g_free(shape->recompute);
    g_free(shape->layers);
    g_clear_error(&shape->error);
}

bool moving_stages_can_plan(const struct pipeline_job *job)
{
    bool newest = job->schedule == PIPELINE_2BW && job->units->element_bytes == 2;
    return job->width == 1 && job->stages > 1 && !newest;
}

static void list_shapes(struct looks *looks, const struct pipeline_job *jobs, uint32_t count)
{
    const struct pipeline_question *q = looks->question;
    for (uint32_t j = 0; j < count; j++) {
        const struct pipeline_job *job = &jobs[j];
        bool special = pipeline_splits(job->schedule);
        double job_bound;
        if (!moving_stages_can_plan(job) || (special && q->schedule != job->schedule))
            continue;
        if (looks->shapes->len && !show(&looks->progress, 0))
            break;
        looks->jobs++;
        if (!bound(job, &job_bound))
            continue;
        for (size_t i = 0; i < G_N_ELEMENTS(shares); i++)
            add_shape(looks, job, job_bound, shares[i]);
    }
    g_array_sort(looks->shapes, by_estimate);
}

/* ---- stages ---- */

static struct pipeline_shape cut_of(const struct moving_shape *shape)
{
    return (struct pipeline_shape){.stages = shape->job->stages,
                                   .schedule = shape->job->schedule,
                                   .layers = shape->layers,
                                   .parts = shape->job->parts};
}

/* Returns the traces of the stages, [stages], with their updates on the device. */
static struct trace **cut(const struct pipeline_question *q, const struct moving_shape *shape,
                          GError **error)
{
    const struct pipeline_job *job = shape->job;
    const struct pipeline_shape to = cut_of(shape);
    struct model_job step = {.choices = {.batch = job->units->micro_batch,
                                         .micro_batches = job->micro_batches,
                                         .recompute = shape->recompute,
                                         .frozen = (uint8_t *)q->frozen},
                             .sequence = q->sequence,
                             .precision = q->precision,
                             .delay = job->schedule == PIPELINE_2BW,
                             .split = pipeline_splits(job->schedule)};
    step.unfused = q->recognised && q->recognised->iteration->job.unfused;
    step.gelu_apart = q->recognised && q->recognised->iteration->job.gelu_apart;
    struct model_iteration *whole = pipeline_describe(q, &step, error);
    struct trace **traces = whole ? pipeline_traces_of(whole, &to, q->platform, error) : NULL;
    for (uint32_t s = 0; traces && s < job->stages; s++)
        operator_times_leave_exchanges(traces[s], job->costs);
    model_iteration_free(whole);
    return traces;
}

/* Replays the stages together. Returns the seconds of a step. */
static double replay_stages(const struct pipeline_job *job, struct trace *const *traces,
                            struct plan *const *plans, struct stage_result *results)
{
    uint32_t stages = job->stages;
    g_autofree struct stage_view *views = g_new0(struct stage_view, stages);
    g_autofree struct accesses **accesses = g_new0(struct accesses *, stages);
    g_autofree struct non_model **places = g_new0(struct non_model *, stages);
    g_autofree struct timeline **timelines = g_new0(struct timeline *, stages);
    struct stage_messages *messages = stage_messages_new((const struct trace *const *)traces,
                                                         stages, NULL);
    g_assert(messages);
    for (uint32_t s = 0; s < stages; s++) {
        places[s] = non_model_place(traces[s]);
        accesses[s] = accesses_new(traces[s], plans[s]->layout, places[s]->extent);
        views[s] = (struct stage_view){plans[s], {traces[s], accesses[s], job->costs}};
        timelines[s] = timeline_new();
    }
    stages_replay(views, messages, timelines, results);
    for (uint32_t s = 0; s < stages; s++) {
        accesses_free(accesses[s]);
        non_model_free(places[s]);
        timeline_free(timelines[s]);
    }
    stage_messages_free(messages);
    return results[0].figures.iteration_seconds;
}

static void free_plans(struct plan **plans, uint32_t stages)
{
    for (uint32_t s = 0; plans && s < stages; s++)
        plan_free(plans[s]);
    g_free(plans);
}

/* ---- first looks ---- */

static uint64_t host_budget(const struct pipeline_question *q)
{
    return q->host_budget ? q->host_budget
           : q->platform  ? platform_host_room(q->platform)
                          : UINT64_MAX;
}

static struct plan *plan_by_policy(const struct pipeline_question *q,
                                   const struct pipeline_job *job, const struct trace *trace,
                                   GError **error)
{
    g_autoptr(GPtrArray) layouts = layout_list_parse(NULL, NULL, trace, error);
    if (!layouts)
        return NULL;
    const struct named_layout *named = g_ptr_array_index(layouts,
                                                         MIN(LOOK_LAYOUT, layouts->len - 1));
    struct non_model *places = non_model_place(trace);
    struct baselines baselines = {.trace = trace,
                                  .layout = named->layout,
                                  .non_model = places->extent,
                                  .costs = job->costs,
                                  .platform = q->platform};
    const struct dry_run_options options = {.device_budget = sizes_arena(q->device_budget, trace),
                                            .host_budget = host_budget(q),
                                            .policy = &policy_opt,
                                            .look_ahead = LOOK_AHEAD};
    baselines_open(&baselines);
    struct plan *plan = baselines_policy(&baselines, &options, error);
    baselines_close(&baselines);
    non_model_free(places);
    return plan;
}

/* Moves all updates of the stages to the host. */
static bool place_on_host(const struct pipeline_question *q, uint32_t stages, struct trace **traces,
                          GError **error)
{
    for (uint32_t s = 0; s < stages; s++) {
        g_autofree uint8_t *on_host = g_new(uint8_t, traces[s]->tensor_count);
        memset(on_host, 1, traces[s]->tensor_count);
        struct trace *placed = model_place_updates(traces[s], on_host, q->platform, error);
        if (!placed)
            return false;
        trace_free(traces[s]);
        traces[s] = placed;
    }
    return true;
}

/* Returns the policy's plans of the stages, [stages], or NULL if one does not fit. */
static struct plan **plan_all_by_policy(const struct pipeline_question *q,
                                        const struct pipeline_job *job, struct trace *const *traces,
                                        GError **error)
{
    struct plan **plans = g_new0(struct plan *, job->stages);
    for (uint32_t s = 0; s < job->stages; s++)
        if (!(plans[s] = plan_by_policy(q, job, traces[s], error))) {
            g_prefix_error(error, "stage %u: ", s);
            free_plans(plans, job->stages);
            return NULL;
        }
    return plans;
}

/* Looks at the shape with its updates on one side. */
static void look(const struct pipeline_question *q, struct moving_shape *shape, bool on_host)
{
    const struct pipeline_job *job = shape->job;
    g_clear_error(&shape->error);
    struct trace **traces = cut(q, shape, &shape->error);
    struct plan **plans = NULL;
    if (traces && (!on_host || place_on_host(q, job->stages, traces, &shape->error)))
        plans = plan_all_by_policy(q, job, traces, &shape->error);
    if (plans) {
        struct stage_result *of = g_new0(struct stage_result, job->stages);
        double seconds = replay_stages(job, traces, plans, of);
        stage_results_free(of, job->stages);
        if (seconds < shape->seconds) {
            shape->seconds = seconds;
            shape->on_host = on_host;
        }
    }
    free_plans(plans, job->stages);
    pipeline_traces_free(traces, job->stages);
}

static void look_at(void *data, uint32_t index)
{
    struct looks *looks = data;
    struct moving_shape *shape = &g_array_index(looks->shapes, struct moving_shape,
                                                looks->first + index);
    look(looks->question, shape, false);
    look(looks->question, shape, true);
}

static struct moving_shape *shape_at(const struct looks *looks, uint32_t index)
{
    return &g_array_index(looks->shapes, struct moving_shape, index);
}

/* Looks at shapes in the order of their estimates, until the next one's is not below the best. */
static void look_at_all(struct looks *looks)
{
    double best = INFINITY;
    struct moving_progress *progress = &looks->progress;
    uint32_t most = MIN(looks->shapes->len, MOST_LOOKS);
    progress->total = most + (most ? shape_at(looks, 0)->job->stages : 0);
    while (looks->first < most && shape_at(looks, looks->first)->estimate < best &&
           !(progress->stopped && isfinite(best))) {
        uint32_t count = MIN(LOOKS_AT_ONCE, most - looks->first);
        progress->done = looks->first;
        workers_run(&(struct workers_job){.task = look_at,
                                          .data = looks,
                                          .count = count,
                                          .threads = looks->question->threads,
                                          .progress = show_looks,
                                          .progress_data = progress});
        for (uint32_t i = 0; i < count; i++)
            best = fmin(best, shape_at(looks, looks->first++)->seconds);
    }
}

/* ---- the best shape ---- */

static struct moving_stages *begin(const struct pipeline_question *q,
                                   const struct moving_shape *shape)
{
    struct moving_stages *moving = g_new0(struct moving_stages, 1);
    const struct pipeline_job *job = shape->job;
    uint32_t stages = job->stages;
    moving->stages = stages;
    moving->parts = job->parts;
    moving->micro_batch = job->units->micro_batch;
    moving->micro_batches = job->micro_batches;
    moving->schedule = job->schedule;
    moving->recompute = g_memdup2(shape->recompute, q->config->layers);
    moving->layers = shape->layers ? g_memdup2(shape->layers, stages * sizeof *shape->layers)
                                   : NULL;
    moving->results = g_new0(struct stage_result, stages);
    return moving;
}

/* Plans every stage by the search for one rank. */
static bool search_stages(const struct pipeline_job *job, struct moving_progress *progress,
                          struct moving_stages *moving, struct trace **traces, GError **error)
{
    const struct pipeline_question *q = progress->question;
    struct search_options options = {.objective = OBJECTIVE_TIME,
                                     .host_budget = host_budget(q),
                                     .costs = job->costs,
                                     .platform = q->platform,
                                     .seed = q->seed,
                                     .time_limit = q->time_limit / job->stages,
                                     .threads = q->threads,
                                     .progress = show_search,
                                     .progress_data = progress};
    for (uint32_t s = 0; s < job->stages; s++) {
        progress->done = progress->total - job->stages + s;
        options.device_budget = sizes_arena(q->device_budget, traces[s]);
        struct search_result *result = search_plan(traces[s], &options, error);
        if (!result)
            return false;
        moving->plans[s] = g_steal_pointer(&result->plan);
        moving->traces[s] = g_steal_pointer(&result->trace);
        search_result_free(result);
    }
    return true;
}

/* Takes the policy's plans, as they were looked at. */
static bool take_policy(const struct pipeline_question *q, const struct moving_shape *shape,
                        struct moving_stages *moving, struct trace **traces, GError **error)
{
    const struct pipeline_job *job = shape->job;
    if (shape->on_host && !place_on_host(q, job->stages, traces, error))
        return false;
    free_plans(moving->plans, job->stages);
    pipeline_traces_free(moving->traces, job->stages);
    moving->plans = plan_all_by_policy(q, job, traces, error);
    moving->traces = g_new0(struct trace *, job->stages);
    for (uint32_t s = 0; s < job->stages; s++)
        moving->traces[s] = g_steal_pointer(&traces[s]);
    return moving->plans != NULL;
}

static void replay_anew(const struct pipeline_job *job, struct moving_stages *moving)
{
    stage_results_free(moving->results, job->stages);
    moving->results = g_new0(struct stage_result, job->stages);
    moving->step_seconds = replay_stages(job, moving->traces, moving->plans, moving->results);
}

/* Returns the better one of the search's plans and the policy's. */
static struct moving_stages *plan_shape(struct moving_progress *progress,
                                        const struct moving_shape *shape, GError **error)
{
    const struct pipeline_question *q = progress->question;
    struct moving_stages *moving = begin(q, shape);
    uint32_t stages = shape->job->stages;
    struct trace **traces = cut(q, shape, error);
    moving->plans = g_new0(struct plan *, stages);
    moving->traces = g_new0(struct trace *, stages);
    bool ok = traces && search_stages(shape->job, progress, moving, traces, error);
    if (ok)
        replay_anew(shape->job, moving);
    if (ok && shape->seconds < moving->step_seconds) {
        ok = take_policy(q, shape, moving, traces, error);
        if (ok)
            replay_anew(shape->job, moving);
    }
    pipeline_traces_free(traces, stages);
    moving->stopped = progress->stopped;
    if (!ok)
        g_clear_pointer(&moving, moving_stages_free);
    return moving;
}

/* Everything may fit, and then a policy's plans move nothing: no plan of the search may be slower.
 */
struct moving_stages *moving_stages_plan(const struct pipeline_question *question,
                                         const struct pipeline_job *job, const uint32_t *layers,
                                         const uint8_t *recompute, GError **error)
{
    struct moving_shape shape = {.job = job,
                                 .recompute = (uint8_t *)recompute,
                                 .layers = (uint32_t *)layers,
                                 .seconds = INFINITY};
    struct moving_progress progress = {.question = question, .total = job->stages};
    look(question, &shape, false);
    g_clear_error(&shape.error);
    return plan_shape(&progress, &shape, error);
}

static struct moving_shape *best_of(const struct looks *looks)
{
    struct moving_shape *best = NULL;
    for (uint32_t i = 0; i < looks->first; i++)
        if (!best || shape_at(looks, i)->seconds < best->seconds)
            best = shape_at(looks, i);
    return best;
}

static double least_bound(const struct looks *looks)
{
    double least = INFINITY;
    for (guint i = 0; i < looks->shapes->len; i++)
        least = fmin(least, shape_at(looks, i)->bound);
    return least;
}

struct moving_stages *moving_stages_search(const struct pipeline_question *question,
                                           const struct pipeline_job *jobs, uint32_t count,
                                           GError **error)
{
    struct looks looks = {.question = question,
                          .progress = {.question = question, .total = count},
                          .shapes = g_array_new(FALSE, FALSE, sizeof(struct moving_shape))};
    struct moving_stages *moving = NULL;
    g_array_set_clear_func(looks.shapes, clear_shape);
    list_shapes(&looks, jobs, count);
    look_at_all(&looks);
    struct moving_shape *best = best_of(&looks);
    if (best && isinf(best->seconds))
        g_propagate_error(error, g_steal_pointer(&best->error));
    else if (!best && looks.jobs)
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
                    "a stage's activations alone leave no room on its device");
    else if (best)
        moving = plan_shape(&looks.progress, best, error);
    if (moving) {
        moving->bound_seconds = least_bound(&looks);
        moving->shapes = looks.shapes->len;
        moving->looks = looks.first;
    }
    g_array_unref(looks.shapes);
    return moving;
}

void moving_stages_free(struct moving_stages *moving)
{
    if (!moving)
        return;
    free_plans(moving->plans, moving->stages);
    pipeline_traces_free(moving->traces, moving->stages);
    stage_results_free(moving->results, moving->stages);
    g_free(moving->recompute);
    g_free(moving->layers);
    g_free(moving);
}
