#include "collect/fused.h"

static void clear(gpointer data)
{
    g_free(((struct fused *)data)->bytes);
}

GArray *fused_new(void)
{
    GArray *fused = g_array_new(FALSE, FALSE, sizeof(struct fused));
    g_array_set_clear_func(fused, clear);
    return fused;
}

bool fused_weigh(GArray *fused, const struct trace *trace, GError **error)
{
    for (guint i = 0; i < fused->len; i++) {
        struct fused *group = &g_array_index(fused, struct fused, i);
        if (group->count == 0 || group->first >= trace->operator_count ||
            group->count > trace->operator_count - group->first) {
            g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                        "declarations: fused: there are no %u operators from moment %u on",
                        group->count, group->first);
            return false;
        }
        group->bytes = g_new(uint64_t, group->count);
        for (uint32_t m = 0; m < group->count; m++)
            group->bytes[m] = trace->operators[group->first + m].bytes;
    }
    return true;
}

/* Shares are differences of rounded sums, so that together they are the whole. */
static void divide(const struct fused *group, uint64_t *durations_ns)
{
    double whole = (double)durations_ns[group->first], total = 0, before = 0;
    for (uint32_t m = 0; m < group->count; m++)
        total += (double)group->bytes[m];
    for (uint32_t m = 0; total > 0 && m < group->count; m++) {
        double after = before + (double)group->bytes[m];
        durations_ns[group->first + m] = (uint64_t)(whole * (after / total)) -
                                         (uint64_t)(whole * (before / total));
        before = after;
    }
}

void fused_divide(const GArray *fused, uint64_t *durations_ns)
{
    for (guint i = 0; i < fused->len; i++)
        divide(&g_array_index(fused, struct fused, i), durations_ns);
}
