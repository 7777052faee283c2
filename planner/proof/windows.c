#include "planner/proof/windows.h"

static bool may_begin(const struct trace_operator *op)
{
    return op->place == TRACE_ON_DEVICE && op->phase != TRACE_UPDATE_PHASE;
}

/* The first moment of the update, if it ends the iteration; operator_count where there is none. */
static uint32_t find_update(const struct trace *trace)
{
    uint32_t m = trace->operator_count;

    while (m > 0 && trace->operators[m - 1].phase == TRACE_UPDATE_PHASE)
        m--;
    return m;
}

void time_windows_choose(const struct trace *trace, const struct reuses *reuses, uint32_t most,
                         GArray *moments)
{
    uint32_t operators = 0, seen = 0, stretch = NO_INDEX;

    for (uint32_t m = 0; m < trace->operator_count; m++)
        operators += may_begin(&trace->operators[m]);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        if (!may_begin(&trace->operators[m]))
            continue;
        uint32_t now = (uint32_t)((uint64_t)seen++ * MIN(operators, most) / operators);
        if (now != stretch)
            g_array_append_val(moments, m);
        stretch = now;
        uint32_t *chosen = &g_array_index(moments, uint32_t, moments->len - 1);
        if (reuses->room[m] < reuses->room[*chosen])
            *chosen = m;
    }
    uint32_t update = find_update(trace);
    if (moments->len && update < trace->operator_count)
        g_array_append_val(moments, update);
}

bool time_windows_are_possible(const struct trace *trace, const uint32_t *moments, uint32_t count)
{
    uint32_t update = find_update(trace);

    for (uint32_t w = 0; w < count; w++)
        if (moments[w] >= trace->operator_count ||
            !(may_begin(&trace->operators[moments[w]]) || (w > 0 && moments[w] == update)) ||
            (w > 0 && moments[w] <= moments[w - 1]))
            return false;
    return count > 0 && count <= UINT16_MAX;
}

/* No price of room is worth while where everything has room. */
static uint64_t all_bytes(const struct reuses *reuses)
{
    uint64_t bytes = 0;

    for (uint32_t c = 0; c < reuses->chunk_count; c++)
        bytes += reuses->slot_bytes[c];
    return bytes;
}

struct time_windows *time_windows_new(const struct trace *trace, const struct reuses *reuses,
                                      const uint32_t *moments, uint32_t count)
{
    struct time_windows *windows = g_new0(struct time_windows, 1);
    uint32_t w = count - 1;

    windows->count = count;
    windows->moment_count = reuses->moment_count;
    windows->items = g_new(struct time_window, count);
    windows->of_moment = g_new(uint16_t, reuses->moment_count);
    for (uint32_t i = 0; i < count; i++) {
        bool of_update = trace->operators[moments[i]].phase == TRACE_UPDATE_PHASE;
        uint64_t room = of_update ? all_bytes(reuses) : (uint64_t)MAX(reuses->room[moments[i]], 0);
        windows->items[i] = (struct time_window){moments[i], room, of_update};
    }
    for (uint32_t m = 0; m < reuses->moment_count; m++) {
        if (m == moments[(w + 1) % count])
            w = (w + 1) % count;
        windows->of_moment[m] = (uint16_t)w;
    }
    return windows;
}

void time_windows_free(struct time_windows *windows)
{
    if (!windows)
        return;
    g_free(windows->items);
    g_free(windows->of_moment);
    g_free(windows);
}

uint32_t time_windows_moment(const struct time_windows *windows, uint32_t position)
{
    return (windows->items[0].moment + position) % windows->moment_count;
}
