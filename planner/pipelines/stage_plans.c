#include "planner/pipelines/stage_plans.h"

#include "models/pipeline_derive.h"
#include "planner/search/search.h"
#include "sim/baselines.h"
#include "sim/operator_times.h"
#include "sim/sizes.h"

/* The policy's plans have one of the layouts of a sweep, whose chunks are as large as the mean
 * tensor, and fetch chunks so many moments ahead. */
enum { POLICY_LAYOUT = 4, POLICY_LOOK_AHEAD = 16 };

/* ---- traces ---- */

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
                                         .micro_batches = job->micro_batches * job->width,
                                         .recompute = shape->recompute,
                                         .frozen = (uint8_t *)q->frozen},
                             .sequence = q->sequence,
                             .precision = q->precision,
                             .ranks = job->width,
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

/* ---- all stages ---- */

static struct stage_plans *begin(uint32_t stages)
{
    struct stage_plans *plans = g_new0(struct stage_plans, 1);
    plans->stages = stages;
    plans->traces = g_new0(struct trace *, stages);
    plans->plans = g_new0(struct plan *, stages);
    plans->borrowed = g_new0(bool, stages);
    plans->results = g_new0(struct stage_result, stages);
    return plans;
}

void stage_plans_free(struct stage_plans *plans)
{
    if (!plans)
        return;
    for (uint32_t s = 0; s < plans->stages; s++)
        if (!plans->borrowed[s]) {
            trace_free(plans->traces[s]);
            plan_free(plans->plans[s]);
        }
    stage_results_free(plans->results, plans->stages);
    g_free(plans->traces);
    g_free(plans->plans);
    g_free(plans->borrowed);
    g_free(plans);
}

void stage_plans_adopt(struct stage_plans *plans, struct stage_plans *owner)
{
    for (uint32_t s = 0; s < plans->stages; s++)
        if (plans->borrowed[s]) {
            g_assert(!owner->borrowed[s] && owner->plans[s] == plans->plans[s]);
            plans->borrowed[s] = false;
            owner->borrowed[s] = true;
        }
}

/* Replays the stages together. */
static void replay_stages(const struct pipeline_job *job, struct stage_plans *plans)
{
    uint32_t stages = plans->stages;
    g_autofree struct stage_view *views = g_new0(struct stage_view, stages);
    g_autofree struct accesses **accesses = g_new0(struct accesses *, stages);
    g_autofree struct non_model **places = g_new0(struct non_model *, stages);
    g_autofree struct timeline **timelines = g_new0(struct timeline *, stages);
    struct stage_messages *messages = stage_messages_new((const struct trace *const *)plans->traces,
                                                         stages, NULL);
    g_assert(messages);
    for (uint32_t s = 0; s < stages; s++) {
        const struct trace *trace = plans->traces[s];
        places[s] = non_model_place(trace);
        accesses[s] = accesses_new(trace, plans->plans[s]->layout, places[s]->extent);
        views[s] = (struct stage_view){plans->plans[s], {trace, accesses[s], job->costs}};
        timelines[s] = timeline_new();
    }
    stages_replay(views, messages, timelines, plans->results);
    for (uint32_t s = 0; s < stages; s++) {
        accesses_free(accesses[s]);
        non_model_free(places[s]);
        timeline_free(timelines[s]);
    }
    stage_messages_free(messages);
    plans->seconds = plans->results[0].figures.iteration_seconds;
}

/* Times the plans if all stages have one; otherwise frees them and returns NULL. */
static struct stage_plans *finish(const struct pipeline_job *job, struct stage_plans *plans,
                                  bool complete)
{
    if (complete)
        replay_stages(job, plans);
    else
        g_clear_pointer(&plans, stage_plans_free);
    return plans;
}

static uint64_t host_budget(const struct pipeline_question *q)
{
    return q->host_budget ? q->host_budget
           : q->platform  ? platform_host_room(q->platform)
                          : UINT64_MAX;
}

/* ---- plans of a search ---- */

/* Sets the plan of a stage and its trace. Returns false if there is none, or none that is of use.
 */
static bool search_stage(const struct stage_planning *planning, const struct pipeline_job *job,
                         const struct trace *trace, uint32_t s, struct stage_plans *plans,
                         GError **error)
{
    const struct pipeline_question *q = planning->question;
    const struct search_options options = {
        .objective = OBJECTIVE_TIME,
        .device_budget = sizes_arena(q->device_budget, trace),
        .host_budget = host_budget(q),
        .costs = job->costs,
        .platform = q->platform,
        .seed = q->seed,
        .time_limit = planning->briefly ? 0 : early_end_share(planning->end, job->stages - s),
        .threads = planning->threads,
        .hurry = &planning->end->wanted,
        .progress = planning->progress,
        .progress_data = planning->progress_data};
    if (!planning->begin(planning->progress_data, s))
        return false;
    struct search_result *result = (planning->briefly ? search_briefly
                                                      : search_plan)(trace, &options, error);
    if (!result) {
        g_prefix_error(error, "stage %u: ", s);
        return false;
    }
    if (result->stopped)
        early_end_note_cut(planning->end);
    plans->plans[s] = g_steal_pointer(&result->plan);
    plans->traces[s] = g_steal_pointer(&result->trace);
    search_result_free(result);
    return plans->plans[s]->predicted.iteration_seconds < planning->most;
}

/* Borrows the stages that are known. */
static void borrow(const struct stage_planning *planning, const struct moving_shape *shape,
                   struct stage_plans *plans)
{
    const struct stage_plans *known = planning->known;
    for (uint32_t s = 0; known && s < plans->stages; s++)
        if (moving_shape_same_stage(shape, planning->known_shape, s)) {
            plans->borrowed[s] = true;
            plans->traces[s] = known->traces[s];
            plans->plans[s] = known->plans[s];
        }
}

struct stage_plans *stage_plans_search(const struct stage_planning *planning,
                                       const struct moving_shape *shape, GError **error)
{
    uint32_t stages = shape->job->stages;
    struct trace **traces = cut(planning->question, shape, error);
    struct stage_plans *plans = begin(stages);
    bool ok = traces != NULL;
    borrow(planning, shape, plans);
    for (uint32_t s = 0; s < stages && ok; s++)
        ok = plans->borrowed[s] || search_stage(planning, shape->job, traces[s], s, plans, error);
    pipeline_traces_free(traces, stages);
    return finish(shape->job, plans, ok);
}

/* ---- plans of a policy ---- */

static struct plan *plan_by_policy(const struct pipeline_question *q,
                                   const struct pipeline_job *job, const struct trace *trace,
                                   GError **error)
{
    g_autoptr(GPtrArray) layouts = layout_list_parse(NULL, NULL, trace, error);
    if (!layouts)
        return NULL;
    const struct named_layout *named = g_ptr_array_index(layouts,
                                                         MIN(POLICY_LAYOUT, layouts->len - 1));
    struct non_model *places = non_model_place(trace);
    struct baselines baselines = {.trace = trace,
                                  .layout = named->layout,
                                  .non_model = places->extent,
                                  .costs = job->costs,
                                  .platform = q->platform};
    const struct dry_run_options options = {.device_budget = sizes_arena(q->device_budget, trace),
                                            .host_budget = host_budget(q),
                                            .policy = &policy_opt,
                                            .look_ahead = POLICY_LOOK_AHEAD};
    baselines_open(&baselines);
    struct plan *plan = baselines_policy(&baselines, &options, error);
    baselines_close(&baselines);
    non_model_free(places);
    return plan;
}

struct stage_plans *stage_plans_by_policy(const struct pipeline_question *question,
                                          const struct moving_shape *shape, GError **error)
{
    uint32_t stages = shape->job->stages;
    struct trace **traces = cut(question, shape, error);
    struct stage_plans *plans = begin(stages);
    bool ok = traces != NULL;
    for (uint32_t s = 0; s < stages && ok; s++) {
        plans->traces[s] = g_steal_pointer(&traces[s]);
        plans->plans[s] = plan_by_policy(question, shape->job, plans->traces[s], error);
        ok = plans->plans[s] != NULL;
    }
    pipeline_traces_free(traces, stages);
    return finish(shape->job, plans, ok);
}
