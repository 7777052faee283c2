#include "planner/answers/sensitivity.h"

#include "planner/answers/narrow_search.h"

#define GB UINT64_C(1000000000)

const double sensitivity_links[SENSITIVITY_LINKS] = {1, 2};

static const uint64_t memories[SENSITIVITY_MEMORIES] = {0, GB, 2 * GB, 4 * GB, 8 * GB};

/* The best of what was found for less. */
static double bound(const struct sensitivity *s, uint32_t link, uint32_t memory)
{
    double seconds = s->seconds[0][0];

    if (memory)
        seconds = MIN(seconds, s->seconds[link][memory - 1]);
    if (link)
        seconds = MIN(seconds, s->seconds[link - 1][memory]);
    return seconds;
}

bool sensitivity_find(const struct trace *trace, const struct search_options *options,
                      const struct plan *plan, struct costs *const *costs,
                      struct sensitivity *sensitivity)
{
    struct narrow_search *narrow = narrow_search_new(trace, plan);
    bool stopped = false;

    sensitivity->seconds[0][0] = plan->predicted.iteration_seconds;
    for (uint32_t m = 0; m < SENSITIVITY_MEMORIES; m++)
        sensitivity->more[m] = memories[m];
    for (uint32_t point = 1; point < SENSITIVITY_LINKS * SENSITIVITY_MEMORIES && !stopped;
         point++) {
        uint32_t link = point / SENSITIVITY_MEMORIES, memory = point % SENSITIVITY_MEMORIES;
        struct search_options other = *options;
        other.costs = costs[link];
        other.device_budget += memories[memory];
        struct search_result *result = narrow_search_run(narrow, &other);
        double seconds = bound(sensitivity, link, memory);
        if (result)
            seconds = MIN(seconds, result->plan->predicted.iteration_seconds);
        sensitivity->seconds[link][memory] = seconds;
        stopped = !result || result->stopped;
        search_result_free(result);
    }
    narrow_search_free(narrow);
    return !stopped;
}
