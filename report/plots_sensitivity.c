#include "base/size.h"
#include "report/plot.h"
#include "report/plots.h"
#include "report/text.h"

/* Returns the waiting for the link in a step, or all its waiting if the causes are unknown. */
static double link_waits(const struct sweep_file_entry *entry)
{
    double waits = 0;
    for (int phase = 0; entry->phases && phase < TRACK_NO_PHASE; phase++)
        waits += entry->phases[phase].wait_for[TRACK_H2D] +
                 entry->phases[phase].wait_for[TRACK_D2H];
    return entry->phases ? waits : entry->figures.stall_seconds;
}

/* Returns the step time with a link that takes no time. No real link is better. */
static double without_link(const struct sweep_file_entry *entry)
{
    return entry->figures.iteration_seconds - MIN(link_waits(entry), entry->figures.stall_seconds);
}

static void append_point(GString *data, uint64_t bytes, double seconds, double least)
{
    g_string_append_printf(data, "%" G_GUINT64_FORMAT " ", bytes);
    axis_append(data, seconds);
    g_string_append_c(data, ' ');
    axis_append(data, least);
    g_string_append_c(data, '\n');
}

/* Returns "link 25 GB/s", for the slower direction. */
static char *link_label(const struct sweep_file *sweep)
{
    double rate = MIN(sweep->link_rate[0], sweep->link_rate[1]);
    g_autofree char *text = text_rate(rate);
    return rate > 0 ? g_strdup_printf("link %s", text) : g_strdup("the current link");
}

/* Appends a block: the best entry of each budget. */
static void append_sweep(GString *data, const struct sweep_file *sweep, double *longest)
{
    g_autoptr(GArray) budgets = sweep_file_budgets(sweep);
    for (guint b = 0; b < budgets->len; b++) {
        uint64_t budget = g_array_index(budgets, uint64_t, b);
        const struct sweep_file_entry *best = sweep_file_fastest(sweep, budget, NULL);
        if (!best)
            continue;
        append_point(data, budget, best->figures.iteration_seconds, without_link(best));
        *longest = MAX(*longest, best->figures.iteration_seconds);
    }
}

static bool append_plans(GString *data, const GPtrArray *plans)
{
    bool any = false;
    for (guint p = 0; p < plans->len; p++) {
        const struct input_plan *input = g_ptr_array_index(plans, p);
        const struct plan_figures *predicted = &input->plan->predicted;
        if (input->configuration.device_budget == UINT64_MAX || predicted->iteration_seconds <= 0)
            continue;
        append_point(data, input->configuration.device_budget, predicted->iteration_seconds,
                     predicted->iteration_seconds - predicted->stall_seconds);
        any = true;
    }
    return any;
}

/* Returns a sentence about the first and the last budget that fit. */
static char *memory_text(const struct sweep_file *sweep, const GArray *budgets)
{
    const struct sweep_file_entry *least = NULL, *most = NULL;
    for (guint b = 0; b < budgets->len; b++) {
        const struct sweep_file_entry *entry =
            sweep_file_fastest(sweep, g_array_index(budgets, uint64_t, b), NULL);
        least = least ? least : entry;
        most = entry ? entry : most;
    }
    if (!least)
        return g_strdup("Nothing fits.");
    g_autofree char *from = size_format(least->configuration.device_budget);
    g_autofree char *to = size_format(most->configuration.device_budget);
    g_autofree char *slow = text_seconds(least->figures.iteration_seconds);
    g_autofree char *fast = text_seconds(most->figures.iteration_seconds);
    return least == most ? g_strdup_printf("With %s a step takes %s.", from, slow)
                         : g_strdup_printf("With %s a step takes %s; with %s it takes %s.", from,
                                           slow, to, fast);
}

/* Appends what faster links gain with the smallest memory that fits. */
static void append_links(GString *text, const struct sweep_file *sweep, const GArray *budgets,
                         const GPtrArray *faster)
{
    const struct sweep_file_entry *now = NULL;
    for (guint b = 0; b < budgets->len && !now; b++)
        now = sweep_file_fastest(sweep, g_array_index(budgets, uint64_t, b), NULL);
    for (guint f = 0; now && f < faster->len; f++) {
        const struct sweep_file *other = g_ptr_array_index(faster, f);
        const struct sweep_file_entry *then =
            sweep_file_is_slower(sweep, other)
                ? sweep_file_fastest(other, now->configuration.device_budget, NULL)
                : NULL;
        if (!then)
            continue;
        g_autofree char *memory = size_format(now->configuration.device_budget);
        g_autofree char *length = text_seconds(then->figures.iteration_seconds);
        g_autofree char *label = link_label(other);
        g_string_append_printf(text, " With %s and a %s it takes %s.", memory, label, length);
    }
    if (now) {
        g_autofree char *memory = size_format(now->configuration.device_budget);
        g_autofree char *least = text_seconds(without_link(now));
        g_string_append_printf(text, " With %s it takes at least %s, however fast the link is.",
                               memory, least);
    }
}

static void append_axes(struct plot *plot, const GArray *budgets, double longest)
{
    double first = (double)g_array_index(budgets, uint64_t, 0);
    double last = (double)g_array_index(budgets, uint64_t, budgets->len - 1);
    struct axis_unit byte = axis_bytes(last), second = axis_seconds(longest);
    double margin = first < last ? 0.05 * (last - first) : 0.5 * last;
    plot->axis = g_strdup(second.name);
    axis_append_variable(plot->setup, "byte", byte.size);
    axis_append_variable(plot->setup, "second", second.size);
    axis_append_variable(plot->setup, "longest", longest > 0 ? longest : 1);
    axis_append_variable(plot->setup, "left", first - margin);
    axis_append_variable(plot->setup, "right", last + margin);
    g_string_append_printf(
        plot->drawing,
        "    set xrange [left/byte:right/byte]\n    set yrange [0:1.1*longest/second]\n"
        "    set xlabel 'device memory, %s' offset 0,0.3 textcolor rgb ink\n"
        "    set ylabel 'time of a step, %s' textcolor rgb ink\n",
        byte.name, second.name);
}

struct plot *plot_sensitivity(const struct sweep_file *sweep, const GPtrArray *faster,
                              const GPtrArray *plans, unsigned number)
{
    struct plot *plot = plot_new(plot_name("sensitivity", number),
                                 g_strdup("What more device memory or a faster link would buy"));
    g_autoptr(GArray) budgets = sweep_file_budgets(sweep);
    g_autoptr(GString) drawing = g_string_new(NULL);
    double longest = 0;
    guint block = 1;
    g_autofree char *link = link_label(sweep);
    g_string_append(plot->data, "# device memory in bytes; seconds of the best step, and without "
                                "waiting for the link\nNaN NaN NaN\n");
    append_sweep(plot->data, sweep, &longest);
    g_string_append_printf(
        drawing,
        "    plot data index 0 using ($1/byte):($3/second):($2/second) with filledcurves lc rgb "
        "'%s' fs transparent solid 0.12 noborder notitle, \\\n"
        "        data index 0 using ($1/byte):($2/second) with linespoints lc rgb '%s' lw 2.5 pt 7 "
        "ps 0.9 title '%s'",
        palette_track(TRACK_COMPUTE), palette_track(TRACK_COMPUTE), link);
    for (guint f = 0; f < faster->len; f++) {
        const struct sweep_file *other = g_ptr_array_index(faster, f);
        if (!sweep_file_is_slower(sweep, other))
            continue;
        g_autofree char *label = link_label(other);
        g_string_append_printf(plot->data, "\n\n# %s\nNaN NaN NaN\n", label);
        append_sweep(plot->data, other, &longest);
        g_string_append_printf(drawing,
                               ", \\\n        data index %u using ($1/byte):($2/second) with "
                               "linespoints lc rgb '%s' lw 2.5 pt %u ps 0.9 title '%s'",
                               block, palette_link(block), 4 + block, label);
        block++;
    }
    g_string_append(drawing, ", \\\n        data index 0 using ($1/byte):($3/second) with "
                             "linespoints lc rgb ink lw 1.5 dt (8,5) pt 1 ps 0.8 title 'a link "
                             "that takes no time'");
    g_string_append(plot->data, "\n\n# plans, in the same columns\nNaN NaN NaN\n");
    if (append_plans(plot->data, plans))
        g_string_append_printf(drawing,
                               ", \\\n        data index %u using ($1/byte):($2/second) "
                               "with points pt 3 ps 1.6 lw 3 lc rgb '" PALETTE_PLAN
                               "' title 'plan'",
                               block);
    append_axes(plot, budgets, longest);
    g_string_append_printf(plot->drawing, "%s\n", drawing->str);
    plot->wide_height = 400;
    plot->phone_height = 360;
    g_autofree char *memory = memory_text(sweep, budgets);
    g_autoptr(GString) said = g_string_new(memory);
    append_links(said, sweep, budgets, faster);
    g_autofree char *origin = caption_name(sweep->origin);
    plot->alt = g_strdup_printf("The time of the best step by device memory, one line per link. "
                                "The lowest line is a link that takes no time. %s",
                                said->str);
    plot->caption = g_strdup_printf(
        "The fastest of all policies, strategies and chunk sizes of %s with each memory. %s",
        origin, said->str);
    return plot;
}
