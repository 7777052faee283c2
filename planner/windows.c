#include "planner/windows.h"

enum { WINDOWS_MOST = 60 };

static bool may_begin(const struct trace_operator *op)
{
    return op->place == TRACE_ON_DEVICE && op->phase != TRACE_UPDATE_PHASE;
}

void windows_choose(const struct trace *trace, const struct gaps *gaps, GArray *moments)
{
    uint32_t operators = 0, seen = 0, stretch = UINT32_MAX;

    for (uint32_t m = 0; m < trace->operator_count; m++)
        operators += may_begin(&trace->operators[m]);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        if (!may_begin(&trace->operators[m]))
            continue;
        uint32_t now = (uint32_t)((uint64_t)seen++ * MIN(operators, WINDOWS_MOST) / operators);
        if (now != stretch)
            g_array_append_val(moments, m);
        stretch = now;
        uint32_t *chosen = &g_array_index(moments, uint32_t, moments->len - 1);
        if (gaps->room[m] < gaps->room[*chosen])
            *chosen = m;
    }
}

bool windows_are_possible(const struct trace *trace, const uint32_t *moments, uint32_t count)
{
    for (uint32_t w = 0; w < count; w++)
        if (moments[w] >= trace->operator_count || !may_begin(&trace->operators[moments[w]]) ||
            (w > 0 && moments[w] <= moments[w - 1]))
            return false;
    return count > 0 && count <= UINT16_MAX;
}

struct windows *windows_new(const struct gaps *gaps, const uint32_t *moments, uint32_t count)
{
    struct windows *windows = g_new0(struct windows, 1);
    uint32_t w = count - 1;

    windows->count = count;
    windows->moment_count = gaps->moment_count;
    windows->items = g_new(struct window, count);
    windows->of_moment = g_new(uint16_t, gaps->moment_count);
    for (uint32_t i = 0; i < count; i++)
        windows->items[i] = (struct window){moments[i], (uint64_t)MAX(gaps->room[moments[i]], 0)};
    for (uint32_t m = 0; m < gaps->moment_count; m++) {
        if (m == moments[(w + 1) % count])
            w = (w + 1) % count;
        windows->of_moment[m] = (uint16_t)w;
    }
    return windows;
}

void windows_free(struct windows *windows)
{
    if (!windows)
        return;
    g_free(windows->items);
    g_free(windows->of_moment);
    g_free(windows);
}

uint32_t windows_moment(const struct windows *windows, uint32_t position)
{
    return (windows->items[0].moment + position) % windows->moment_count;
}
