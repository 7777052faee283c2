#include "report/compare.h"
#include "report/tables.h"
#include "report/text.h"
#include "traces/size.h"

#define MOST_OPERATORS 12

static void add_seconds(struct table *table, const char *what, double a, double b)
{
    if (a > 0 || b > 0)
        table_add(table, g_strdup(what), text_seconds(a), text_seconds(b), text_difference(b, a));
}

static void add_bytes(struct table *table, const char *what, double a, double b)
{
    if (a > 0 || b > 0)
        table_add(table, g_strdup(what), size_format((uint64_t)a), size_format((uint64_t)b),
                  text_difference(b, a));
}

static double peak_of(const struct inputs *inputs, const struct strips *strips)
{
    const struct input_trace *input = inputs_trace_of(inputs, strips);
    uint64_t peak = 0;
    for (uint32_t m = 0; input && m < input->trace->operator_count; m++)
        peak = MAX(peak, input->trace->non_model_bytes[m]);
    return (double)peak;
}

struct table *table_compare(const struct inputs *inputs)
{
    const struct strips *a, *b;
    if (!compare_pair(inputs, &a, &b))
        return NULL;
    struct table *table = table_new("Side by side", "|A|B|B beside A");
    const struct strip_sums all[2] = {strips_sum_all(a), strips_sum_all(b)};
    add_seconds(table, "Step", a->seconds, b->seconds);
    for (int phase = 0; phase < STRIP_NO_PHASE; phase++)
        add_seconds(table, trace_phase_name((enum trace_phase)phase),
                    strips_sum(a, (enum trace_phase)phase).seconds,
                    strips_sum(b, (enum trace_phase)phase).seconds);
    for (int s = 0; s < STRIPS; s++)
        if (a->known[s] && b->known[s])
            add_seconds(table, strip_label((enum strip)s), all[0].busy[s], all[1].busy[s]);
    add_bytes(table, "Moved, H2D", all[0].bytes[STRIP_H2D], all[1].bytes[STRIP_H2D]);
    add_bytes(table, "Moved, D2H", all[0].bytes[STRIP_D2H], all[1].bytes[STRIP_D2H]);
    add_bytes(table, "Peak of non-model data", peak_of(inputs, a), peak_of(inputs, b));
    table->note = g_strdup_printf("A is %s, B is %s.", a->origin, b->origin);
    return table;
}

struct table *table_compare_operators(const struct inputs *inputs)
{
    const struct strips *a, *b;
    if (!compare_pair(inputs, &a, &b))
        return NULL;
    g_autoptr(GArray) changes = compare_names(a, b);
    struct table *table = table_new("What takes longer, what less", "|A|B|Difference");
    for (guint i = 0; i < MIN(changes->len, MOST_OPERATORS); i++) {
        const struct compare_change *change = &g_array_index(changes, struct compare_change, i);
        double more = change->seconds[1] - change->seconds[0];
        g_autofree char *length = text_seconds(more < 0 ? -more : more);
        table_add(table, g_strdup(change->name), text_seconds(change->seconds[0]),
                  text_seconds(change->seconds[1]),
                  g_strconcat(more < 0 ? "−" : "+", length, NULL));
    }
    table->note = g_strdup("Of what the device and the host compute, the largest differences, "
                           "all calls of one name together.");
    return table;
}
