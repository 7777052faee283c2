#include "planner/search/rounds.h"

#include "sim/workers.h"

/* Tasks that know of the same best plan, whatever the number of threads. */
enum { ROUND = 16 };

/* A plan that is so near to its bound is good enough. */
#define CLOSE_ENOUGH 1.005

struct outcome *rounds_outcome(const struct search *search, uint32_t index)
{
    return &g_array_index(search->outcomes, struct outcome, index);
}

const struct layout_choice *rounds_choice(const struct search *search,
                                          const struct outcome *outcome)
{
    return &g_array_index(search->choices->items, struct layout_choice, outcome->layout);
}

void rounds_rivals(void *data, uint32_t index)
{
    struct search *search = data;
    struct outcome *outcome = rounds_outcome(search, search->begin + index);

    tries_rivals(&search->tries, &rounds_choice(search, outcome)->spec, outcome);
}

void rounds_plans(void *data, uint32_t index)
{
    struct search *search = data;
    struct outcome *outcome = rounds_outcome(search, search->begin + index);

    tries_plans(&search->tries, &rounds_choice(search, outcome)->spec,
                search->options.seed + search->begin + index, outcome);
}

static bool watch(void *data, uint32_t done, G_GNUC_UNUSED uint32_t of_round)
{
    struct search *search = data;
    const struct search_options *options = &search->options;
    bool late = search->deadline && g_get_monotonic_time() > search->deadline;

    if (late ||
        (options->progress &&
         !options->progress(options->progress_data, search->begin + done, search->outcomes->len)))
        g_atomic_int_set(&search->stop, 1);
    return search->certain || !g_atomic_int_get(&search->stop);
}

void rounds_add(struct search *search, uint32_t layout, struct placement placement,
                enum effort_level effort)
{
    struct outcome outcome = {.layout = layout,
                              .placement = placement,
                              .taste = search->taste,
                              .effort = effort,
                              .needed = UINT64_MAX};
    g_array_append_val(search->outcomes, outcome);
}

void rounds_add_glance(struct search *search, uint32_t layout, struct placement placement)
{
    for (guint i = 0; i < search->outcomes->len; i++) {
        const struct outcome *outcome = rounds_outcome(search, i);
        if (outcome->effort == EFFORT_GLANCE && outcome->layout == layout &&
            outcome->taste.favour == search->taste.favour &&
            outcome->taste.spread == search->taste.spread &&
            placement_same(&outcome->placement, &placement))
            return;
    }
    rounds_add(search, layout, placement, EFFORT_GLANCE);
}

static void find_best(struct search *search)
{
    uint32_t best;

    search->tries.best = outcomes_rank(search->outcomes, search->options.objective, false, &best, 1)
                             ? rounds_outcome(search, best)
                             : NULL;
    search->tries.policy = outcomes_best_policy(search->outcomes, search->options.objective);
}

bool rounds_are_over(const struct search *search)
{
    const struct outcome *best = search->tries.best;

    return g_atomic_int_get(&search->stop) ||
           (search->options.objective == OBJECTIVE_TIME && best &&
            best->plan->predicted.iteration_seconds <= CLOSE_ENOUGH * search->bound);
}

void rounds_run(struct search *search, void (*task)(void *data, uint32_t index))
{
    find_best(search);
    while (search->begin < search->outcomes->len && (search->certain || !rounds_are_over(search))) {
        uint32_t count = MIN(ROUND, search->outcomes->len - search->begin);
        workers_run(&(struct workers_job){.task = task,
                                          .data = search,
                                          .count = count,
                                          .threads = search->options.threads,
                                          .progress = watch,
                                          .progress_data = search});
        search->begin += count;
        find_best(search);
    }
    search->begin = search->outcomes->len;
    if (search->tries.best)
        search->taste = search->tries.best->taste;
}
