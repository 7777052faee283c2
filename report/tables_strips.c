#include "report/tables.h"

#include "report/text.h"

static char *share_cell(double part, double whole)
{
    g_autofree char *digits = text_number("%.0f", whole > 0 ? 100 * part / whole : 0);
    return g_strconcat(digits, " %", NULL);
}

static void add_row(struct table *table, const struct strips *strips, const char *name,
                    const struct strip_sums *sums)
{
    GPtrArray *row = g_ptr_array_new_with_free_func(g_free);
    g_ptr_array_add(row, g_strdup(name));
    g_ptr_array_add(row, text_seconds(sums->seconds));
    g_ptr_array_add(row, share_cell(sums->seconds, strips->seconds));
    for (int s = 0; s < STRIPS; s++)
        if (s != STRIP_NETWORK || strips->known[s])
            g_ptr_array_add(row, strips->known[s] ? share_cell(sums->busy[s], sums->seconds)
                                                  : g_strdup("–"));
    for (int s = STRIP_H2D; s <= STRIP_D2H; s++)
        g_ptr_array_add(row, strips->known[s] && sums->seconds > 0
                                 ? text_rate(sums->bytes[s] / sums->seconds)
                                 : g_strdup("–"));
    g_ptr_array_add(table->rows, row);
}

struct table *table_busy(const struct strips *strips)
{
    g_autofree char *title = g_strdup_printf("Who is busy, by phase: %s, %s", strips->origin,
                                             strips->measured ? "measured" : "simulated");
    g_autofree char *columns = g_strdup_printf(
        "Phase|Time|Share|Device computes|H2D|D2H|Host optimizer|%sDevice waits|H2D rate|D2H rate",
        strips->known[STRIP_NETWORK] ? "Network|" : "");
    struct table *table = table_new(title, columns);
    for (int phase = 0; strips->phases->len && phase < STRIP_NO_PHASE; phase++) {
        const struct strip_sums sums = strips_sum(strips, (enum trace_phase)phase);
        if (sums.seconds > 0)
            add_row(table, strips, trace_phase_name((enum trace_phase)phase), &sums);
    }
    const struct strip_sums all = strips_sum_all(strips);
    add_row(table, strips, "step", &all);
    table->note = g_strdup("Shares of the phase in which each is busy; rates are means over it.");
    return table;
}
