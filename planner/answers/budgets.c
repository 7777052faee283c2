#include "planner/answers/budgets.h"

#include "planner/answers/narrow_search.h"
#include "planner/search/needs.h"

#include <math.h>

enum { RESOLUTION = 64 };

/* Where a probe takes so much longer than allowed, a full search is not tried. */
#define HOPELESS 1.2

struct memory_search {
    const struct trace *trace;
    struct search_options options;
    uint64_t *budget; /* of `options`, the one that is lowered */
    double most_seconds;
    struct search_result *best; /* that is in time, with the least budget so far; NULL: none */
    bool *stopped;
};

/* Keeps a result that is in time, and frees it otherwise. Returns what it takes. */
static double consider(struct memory_search *least, struct search_result *result)
{
    double seconds = result ? result->plan->predicted.iteration_seconds : INFINITY;

    *least->stopped |= result && result->stopped;
    if (seconds <= least->most_seconds) {
        search_result_free(least->best);
        least->best = g_steal_pointer(&result);
    }
    search_result_free(result);
    return seconds;
}

static bool is_enough(struct memory_search *least, const struct narrow_search *narrow,
                      uint64_t budget)
{
    *least->budget = budget;
    double seconds = consider(least, narrow_search_run(narrow, &least->options));

    if (seconds > least->most_seconds && seconds <= HOPELESS * least->most_seconds)
        seconds = consider(least, search_plan(least->trace, &least->options, NULL));
    return seconds <= least->most_seconds;
}

static void bisect(struct memory_search *least, const struct plan *reference, uint64_t low,
                   uint64_t high)
{
    struct narrow_search *narrow = narrow_search_new(least->trace, reference);

    while (high - low > high / RESOLUTION && !*least->stopped) {
        uint64_t middle = low + (high - low) / 2;
        if (is_enough(least, narrow, middle))
            high = middle;
        else
            low = middle;
    }
    narrow_search_free(narrow);
}

uint64_t min_memory_taken(const struct plan *plan, enum min_memory_kind memory)
{
    return memory == MIN_DEVICE_MEMORY ? plan->arena_bytes : plan->predicted.peak_host_bytes;
}

struct search_result *min_memory_find(const struct trace *trace,
                                      const struct search_options *options,
                                      const struct plan *reference, enum min_memory_kind memory,
                                      double most_seconds, bool *stopped)
{
    struct memory_search least = {trace, *options, .most_seconds = most_seconds,
                                  .stopped = stopped};
    uint64_t low = 0, most = min_memory_taken(reference, memory);

    least.budget = &least.options.host_budget;
    if (memory == MIN_DEVICE_MEMORY) {
        least.budget = &least.options.device_budget;
        low = requirement_device_bytes(trace, options, NULL) - 1;
    }
    bisect(&least, reference, MIN(low, most), most);
    if (!*stopped)
        return least.best;
    search_result_free(least.best);
    return NULL;
}
