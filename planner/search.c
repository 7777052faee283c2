#include "planner/search.h"

#include "planner/candidate.h"
#include "planner/outcomes.h"
#include "sim/workers.h"

/* Every layout is tried; those that did best are tried again with more effort. */
enum {
    ROUNDS_FIRST = 400,
    ROUNDS_AGAIN = 4000,
    FINALISTS = 6,
};

struct search {
    const struct search_options *options;
    struct candidate_job job;
    struct layout_choices *choices;
    struct outcome *outcomes;
    gint64 deadline; /* microseconds, monotonic; 0: none */
    gint stop;       /* atomic */
};

/* Every policy with the sizes of a sweep, with others the one that is best mostly. */
static void try_policies(const struct candidate *candidate, bool swept, struct outcome *outcome)
{
    for (const struct policy_ops *const *p = policy_all; *p; p++) {
        if (!swept && *p != &policy_opt)
            continue;
        outcomes_take_leaner(&outcome->policy, candidate_policy(candidate, *p, 0));
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
            outcomes_take_leaner(&outcome->plan, candidate_plan(candidate, &options));
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

static void describe_policy(const struct plan *plan, struct search_result *result)
{
    result->policy = policy_find(plan->policy);
    result->policy_chunk_bytes = plan->layout->chunk_bytes[TRACE_PARAM];
    result->policy_figures = plan->predicted;
}

/* The best layouts again, with more effort, and the best plan of both rounds. `all` has room for
 * FINALISTS more than `count`. */
static void finish(struct search *search, struct outcome *all, uint32_t count,
                   struct search_result *result)
{
    uint32_t choices[FINALISTS];
    uint32_t finalists = outcomes_rank(all, count, choices, FINALISTS);

    for (uint32_t i = 0; i < finalists; i++)
        all[count + i] = (struct outcome){.choice = choices[i], .rounds = ROUNDS_AGAIN};
    search->outcomes = all + count;
    run_tasks(search, finalists);
    result->plan = outcomes_choose(all, count + finalists);
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
    const struct plan *policy = outcomes_best_policy(all, count);
    if (policy) {
        describe_policy(policy, result);
        finish(search, all, count, result);
        count_tries(all, count + FINALISTS, result);
    } else {
        outcomes_refuse(all, count, error);
    }
    outcomes_free(all, count + FINALISTS);
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
    run_rounds(&search, result, error);
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
