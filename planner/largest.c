#include "planner/largest.h"

#include "planner/needs.h"

static bool fits_with(const struct largest_job *job, uint32_t value, bool recompute, GError **error)
{
    struct trace *trace = job->make(job->data, value, recompute, error);
    bool fits = trace && needs_are_met(trace, job->options, error);

    trace_free(trace);
    return fits;
}

/* Activations that are computed again leave more room, so what they lack is the reason. */
static bool fits(const struct largest_job *job, uint32_t value, GError **error)
{
    return fits_with(job, value, false, NULL) || fits_with(job, value, true, error);
}

static uint32_t scan(const struct largest_job *job)
{
    uint32_t value = job->most;

    while (value && !fits(job, value, NULL))
        value--;
    return value;
}

static uint32_t bisect(const struct largest_job *job)
{
    uint32_t low = 0, high = 1; /* low fits, high does not */

    while (high <= job->most && fits(job, high, NULL)) {
        low = high;
        high = high > job->most / 2 ? job->most + 1 : 2 * high;
    }
    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;
        if (middle <= job->most && fits(job, middle, NULL))
            low = middle;
        else
            high = middle;
    }
    return low;
}

/* Keeps the plan where it is faster than what was found before. False: a person stopped it. */
static bool try(const struct largest_job *job, uint32_t value, bool recompute,
                struct largest *largest)
{
    struct trace *trace = job->make(job->data, value, recompute, NULL);
    struct search_result *result = trace ? search_plan(trace, job->options, NULL) : NULL;
    bool stopped = result && result->stopped;

    if (result && !stopped &&
        objective_prefers(OBJECTIVE_TIME, result->plan,
                          largest->result ? largest->result->plan : NULL)) {
        search_result_free(largest->result);
        trace_free(largest->trace);
        largest->result = g_steal_pointer(&result);
        largest->trace = g_steal_pointer(&trace);
        largest->recompute = recompute;
    }
    search_result_free(result);
    trace_free(trace);
    return !stopped;
}

bool largest_find(const struct largest_job *job, struct largest *largest, GError **error)
{
    uint32_t value = job->unordered ? scan(job) : bisect(job);

    *largest = (struct largest){0};
    for (; value && !largest->result; value--) {
        largest->value = value;
        if (!try(job, value, false, largest) || !try(job, value, true, largest)) {
            largest->stopped = true;
            g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID, "interrupted");
            return false;
        }
    }
    if (!largest->result) {
        if (fits(job, 1, error))
            g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT, "no plan was found");
        return false;
    }
    if (largest->value < job->most)
        fits(job, largest->value + 1, &largest->beyond);
    return true;
}

void largest_clear(struct largest *largest)
{
    search_result_free(largest->result);
    trace_free(largest->trace);
    g_clear_error(&largest->beyond);
    *largest = (struct largest){0};
}
