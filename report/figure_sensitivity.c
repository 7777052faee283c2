#include "report/axis.h"
#include "report/figures.h"
#include "report/palette.h"
#include "report/text.h"
#include "traces/size.h"

/* Of all policies, strategies and chunk sizes with a budget the best. */
static const struct sweep_file_entry *fastest_with(const struct sweep_file *sweep, uint64_t budget)
{
    const struct sweep_file_entry *best = NULL;
    for (guint i = 0; i < sweep->entries->len; i++) {
        const struct sweep_file_entry *entry = &g_array_index(sweep->entries,
                                                              struct sweep_file_entry, i);
        if (entry->fits && entry->configuration.device_bytes == budget &&
            (!best || entry->figures.iteration_seconds < best->figures.iteration_seconds))
            best = entry;
    }
    return best;
}

static void append_plans(GString *data, const GPtrArray *plans)
{
    g_string_append(data, "\n\n# plans, likewise\nNaN NaN NaN\n");
    for (guint p = 0; p < plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(plans, p);
        const struct plan_figures *predicted = &input->plan->predicted;
        if (input->configuration.device_bytes == UINT64_MAX || predicted->iteration_seconds <= 0)
            continue;
        g_string_append_printf(data, "%" G_GUINT64_FORMAT " ", input->configuration.device_bytes);
        axis_append(data, predicted->iteration_seconds);
        g_string_append_c(data, ' ');
        axis_append(data, predicted->stall_seconds);
        g_string_append_c(data, '\n');
    }
}

static bool has_timed_plan(const GPtrArray *plans)
{
    for (guint p = 0; p < plans->len; p++)
        if (((const struct input_plan *)g_ptr_array_index(plans, p))
                ->plan->predicted.iteration_seconds > 0)
            return true;
    return false;
}

/* The first and the last budget that fit, in a sentence. */
static char *gain_text(const struct sweep_file *sweep, const GArray *budgets)
{
    const struct sweep_file_entry *least = NULL, *most = NULL;
    for (guint b = 0; b < budgets->len; b++) {
        const struct sweep_file_entry *entry = fastest_with(sweep,
                                                            g_array_index(budgets, uint64_t, b));
        least = least ? least : entry;
        most = entry ? entry : most;
    }
    if (!least)
        return g_strdup("Nothing fits.");
    g_autofree char *from = size_format(least->configuration.device_bytes);
    g_autofree char *to = size_format(most->configuration.device_bytes);
    g_autofree char *slow = text_seconds(least->figures.iteration_seconds);
    g_autofree char *fast = text_seconds(most->figures.iteration_seconds);
    return g_strdup_printf("With %s a step takes %s, with %s it takes %s.", from, slow, to, fast);
}

struct figure *figure_sensitivity(const struct sweep_file *sweep, const GPtrArray *plans,
                                  unsigned number)
{
    struct figure *figure = figure_new(figure_name("sensitivity", number),
                                       g_strdup("What more device memory would buy"));
    g_autoptr(GArray) budgets = sweep_file_budgets(sweep);
    double longest = 0;
    g_string_append(figure->data, "# device memory in bytes; seconds of the best step, and of its "
                                  "waiting\nNaN NaN NaN\n");
    for (guint b = 0; b < budgets->len; b++) {
        uint64_t budget = g_array_index(budgets, uint64_t, b);
        const struct sweep_file_entry *best = fastest_with(sweep, budget);
        if (!best)
            continue;
        g_string_append_printf(figure->data, "%" G_GUINT64_FORMAT " ", budget);
        axis_append(figure->data, best->figures.iteration_seconds);
        g_string_append_c(figure->data, ' ');
        axis_append(figure->data, best->figures.stall_seconds);
        g_string_append_c(figure->data, '\n');
        longest = MAX(longest, best->figures.iteration_seconds);
    }
    append_plans(figure->data, plans);
    double most = (double)g_array_index(budgets, uint64_t, budgets->len - 1);
    struct axis_unit byte = axis_bytes(most), second = axis_seconds(longest);
    axis_append_variable(figure->setup, "byte", byte.size);
    axis_append_variable(figure->setup, "second", second.size);
    axis_append_variable(figure->setup, "longest", longest > 0 ? longest : 1);
    figure->wide_height = 380;
    figure->phone_height = 320;
    g_string_append_printf(
        figure->drawing,
        "    set yrange [0:1.1*longest/second]; set offsets graph 0.03, graph 0.03, 0, 0\n"
        "    set xlabel 'device memory, %s' offset 0,0.3 textcolor rgb ink\n"
        "    set ylabel 'time of a step, %s' textcolor rgb ink\n"
        "    plot data index 0 using ($1/byte):($2/second) with linespoints lc rgb '%s' lw 2.5 "
        "pt 7 ps 0.9 title 'best of the sweep', \\\n"
        "        data index 0 using ($1/byte):($3/second) with linespoints lc rgb '%s' lw 2 "
        "pt 5 ps 0.8 title 'of it waiting'",
        byte.name, second.name, palette_strip(STRIP_COMPUTE), palette_strip(STRIP_WAIT));
    if (has_timed_plan(plans))
        g_string_append(figure->drawing,
                        ", \\\n        data index 1 using ($1/byte):($2/second) "
                        "with points pt 3 ps 1.6 lw 3 lc rgb '" PALETTE_PLAN "' title 'plan'");
    g_string_append_c(figure->drawing, '\n');
    g_autofree char *gain = gain_text(sweep, budgets);
    figure->alt = g_strdup_printf("The time of the best step, and of its waiting, over device "
                                  "memory. %s",
                                  gain);
    figure->caption = g_strdup_printf("Of all policies, strategies and chunk sizes of %s the "
                                      "fastest with that memory. %s What a faster link would buy, "
                                      "pstar-plan --sensitivity answers.",
                                      sweep->origin, gain);
    return figure;
}
