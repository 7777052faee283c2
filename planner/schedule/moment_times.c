#include "planner/schedule/moment_times.h"

#include <glib.h>
#include <math.h>

/* Returns for each tensor the number of its first block among those of all tensors, and after them
 * the number of all. */
static uint32_t *number_blocks(const struct trace *trace)
{
    uint32_t *first = g_new0(uint32_t, (size_t)trace->tensor_count + 1);
    for (tensor_id t = 0; t < trace->tensor_count; t++)
        first[t + 1] = first[t] + trace_blocks(trace, TRACE_MASTER, t);
    return first;
}

/* Returns the block that an update is of; 0 if its tensor is not cut. */
static uint32_t block_of(const struct trace *trace, const struct trace_operator *update)
{
    uint32_t block = 0;
    for (uint32_t i = 0; i < update->access_count; i++)
        block = MAX(block, trace->accesses[update->first_access + i].block);
    return block;
}

/* Returns for each moment the number of the block that is updated on the device, or NO_INDEX. */
static uint32_t *list_updates(const struct trace *trace)
{
    uint32_t *updates = g_new(uint32_t, trace->operator_count);
    g_autofree uint32_t *first = number_blocks(trace);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        bool on_device = op->phase == TRACE_UPDATE_PHASE && op->access_count &&
                         op->place == TRACE_ON_DEVICE;
        updates[m] = on_device
                         ? first[trace->accesses[op->first_access].tensor] + block_of(trace, op)
                         : NO_INDEX;
    }
    return updates;
}

struct moment_times *moment_times_new(uint64_t *issue_ns, const struct trace *trace, double seconds)
{
    uint32_t moment_count = trace->operator_count;
    struct moment_times *times = g_new(struct moment_times, 1);
    uint64_t begin = issue_ns[0];
    *times = (struct moment_times){issue_ns, list_updates(trace), moment_count,
                                   (uint64_t)fmax(1, seconds * 1e9)};
    /* Until times are steady, the last moments may come later than the period says. */
    for (uint32_t m = 0; m < moment_count; m++)
        issue_ns[m] = MIN(issue_ns[m] - begin, times->period_ns);
    return times;
}

struct moment_times *moment_times_copy(const struct moment_times *times)
{
    struct moment_times *copy = g_memdup2(times, sizeof *times);
    copy->issue_ns = g_memdup2(times->issue_ns, times->moment_count * sizeof *times->issue_ns);
    copy->updates = g_memdup2(times->updates, times->moment_count * sizeof *times->updates);
    return copy;
}

/* Returns for each block when it is updated on the device, or 0 if it is not. */
static uint64_t *find_updates(const struct moment_times *times, const struct trace *trace)
{
    g_autofree uint32_t *first = number_blocks(trace);
    uint32_t count = first[trace->tensor_count];
    uint64_t *issue_ns = g_new0(uint64_t, count);
    for (uint32_t m = 0; m < times->moment_count; m++)
        if (times->updates[m] < count)
            issue_ns[times->updates[m]] = times->issue_ns[m];
    return issue_ns;
}

struct moment_times *moment_times_for(const struct moment_times *times, const struct trace *trace)
{
    struct moment_times *other = moment_times_copy(times);
    g_autofree uint64_t *updated = find_updates(times, trace);
    uint64_t now = 0;
    g_assert(trace->operator_count == times->moment_count);
    g_free(other->updates);
    other->updates = list_updates(trace);
    for (uint32_t m = 0; m < times->moment_count; m++) {
        if (trace->operators[m].phase != TRACE_UPDATE_PHASE)
            now = times->issue_ns[m];
        else if (other->updates[m] != NO_INDEX)
            now = MAX(now, updated[other->updates[m]]);
        other->issue_ns[m] = now;
    }
    return other;
}

void moment_times_free(struct moment_times *times)
{
    if (!times)
        return;
    g_free(times->issue_ns);
    g_free(times->updates);
    g_free(times);
}

int64_t moment_times_ns(const struct moment_times *times, int32_t moment)
{
    int32_t n = (int32_t)times->moment_count;
    int32_t cycle = (moment + MOMENT_TIMES_CYCLES * n) / n - MOMENT_TIMES_CYCLES;
    return (int64_t)times->issue_ns[moment - cycle * n] + cycle * (int64_t)times->period_ns;
}

int32_t moment_times_find(const struct moment_times *times, int64_t ns)
{
    int64_t period = (int64_t)times->period_ns;
    int64_t cycle = (ns + MOMENT_TIMES_CYCLES * period) / period - MOMENT_TIMES_CYCLES;
    uint32_t low = 0, high = times->moment_count;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if ((int64_t)times->issue_ns[middle] <= ns - cycle * period)
            low = middle;
        else
            high = middle;
    }
    return (int32_t)(low + cycle * times->moment_count);
}
