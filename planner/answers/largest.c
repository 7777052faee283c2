#include "planner/answers/largest.h"

#include "planner/search/needs.h"

/* UINT64_MAX: the host lacks memory, or there is no such size. */
static uint64_t needed_with(const struct largest_job *job, uint32_t value, enum largest_way way)
{
    struct trace *trace = job->make(job->data, value, way, NULL);
    uint64_t needed = trace ? requirement_device_bytes(trace, job->options, NULL) : UINT64_MAX;

    trace_free(trace);
    return needed;
}

/* What the way lacks that needs the least of the device is the reason. */
static bool fits(const struct largest_job *job, uint32_t value, GError **error)
{
    enum largest_way least = LARGEST_RECOMPUTED;
    uint64_t least_needed = UINT64_MAX;

    for (int way = LARGEST_KEPT; way < LARGEST_WAYS; way++) {
        uint64_t needed = needed_with(job, value, (enum largest_way)way);
        if (needed <= job->options->device_budget)
            return true;
        if (needed < least_needed) {
            least_needed = needed;
            least = (enum largest_way)way;
        }
    }
    struct trace *trace = job->make(job->data, value, least, error);
    bool met = trace && requirement_is_met(trace, job->options, error);
    trace_free(trace);
    return met;
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
static bool try(const struct largest_job *job, uint32_t value, enum largest_way way,
                struct largest *largest)
{
    struct trace *trace = job->make(job->data, value, way, NULL);
    struct search_result *result = trace ? search_plan(trace, job->options, NULL) : NULL;
    bool stopped = result && result->stopped;

    if (result && !stopped &&
        objective_prefers(OBJECTIVE_TIME, result->plan,
                          largest->result ? largest->result->plan : NULL)) {
        search_result_free(largest->result);
        trace_free(largest->trace);
        largest->result = g_steal_pointer(&result);
        largest->trace = g_steal_pointer(&trace);
        largest->way = way;
    }
    search_result_free(result);
    trace_free(trace);
    return !stopped;
}

/* By every way that is worth it; false: a person stopped it. */
static bool try_ways(const struct largest_job *job, uint32_t value, struct largest *largest)
{
    largest->value = value;
    return try(job, value, LARGEST_KEPT, largest) && try(job, value, LARGEST_RECOMPUTED, largest) &&
           (largest->result || try(job, value, LARGEST_OFFLOADED, largest));
}

bool largest_find(const struct largest_job *job, struct largest *largest, GError **error)
{
    uint32_t value = job->unordered ? scan(job) : bisect(job);

    *largest = (struct largest){0};
    for (; value && !largest->result; value--) {
        if (!try_ways(job, value, largest)) {
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
