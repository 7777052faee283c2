#include "planner/pipelines/pipeline_search.h"

#include "chunks/plan.h"
#include "planner/pipelines/cuts.h"
#include "planner/pipelines/pass_clock.h"
#include "sim/workers.h"

#include <math.h>
#include <string.h>

/* How many candidates are timed at least, at a time, and how many of the best are improved, by so
 * many cuts each. */
enum { RUNNERS_UP = 24, BATCH = 8, IMPROVED = 4, IMPROVEMENTS = 200 };

/* The ranks of a depth, as the platform spreads them. */
struct run_depth {
    uint32_t stages, width;
    struct platform *exchanges; /* NULL without a platform */
    struct costs *costs;
};

struct pipeline_run {
    const struct pipeline_question *question;
    GArray *depths, *candidates;
    struct pipeline_units *units;   /* of the candidates */
    struct pipeline_job *jobs;      /* [candidates] */
    uint32_t batch[BATCH], batched; /* candidates that are looked at at the same time */
    uint32_t shown;                 /* how many candidates before these were looked at */
    gint timed;                     /* atomic: a candidate is */
    struct early_end end;
};

/* ---- progress ---- */

/* Shows the progress. Returns false if the search is to end, and there is a plan. */
static bool show(void *data, uint32_t done, uint32_t total)
{
    struct pipeline_run *search = data;
    early_end_go_on(&search->end, done, total);
    return !early_end_is_due(&search->end);
}

/* ---- depths ---- */

static bool add_depth(struct pipeline_run *search, uint32_t stages, GError **error)
{
    const struct pipeline_question *q = search->question;
    struct run_depth depth = {.stages = stages, .width = q->gpus / stages};
    if (q->platform &&
        !(stages > 1 ? platform_spread_stages(q->platform, stages, depth.width, q->nodes, error)
                     : platform_spread_ranks(q->platform, depth.width, q->nodes, error)))
        return false;
    depth.exchanges = q->platform ? platform_copy_exchanges(q->platform) : NULL;
    if (!(depth.costs = costs_new(q->platform, q->link, error))) {
        platform_free(depth.exchanges);
        return false;
    }
    g_array_append_val(search->depths, depth);
    return true;
}

/* Of any number of stages, those are left out that cannot be spread over the nodes. */
static bool list_depths(struct pipeline_run *search, GError **error)
{
    const struct pipeline_question *q = search->question;
    g_autoptr(GError) last = NULL;
    if (q->stages)
        return add_depth(search, q->stages, error);
    for (uint32_t s = 1; s <= MIN(q->gpus, q->config->layers); s++)
        if (q->gpus % s == 0) {
            g_clear_error(&last);
            add_depth(search, s, &last);
        }
    if (search->depths->len > 0)
        return true;
    g_propagate_error(error, g_steal_pointer(&last)); /* a single stage is always tried */
    return false;
}

static void clear_depth(void *data)
{
    struct run_depth *depth = data;
    platform_free(depth->exchanges);
    costs_free(depth->costs);
}

/* ---- candidates ---- */

static struct pipeline_candidate *candidate_at(const struct pipeline_run *search, uint32_t index)
{
    return &g_array_index(search->candidates, struct pipeline_candidate, index);
}

/* Returns the job of a candidate. Describes its units if that has not been done; without them,
 * which is an error, it has none. */
static struct pipeline_job job_of(const struct pipeline_run *search,
                                  const struct pipeline_candidate *candidate, GError **error)
{
    const struct pipeline_question *q = search->question;
    guint d = 0;
    while (g_array_index(search->depths, struct run_depth, d).stages != candidate->stages)
        d++;
    const struct run_depth *depth = &g_array_index(search->depths, struct run_depth, d);
    struct pipeline_job job = {.stages = candidate->stages,
                               .width = candidate->width,
                               .micro_batches = candidate->micro_batches,
                               .schedule = candidate->schedule,
                               .parts = candidate->stage_parts,
                               .fast = q->fast,
                               .clips = q->clips,
                               .recompute = q->recompute,
                               .device_budget = q->device_budget,
                               .platform = depth->exchanges,
                               .costs = depth->costs};
    job.clips |= stage_reduces_each(&job);
    job.units = pipeline_units_of(search->units, &job, candidate->micro_batch, error);
    return job;
}

/* Returns whether the ranks of a stage share such a step, with enough micro-batches for all stages.
 */
static bool is_possible(const struct run_depth *depth, uint64_t sequences, uint32_t micro_batch)
{
    uint64_t of_rank = sequences / depth->width;
    return sequences % depth->width == 0 && of_rank % micro_batch == 0 &&
           of_rank / micro_batch >= depth->stages;
}

static void add_candidate(struct pipeline_run *search, const struct run_depth *depth,
                          uint32_t micro_batch, uint32_t schedule, uint32_t parts)
{
    const struct pipeline_question *q = search->question;
    const struct pipeline_candidate candidate = {.stages = depth->stages,
                                                 .width = depth->width,
                                                 .micro_batch = micro_batch,
                                                 .micro_batches = q->sequences / depth->width /
                                                                  micro_batch,
                                                 .schedule = (enum pipeline_schedule)schedule,
                                                 .stage_parts = parts,
                                                 .costs = g_new0(struct stage_cost, depth->stages)};
    g_array_append_val(search->candidates, candidate);
}

/* Micro-batches go through the parts in groups of as many as there are stages. */
static void add_interleaved(struct pipeline_run *search, const struct run_depth *depth,
                            uint32_t micro_batch)
{
    const struct pipeline_question *q = search->question;
    uint32_t micro_batches = q->sequences / depth->width / micro_batch;
    uint32_t most = MIN(q->config->layers / depth->stages, PIPELINE_PARTS_TRIED);
    if (micro_batches % depth->stages != 0)
        return;
    if (q->parts && q->parts <= q->config->layers / depth->stages)
        add_candidate(search, depth, micro_batch, PIPELINE_INTERLEAVED, q->parts);
    for (uint32_t parts = 2; !q->parts && parts <= most; parts++)
        add_candidate(search, depth, micro_batch, PIPELINE_INTERLEAVED, parts);
}

/* A single stage has no schedule. */
static void add_schedules(struct pipeline_run *search, const struct run_depth *depth,
                          uint32_t micro_batch)
{
    uint32_t asked = search->question->schedule;
    if (depth->stages == 1) {
        add_candidate(search, depth, micro_batch, PIPELINE_1F1B, 1);
        return;
    }
    for (uint32_t s = 0; s < PIPELINE_SCHEDULES; s++) {
        if (asked != PIPELINE_SCHEDULE_ANY && asked != s)
            continue;
        if (s == PIPELINE_INTERLEAVED)
            add_interleaved(search, depth, micro_batch);
        else
            add_candidate(search, depth, micro_batch, s, 1);
    }
}

/* ---- no candidate ---- */

/* Returns whether a step of so many sequences has a candidate of this depth. */
static bool suits(const struct pipeline_question *q, const struct run_depth *depth,
                  uint64_t sequences)
{
    uint32_t micro_batch = MAX(q->micro_batch, 1);
    if (!is_possible(depth, sequences, micro_batch))
        return false;
    return q->schedule != PIPELINE_INTERLEAVED || depth->stages == 1 ||
           (sequences / depth->width / micro_batch % depth->stages == 0 &&
            q->config->layers / depth->stages >= MAX(q->parts, 2));
}

bool pipeline_suits(const struct pipeline_question *question, uint32_t stages)
{
    const struct run_depth depth = {.stages = stages, .width = question->gpus / stages};
    return stages <= question->config->layers && question->gpus % stages == 0 &&
           suits(question, &depth, question->sequences);
}

/* Returns the least --micro-batches with which there is a candidate, at least those of the
 * question; 0 if there are none. As many as GPUs, or a multiple of that, suit every depth. */
static uint64_t suitable_micro_batches(const struct pipeline_run *search)
{
    const struct pipeline_question *q = search->question;
    uint64_t batch = MAX(q->batch, 1), first = (q->sequences + batch - 1) / batch;
    for (uint64_t count = first; count < first + q->gpus; count++)
        for (guint d = 0; d < search->depths->len; d++)
            if (suits(q, &g_array_index(search->depths, struct run_depth, d), count * batch))
                return count;
    return 0;
}

static bool refuse(const struct pipeline_run *search, GError **error)
{
    const struct pipeline_question *q = search->question;
    bool interleaved = q->schedule == PIPELINE_INTERLEAVED;
    uint64_t count = suitable_micro_batches(search);
    g_autofree char *stages = q->stages ? g_strdup_printf(" in %u stage%s", q->stages,
                                                          q->stages == 1 ? "" : "s")
                                        : g_strdup("");
    if (count)
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                    "%u sequence%s a step on %u GPUs%s: pipelines share a step's sequences evenly, "
                    "and each needs %s; --micro-batches %" G_GUINT64_FORMAT " would do",
                    q->sequences, q->sequences == 1 ? "" : "s", q->gpus, stages,
                    interleaved ? "a multiple of its number of stages in micro-batches"
                                : "at least as many micro-batches as it has stages",
                    count);
    else
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                    "--schedule interleaved: %u layers are too few for %u GPUs%s, because each of "
                    "a stage's parts, at least %u, has a layer of its own",
                    q->config->layers, q->gpus, stages, MAX(q->parts, 2));
    return false;
}

static bool list_candidates(struct pipeline_run *search, GError **error)
{
    const struct pipeline_question *q = search->question;
    uint32_t least = q->micro_batch ? q->micro_batch : 1;
    uint32_t most = q->micro_batch ? q->micro_batch : q->sequences;
    for (guint d = 0; d < search->depths->len; d++) {
        const struct run_depth *depth = &g_array_index(search->depths, struct run_depth, d);
        for (uint32_t b = least; b <= most; b++) {
            if (!is_possible(depth, q->sequences, b))
                continue;
            show(search, d, search->depths->len);
            guint first = search->candidates->len;
            add_schedules(search, depth, b);
            for (guint c = first; c < search->candidates->len; c++)
                if (!job_of(search, candidate_at(search, c), error).units)
                    return false;
        }
    }
    return search->candidates->len > 0 || refuse(search, error);
}

/* ---- bounds ---- */

static void bound(void *data, uint32_t index)
{
    struct pipeline_run *search = data;
    struct pipeline_candidate *candidate = candidate_at(search, index);
    const struct pipeline_job *job = &search->jobs[index];
    g_autofree uint32_t *ends = g_new0(uint32_t, job->stages);
    uint64_t bound_ns = 0;
    candidate->fits = cuts_find(job, ends, &bound_ns);
    candidate->bound_seconds = (double)bound_ns * 1e-9;
    if (!candidate->fits)
        candidate->short_bytes = cuts_shortage(job, ends);
    cuts_cost(job, ends, candidate->costs);
    candidate->bounded = true;
    if (candidate->fits)
        early_end_set_found(&search->end, true);
}

/* ---- times ---- */

/* Returns what recomputing the layer adds to a step. */
static double layer_again_ns(const struct pipeline_job *job, uint32_t layer)
{
    const struct unit_way *way = job->units->layer[layer].way;
    return (double)(job->micro_batches - 1) *
               (double)(way[UNIT_RECOMPUTED].backward_ns[UNIT_LATER] -
                        way[UNIT_KEPT].backward_ns[UNIT_LATER]) +
           (double)(way[UNIT_RECOMPUTED].backward_ns[UNIT_FIRST] -
                    way[UNIT_KEPT].backward_ns[UNIT_FIRST]);
}

/* Returns what the layers' recomputation adds to the work of a stage. */
static double recompute_ns(const struct pipeline_job *job, const struct stage_cost *cost)
{
    double ns = 0;
    for (uint32_t part = 0; part < job->parts; part++) {
        const struct stage_layers layers = stage_part(job, cost, part);
        for (uint32_t l = layers.first; l < layers.end; l++)
            ns += stage_recomputes(job, cost, l) ? layer_again_ns(job, l) : 0;
    }
    return ns;
}

static void set_parts(const struct pipeline_job *job, struct pipeline_candidate *candidate)
{
    double work_ns = 0, most_ns = 0, again_ns = 0;
    g_autofree struct stage_cost *alone = g_memdup2(candidate->costs,
                                                    job->stages * sizeof *candidate->costs);
    for (uint32_t s = 0; s < job->stages; s++) {
        const struct stage_cost *cost = &candidate->costs[s];
        again_ns += recompute_ns(job, cost);
        double computed_ns = (double)(cost->work_ns - cost->waits_ns);
        work_ns += computed_ns;
        most_ns = fmax(most_ns, computed_ns);
        alone[s].reduce_ns = 0;
    }
    double step_ns = candidate->step_seconds * 1e9, quiet_ns = pass_clock_step(job, alone, true);
    struct pipeline_parts *parts = &candidate->parts;
    parts->compute = (work_ns - again_ns) / job->stages * 1e-9;
    parts->recompute = again_ns / job->stages * 1e-9;
    parts->imbalance = (most_ns - work_ns / job->stages) * 1e-9;
    parts->bubble = (quiet_ns - most_ns) * 1e-9;
    parts->network = (step_ns - quiet_ns) * 1e-9;
}

/* Of the cut that the bound is of, and of the balanced one, takes the faster. */
static void time_candidate(void *data, uint32_t index)
{
    struct pipeline_run *search = data;
    uint32_t c = search->batch[index];
    const struct pipeline_job *job = &search->jobs[c];
    struct pipeline_candidate *candidate = candidate_at(search, c);
    struct stage_cost *costs = g_new0(struct stage_cost, job->stages);
    g_autofree uint32_t *ends = g_new0(uint32_t, job->stages);
    double step_ns = pass_clock_step(job, candidate->costs, false);
    if (job->parts == 1 && cuts_balance(job, ends) && cuts_cost(job, ends, costs)) {
        double balanced_ns = pass_clock_step(job, costs, false);
        if (balanced_ns < step_ns) {
            step_ns = balanced_ns;
            struct stage_cost *other = candidate->costs;
            candidate->costs = costs;
            costs = other;
        }
    }
    g_free(costs);
    candidate->step_seconds = step_ns * 1e-9;
    candidate->timed = true;
    g_atomic_int_set(&search->timed, 1);
}

static void improve_candidate(void *data, uint32_t index)
{
    struct pipeline_run *search = data;
    uint32_t c = search->batch[index];
    struct pipeline_candidate *candidate = candidate_at(search, c);
    double step_ns = candidate->step_seconds * 1e9;
    cuts_improve(&search->jobs[c], candidate->costs, &step_ns, IMPROVEMENTS, &search->end.wanted);
    candidate->step_seconds = step_ns * 1e-9;
}

static void describe_candidate(void *data, uint32_t index)
{
    struct pipeline_run *search = data;
    uint32_t c = search->batch[index];
    set_parts(&search->jobs[c], candidate_at(search, c));
}

/* Shows the progress. Returns false if the search is to end, and one of the candidates that fit is
 * timed. */
static bool show_times(void *data, uint32_t done, uint32_t total)
{
    struct pipeline_run *search = data;
    (void)done;
    (void)total;
    return show(search, search->shown, search->candidates->len) ||
           !g_atomic_int_get(&search->timed);
}

/* Does something with the candidates of the batch, and empties it. `progress` may be NULL. */
static void run_batch(struct pipeline_run *search, void (*task)(void *data, uint32_t index),
                      bool (*progress)(void *data, uint32_t done, uint32_t total))
{
    if (search->batched == 0)
        return;
    workers_run(&(struct workers_job){.task = task,
                                      .data = search,
                                      .count = search->batched,
                                      .threads = search->question->threads,
                                      .progress = progress,
                                      .progress_data = search});
    search->batched = 0;
}

static double best_seconds(const struct pipeline_run *search)
{
    double best = INFINITY;
    for (guint c = 0; c < search->candidates->len; c++)
        if (candidate_at(search, c)->timed)
            best = fmin(best, candidate_at(search, c)->step_seconds);
    return best;
}

/* Returns whether no candidate before it has this depth and this schedule. */
static bool is_first(const struct pipeline_run *search, uint32_t c)
{
    const struct pipeline_candidate *candidate = candidate_at(search, c);
    for (uint32_t i = 0; i < c; i++) {
        const struct pipeline_candidate *other = candidate_at(search, i);
        if (other->stages == candidate->stages && other->schedule == candidate->schedule)
            return false;
    }
    return true;
}

/* Times all candidates, in the order of their bounds, that may be faster than the best; and those
 * that people want to see beside it. */
static void time_candidates(struct pipeline_run *search)
{
    uint32_t timed = 0, count = search->candidates->len;
    for (uint32_t c = 0; c < count && candidate_at(search, c)->fits; c++) {
        if (search->batched == BATCH) {
            search->shown = c;
            run_batch(search, time_candidate, show_times);
            if (!show(search, c, count))
                return;
        }
        if (timed >= RUNNERS_UP && !is_first(search, c) &&
            candidate_at(search, c)->bound_seconds >= best_seconds(search))
            continue;
        search->batch[search->batched++] = c;
        timed++;
    }
    run_batch(search, time_candidate, show_times);
}

/* Improves the cuts of those candidates that are nearest to the best, if their bounds allow it. */
static void improve_candidates(struct pipeline_run *search)
{
    double best = best_seconds(search), before = 0;
    for (int i = 0; i < IMPROVED; i++) {
        uint32_t next = NO_INDEX;
        for (guint c = 0; c < search->candidates->len; c++) {
            const struct pipeline_candidate *candidate = candidate_at(search, c);
            if (candidate->timed && candidate->bound_seconds < best &&
                candidate->step_seconds > before &&
                (next == NO_INDEX ||
                 candidate->step_seconds < candidate_at(search, next)->step_seconds))
                next = c;
        }
        if (next == NO_INDEX)
            break;
        before = candidate_at(search, next)->step_seconds;
        search->batch[search->batched++] = next;
    }
    run_batch(search, improve_candidate, show_times);
}

static void describe_timed(struct pipeline_run *search)
{
    for (uint32_t c = 0; c < search->candidates->len; c++) {
        if (search->batched == BATCH)
            run_batch(search, describe_candidate, NULL);
        if (candidate_at(search, c)->timed)
            search->batch[search->batched++] = c;
    }
    run_batch(search, describe_candidate, NULL);
}

/* ---- the order of candidates ---- */

static int by_bound(const void *left, const void *right)
{
    const struct pipeline_candidate *a = left, *b = right;
    if (a->fits != b->fits)
        return a->fits ? -1 : 1;
    return (a->bound_seconds > b->bound_seconds) - (a->bound_seconds < b->bound_seconds);
}

static int by_rank(const void *left, const void *right)
{
    const struct pipeline_candidate *a = left, *b = right;
    if (a->timed != b->timed)
        return a->timed ? -1 : 1;
    if (a->timed)
        return (a->step_seconds > b->step_seconds) - (a->step_seconds < b->step_seconds);
    if (a->fits || b->fits)
        return by_bound(left, right);
    return (a->short_bytes > b->short_bytes) - (a->short_bytes < b->short_bytes);
}

static void set_jobs(struct pipeline_run *search)
{
    search->jobs = g_renew(struct pipeline_job, search->jobs, search->candidates->len);
    for (guint c = 0; c < search->candidates->len; c++)
        search->jobs[c] = job_of(search, candidate_at(search, c), NULL);
}

/* ---- the search ---- */

static void give_answer(struct pipeline_run *search, struct pipeline_answer *answer)
{
    const struct platform *platform = search->question->platform;
    answer->bound_seconds = candidate_at(search, 0)->bound_seconds;
    answer->knows_network = platform && platform_knows_exchanges(platform);
    g_array_sort(search->candidates, by_rank);
    answer->count = search->candidates->len;
    answer->candidates = (struct pipeline_candidate *)(void *)g_array_free(search->candidates,
                                                                           FALSE);
    search->candidates = NULL;
}

/* Looks for stages whose chunks move. Fails if the reason is not that they do not fit. */
static bool move(struct pipeline_run *search, struct pipeline_answer *answer, GError **error)
{
    g_autoptr(GError) why = NULL;
    answer->moving = moving_stages_search(&search->end, search->jobs, search->candidates->len,
                                          &why);
    if (why && !g_error_matches(why, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT)) {
        g_propagate_error(error, g_steal_pointer(&why));
        return false;
    }
    answer->unmoved = why ? g_strdup(why->message) : NULL;
    return true;
}

/* Plans the stages of a candidate that was timed. */
static struct moving_stages *plan_candidate(struct pipeline_run *search, uint32_t c, GError **error)
{
    const struct pipeline_candidate *candidate = candidate_at(search, c);
    const struct pipeline_job *job = &search->jobs[c];
    g_autofree uint8_t *recompute = g_new0(uint8_t, search->question->config->layers);
    g_autofree uint32_t *layers = g_new0(uint32_t, job->stages);
    for (uint32_t s = 0; s < job->stages; s++) {
        const struct stage_cost *cost = &candidate->costs[s];
        layers[s] = cost->end - cost->first;
        stage_mark_recomputed(job, cost, recompute);
    }
    return moving_stages_plan(&search->end, job, job->parts > 1 ? NULL : layers, recompute, error);
}

/* Times the candidates, and plans the stages of the best one, if that is wanted. */
static bool plan_best(struct pipeline_run *search, struct pipeline_answer *answer, GError **error)
{
    uint32_t best = 0;
    time_candidates(search);
    if (show(search, search->candidates->len, search->candidates->len))
        improve_candidates(search);
    describe_timed(search);
    for (uint32_t c = 1; c < search->candidates->len; c++)
        if (by_rank(candidate_at(search, c), candidate_at(search, best)) < 0)
            best = c;
    if (!search->question->wants_plans || !moving_stages_can_plan(&search->jobs[best]))
        return true;
    return (answer->moving = plan_candidate(search, best, error)) != NULL;
}

/* Bounds the candidates, and sorts them by their bounds. If the search is to end, it goes on with
 * those that have bounds once one of them fits. */
static void bound_candidates(struct pipeline_run *search)
{
    GArray *candidates = search->candidates;
    set_jobs(search);
    workers_run(&(struct workers_job){.task = bound,
                                      .data = search,
                                      .count = candidates->len,
                                      .threads = search->question->threads,
                                      .progress = show,
                                      .progress_data = search});
    for (guint c = candidates->len; c-- > 0;)
        if (!candidate_at(search, c)->bounded)
            g_array_remove_index(candidates, c);
    g_array_sort(candidates, by_bound);
    set_jobs(search);
}

static bool find_plans(struct pipeline_run *search, struct pipeline_answer *answer, GError **error)
{
    return candidate_at(search, 0)->fits ? plan_best(search, answer, error)
                                         : move(search, answer, error);
}

static struct pipeline_answer *run_search(struct pipeline_run *search, GError **error)
{
    struct pipeline_answer *answer = g_new0(struct pipeline_answer, 1);
    show(search, 0, search->candidates->len);
    bound_candidates(search);
    if (!find_plans(search, answer, error)) {
        pipeline_answer_free(answer);
        return NULL;
    }
    answer->stopped = early_end_was_early(&search->end);
    give_answer(search, answer);
    return answer;
}

static void clear_candidate(void *data)
{
    g_free(((struct pipeline_candidate *)data)->costs);
}

struct pipeline_answer *pipeline_search(const struct pipeline_question *question, GError **error)
{
    struct pipeline_run search = {
        .question = question,
        .depths = g_array_new(FALSE, FALSE, sizeof(struct run_depth)),
        .units = pipeline_units_new(question),
        .candidates = g_array_new(FALSE, FALSE, sizeof(struct pipeline_candidate))};
    struct pipeline_answer *answer = NULL;
    early_end_init(&search.end, question);
    g_array_set_clear_func(search.depths, clear_depth);
    g_array_set_clear_func(search.candidates, clear_candidate);
    if (list_depths(&search, error) && list_candidates(&search, error))
        answer = run_search(&search, error);
    g_clear_pointer(&search.candidates, g_array_unref);
    g_array_unref(search.depths);
    pipeline_units_free(search.units);
    g_free(search.jobs);
    return answer;
}

void pipeline_answer_free(struct pipeline_answer *answer)
{
    if (!answer)
        return;
    for (uint32_t c = 0; c < answer->count; c++)
        clear_candidate(&answer->candidates[c]);
    moving_stages_free(answer->moving);
    g_free(answer->unmoved);
    g_free(answer->candidates);
    g_free(answer);
}
