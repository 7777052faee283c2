#include "planner/schedule/pace.h"

#include <glib.h>
#include <math.h>

static uint32_t *list_updates(const struct trace *trace)
{
    uint32_t *updates = g_new(uint32_t, trace->operator_count);

    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        bool on_device = op->phase == TRACE_UPDATE_PHASE && op->access_count &&
                         op->place == TRACE_ON_DEVICE;
        updates[m] = on_device ? trace->accesses[op->first_access].tensor : NO_INDEX;
    }
    return updates;
}

struct pace *pace_new(uint64_t *issue_ns, const struct trace *trace, double seconds)
{
    uint32_t moment_count = trace->operator_count;
    struct pace *pace = g_new(struct pace, 1);
    uint64_t begin = issue_ns[0];

    *pace = (struct pace){issue_ns, list_updates(trace), moment_count,
                          (uint64_t)fmax(1, seconds * 1e9)};
    /* Where times have not settled, the last moments may come later than the period has it. */
    for (uint32_t m = 0; m < moment_count; m++)
        issue_ns[m] = MIN(issue_ns[m] - begin, pace->period_ns);
    return pace;
}

struct pace *pace_copy(const struct pace *pace)
{
    struct pace *copy = g_memdup2(pace, sizeof *pace);
    copy->issue_ns = g_memdup2(pace->issue_ns, pace->moment_count * sizeof *pace->issue_ns);
    copy->updates = g_memdup2(pace->updates, pace->moment_count * sizeof *pace->updates);
    return copy;
}

/* [tensor_count] when each is updated on the device; 0: it is not. */
static uint64_t *find_updates(const struct pace *pace, uint32_t tensor_count)
{
    uint64_t *issue_ns = g_new0(uint64_t, tensor_count);

    for (uint32_t m = 0; m < pace->moment_count; m++)
        if (pace->updates[m] < tensor_count)
            issue_ns[pace->updates[m]] = pace->issue_ns[m];
    return issue_ns;
}

struct pace *pace_for(const struct pace *pace, const struct trace *trace)
{
    struct pace *other = pace_copy(pace);
    g_autofree uint64_t *updated = find_updates(pace, trace->tensor_count);
    uint64_t now = 0;

    g_assert(trace->operator_count == pace->moment_count);
    g_free(other->updates);
    other->updates = list_updates(trace);
    for (uint32_t m = 0; m < pace->moment_count; m++) {
        if (trace->operators[m].phase != TRACE_UPDATE_PHASE)
            now = pace->issue_ns[m];
        else if (other->updates[m] != NO_INDEX)
            now = MAX(now, updated[other->updates[m]]);
        other->issue_ns[m] = now;
    }
    return other;
}

void pace_free(struct pace *pace)
{
    if (!pace)
        return;
    g_free(pace->issue_ns);
    g_free(pace->updates);
    g_free(pace);
}

int64_t pace_ns(const struct pace *pace, int32_t moment)
{
    int32_t n = (int32_t)pace->moment_count;
    int32_t cycle = (moment + PACE_CYCLES * n) / n - PACE_CYCLES;

    return (int64_t)pace->issue_ns[moment - cycle * n] + cycle * (int64_t)pace->period_ns;
}

int32_t pace_moment(const struct pace *pace, int64_t ns)
{
    int64_t period = (int64_t)pace->period_ns;
    int64_t cycle = (ns + PACE_CYCLES * period) / period - PACE_CYCLES;
    uint32_t low = 0, high = pace->moment_count;

    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if ((int64_t)pace->issue_ns[middle] <= ns - cycle * period)
            low = middle;
        else
            high = middle;
    }
    return (int32_t)(low + cycle * pace->moment_count);
}
