#include "planner/search.h"

#include "planner/bound.h"
#include "planner/candidate.h"
#include "sim/workers.h"

#include <math.h>
#include <string.h>

/* Every layout is tried; those that did best are tried again with more effort. */
enum {
    ROUNDS_FIRST = 400,
    ROUNDS_AGAIN = 4000,
    FINALISTS = 6,
    BOUND_ROUNDS = 400,
};

/* Plans as fast as this, relative to the fastest, are chosen by what they move; and by time those
 * that move less than one part in so many more than the least. */
#define AS_FAST 1.002
#define AS_LEAN 1000

/* What one task has found. */
struct outcome {
    uint32_t choice; /* index of the layout */
    uint32_t rounds;
    struct plan *plan, *policy; /* NULL where it does not fit; `policy` also where not uniform */
    uint32_t plans;
    uint64_t needed; /* device memory that would fit, where it does not */
    GError *error;
    bool done;
};

struct search {
    const struct search_options *options;
    struct candidate_job job;
    struct layout_choices *choices;
    struct outcome *outcomes;
    gint64 deadline; /* microseconds, monotonic; 0: none */
    gint stop;       /* atomic */
};

static uint64_t traffic(const struct plan *plan)
{
    return plan->predicted.h2d_bytes + plan->predicted.d2h_bytes;
}

static double seconds(const struct plan *plan)
{
    return plan->predicted.iteration_seconds;
}

static bool faster(const struct plan *plan, const struct plan *than)
{
    return !than || seconds(plan) < seconds(than) ||
           (seconds(plan) == seconds(than) && traffic(plan) < traffic(than));
}

static bool leaner(const struct plan *plan, const struct plan *than)
{
    return !than || traffic(plan) < traffic(than) ||
           (traffic(plan) == traffic(than) && seconds(plan) < seconds(than));
}

static void take_leaner(struct plan **best, struct plan *plan)
{
    if (leaner(plan, *best)) {
        plan_free(*best);
        *best = plan;
    } else {
        plan_free(plan);
    }
}

/* Every policy with the sizes of a sweep, with others the one that is best mostly. */
static void try_policies(const struct candidate *candidate, bool swept, struct outcome *outcome)
{
    for (const struct policy_ops *const *p = policy_all; *p; p++) {
        if (!swept && *p != &policy_opt)
            continue;
        take_leaner(&outcome->policy, candidate_policy(candidate, *p, 0));
        outcome->plans++;
    }
}

/* Look-aheads in steps of a factor; copying back late is tried only with more effort. */
static void try_schedules(const struct candidate *candidate, struct outcome *outcome, bool again)
{
    uint32_t moments = candidate->gaps->moment_count, factor = again ? 2 : 4;

    for (uint32_t ahead = 0; ahead < moments; ahead = MAX(1, ahead * factor))
        for (int late = 0; late < (again ? 2 : 1); late++) {
            struct stays_options options = {.look_ahead = ahead, .flush_early = !late};
            take_leaner(&outcome->plan, candidate_plan(candidate, &options));
            outcome->plans++;
        }
}

static void try_layout(void *data, uint32_t index)
{
    struct search *search = data;
    struct outcome *outcome = &search->outcomes[index];
    const struct layout_choice *choice = &g_array_index(search->choices->items,
                                                        struct layout_choice, outcome->choice);
    struct candidate *candidate = candidate_new(&search->job, &choice->spec, &outcome->needed,
                                                &outcome->error);
    bool again = outcome->rounds > ROUNDS_FIRST;

    outcome->done = true;
    if (!candidate)
        return;
    if (choice->uniform && !again)
        try_policies(candidate, choice->swept, outcome);
    candidate_seed(candidate, &policy_opt);
    g_autoptr(GRand) random = g_rand_new_with_seed(search->options->seed + index);
    keep_improve(candidate->keep, random, outcome->rounds, &search->stop);
    try_schedules(candidate, outcome, again);
    candidate_free(candidate);
}

static bool watch(void *data, uint32_t done, uint32_t total)
{
    struct search *search = data;
    const struct search_options *options = search->options;
    bool late = search->deadline && g_get_monotonic_time() > search->deadline;

    if (late || (options->progress && !options->progress(options->progress_data, done, total)))
        g_atomic_int_set(&search->stop, 1);
    return !g_atomic_int_get(&search->stop);
}

static void run_tasks(struct search *search, uint32_t count)
{
    workers_run(&(struct workers_job){.task = try_layout,
                                      .data = search,
                                      .count = count,
                                      .threads = search->options->threads,
                                      .progress = watch,
                                      .progress_data = search});
}

static void clear_outcomes(struct outcome *outcomes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        plan_free(outcomes[i].plan);
        plan_free(outcomes[i].policy);
        g_clear_error(&outcomes[i].error);
    }
    g_free(outcomes);
}

/* The policy's plan that moves the least. */
static const struct plan *best_policy(const struct outcome *outcomes, uint32_t count)
{
    const struct plan *best = NULL;

    for (uint32_t i = 0; i < count; i++)
        if (outcomes[i].policy && leaner(outcomes[i].policy, best))
            best = outcomes[i].policy;
    return best;
}

static uint64_t least_traffic(const struct outcome *outcomes, uint32_t count)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < count; i++) {
        if (outcomes[i].plan)
            least = MIN(least, traffic(outcomes[i].plan));
        if (outcomes[i].policy)
            least = MIN(least, traffic(outcomes[i].policy));
    }
    return least;
}

/* What a plan may move: no more than the best policy, and little more than the least found, because
 * sizes that were not tried may do better than those that were. */
static uint64_t traffic_limit(const struct outcome *outcomes, uint32_t count,
                              const struct plan *policy)
{
    uint64_t least = least_traffic(outcomes, count);
    return MIN(traffic(policy), least + least / AS_LEAN);
}

/* Every plan that moves no more than `limit`, in a fixed order. */
static GPtrArray *eligible(struct outcome *outcomes, uint32_t count, uint64_t limit)
{
    GPtrArray *plans = g_ptr_array_new();

    for (uint32_t i = 0; i < count; i++) {
        if (outcomes[i].plan && traffic(outcomes[i].plan) <= limit)
            g_ptr_array_add(plans, outcomes[i].plan);
        if (outcomes[i].policy && traffic(outcomes[i].policy) <= limit)
            g_ptr_array_add(plans, outcomes[i].policy);
    }
    return plans;
}

/* See search.h. */
static const struct plan *choose(const GPtrArray *plans)
{
    const struct plan *fastest = NULL, *chosen = NULL;

    for (guint i = 0; i < plans->len; i++)
        if (faster(plans->pdata[i], fastest))
            fastest = plans->pdata[i];
    for (guint i = 0; i < plans->len; i++) {
        const struct plan *plan = plans->pdata[i];
        if (seconds(plan) <= seconds(fastest) * AS_FAST && leaner(plan, chosen))
            chosen = plan;
    }
    return chosen;
}

/* Takes a plan out of the outcome that has it. */
static struct plan *take(struct outcome *outcomes, uint32_t count, const struct plan *plan)
{
    for (uint32_t i = 0; i < count; i++) {
        if (outcomes[i].plan == plan)
            return g_steal_pointer(&outcomes[i].plan);
        if (outcomes[i].policy == plan)
            return g_steal_pointer(&outcomes[i].policy);
    }
    g_assert_not_reached();
}

struct finalist {
    uint32_t choice;
    const struct plan *plan;
    bool lean;
};

/* The lean by time, the others by traffic. */
static int finalists_first(const void *left, const void *right)
{
    const struct finalist *a = left, *b = right;
    if (a->lean != b->lean)
        return a->lean ? -1 : 1;
    if (a->lean && seconds(a->plan) != seconds(b->plan))
        return seconds(a->plan) < seconds(b->plan) ? -1 : 1;
    if (traffic(a->plan) != traffic(b->plan))
        return traffic(a->plan) < traffic(b->plan) ? -1 : 1;
    return a->choice < b->choice ? -1 : 1;
}

/* Fills outcomes[count..] with the layouts to try again; returns how many. */
static uint32_t rank_finalists(struct outcome *outcomes, uint32_t count, uint64_t limit)
{
    g_autoptr(GArray) ranked = g_array_new(FALSE, FALSE, sizeof(struct finalist));

    for (uint32_t i = 0; i < count; i++)
        if (outcomes[i].plan) {
            struct finalist finalist = {outcomes[i].choice, outcomes[i].plan,
                                        traffic(outcomes[i].plan) <= limit};
            g_array_append_val(ranked, finalist);
        }
    g_array_sort(ranked, finalists_first);
    uint32_t finalists = MIN(ranked->len, FINALISTS);
    for (uint32_t i = 0; i < finalists; i++)
        outcomes[count + i] = (struct outcome){
            .choice = g_array_index(ranked, struct finalist, i).choice, .rounds = ROUNDS_AGAIN};
    return finalists;
}

/* The error of the layout that needs the least. */
static void refuse(const struct outcome *outcomes, uint32_t count, GError **error)
{
    const struct outcome *least = NULL;

    for (uint32_t i = 0; i < count; i++)
        if (outcomes[i].error && (!least || outcomes[i].needed < least->needed))
            least = &outcomes[i];
    if (least)
        g_propagate_error(error, g_error_copy(least->error));
    else
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
                    "stopped before any plan was found");
}

static void describe_policy(const struct plan *plan, struct search_result *result)
{
    result->policy = policy_find(plan->policy);
    result->policy_chunk_bytes = plan->layout->chunk_bytes[TRACE_PARAM];
    result->policy_figures = plan->predicted;
}

/* The best layouts again, with more effort, and the best plan of both rounds. `all` has room for
 * FINALISTS more than `count`. */
static void finish(struct search *search, struct outcome *all, uint32_t count,
                   const struct plan *policy, struct search_result *result)
{
    uint32_t final_count = rank_finalists(all, count, traffic_limit(all, count, policy));

    search->outcomes = all + count;
    run_tasks(search, final_count);
    uint64_t limit = traffic_limit(all, count + final_count, policy);
    g_autoptr(GPtrArray) plans = eligible(all, count + final_count, limit);
    const struct plan *chosen = choose(plans);
    result->plan = take(all, count + final_count, chosen);
}

static void count_tries(const struct outcome *outcomes, uint32_t count,
                        struct search_result *result)
{
    for (uint32_t i = 0; i < count; i++) {
        result->layouts_tried += outcomes[i].done && outcomes[i].rounds == ROUNDS_FIRST;
        result->plans_tried += outcomes[i].plans;
    }
}

static bool run_rounds(struct search *search, struct search_result *result, GError **error)
{
    uint32_t count = search->choices->items->len;
    struct outcome *all = g_new0(struct outcome, count + FINALISTS);

    for (uint32_t i = 0; i < count; i++)
        all[i] = (struct outcome){.choice = i, .rounds = ROUNDS_FIRST};
    search->outcomes = all;
    run_tasks(search, count);
    const struct plan *policy = best_policy(all, count);
    if (policy) {
        describe_policy(policy, result);
        finish(search, all, count, policy, result);
        count_tries(all, count + FINALISTS, result);
    } else {
        refuse(all, count, error);
    }
    clear_outcomes(all, count + FINALISTS);
    return policy != NULL;
}

struct search_result *search_plan(const struct trace *trace, const struct search_options *options,
                                  GError **error)
{
    struct non_model *non_model = non_model_place(trace);
    struct search search = {.options = options,
                            .job = {.trace = trace,
                                    .non_model = non_model,
                                    .costs = options->costs,
                                    .device_bytes = options->device_bytes,
                                    .host_bytes = options->host_bytes},
                            .choices = layout_choices_new(trace)};
    struct search_result *result = g_new0(struct search_result, 1);

    if (options->time_limit > 0)
        search.deadline = g_get_monotonic_time() + (gint64)(options->time_limit * 1e6);
    if (run_rounds(&search, result, error))
        result->traffic_lower_bound_bytes = bound_plan(trace, result->plan, BOUND_ROUNDS);
    result->stopped = g_atomic_int_get(&search.stop);
    layout_choices_free(search.choices);
    non_model_free(non_model);
    if (result->plan)
        return result;
    search_result_free(result);
    return NULL;
}

void search_result_free(struct search_result *result)
{
    if (!result)
        return;
    plan_free(result->plan);
    g_free(result);
}
