#include "report/axis.h"
#include "report/figures.h"
#include "report/palette.h"
#include "report/text.h"

#define MOST_BARS 12 /* more would not be read; the tables have them all */

/* The parts of a bar, from left to right. */
enum { PARTS = STRIP_NO_PHASE + 1 + STRIPS + 1 };

static const char *const part_names[PARTS] = {
    [0] = "forward",
    [1] = "backward",
    [2] = "update on the device",
    [3] = "compute, all phases",
    [4 + STRIP_H2D] = "waits for H2D",
    [4 + STRIP_D2H] = "waits for D2H",
    [4 + STRIP_HOST] = "waits for the host",
    [4 + STRIP_NETWORK] = "waits for the network",
    [4 + STRIP_UNKNOWN] = "waits",
};

static double part_of(const struct split *split, int part)
{
    if (part <= STRIP_NO_PHASE)
        return split->compute[part];
    return split->wait[part - STRIP_NO_PHASE - 1];
}

static const char *colour_of(int part)
{
    if (part < STRIP_NO_PHASE)
        return palette_compute((enum trace_phase)part);
    return part == STRIP_NO_PHASE ? PALETTE_COMPUTE : palette_wait(part - STRIP_NO_PHASE - 1);
}

static void append_data(GString *data, const GPtrArray *splits, guint bars)
{
    g_string_append(data, "# bar, step in seconds and as text; from and to, in seconds, of:");
    for (int part = 0; part < PARTS; part++)
        if (part_names[part])
            g_string_append_printf(data, "%s %s", part ? "," : "", part_names[part]);
    for (guint b = 0; b < bars; b++) {
        const struct split *split = g_ptr_array_index(splits, b);
        g_autofree char *length = text_seconds(split->seconds);
        double end = 0;
        g_string_append_printf(data, "\n%u ", b + 1);
        axis_append(data, split->seconds);
        g_string_append_printf(data, " \"%s\"", length);
        for (int part = 0; part < PARTS; part++) {
            if (!part_names[part])
                continue;
            g_string_append_c(data, ' ');
            axis_append(data, end);
            g_string_append_c(data, ' ');
            axis_append(data, end += part_of(split, part));
        }
    }
    g_string_append_c(data, '\n');
}

static bool is_used(const GPtrArray *splits, guint bars, int part)
{
    for (guint b = 0; b < bars; b++) {
        const struct split *split = g_ptr_array_index(splits, b);
        if (part_of(split, part) > 1e-3 * split->seconds)
            return true;
    }
    return false;
}

static void append_names(GString *setup, const GPtrArray *splits, guint bars)
{
    g_string_append_printf(setup, "bars = %u\narray name[bars]\n", bars);
    for (guint b = 0; b < bars; b++) {
        const struct split *split = g_ptr_array_index(splits, b);
        g_autofree char *label = text_shortened(split->label, 46);
        g_autofree char *quoted = text_gnuplot(label);
        g_string_append_printf(setup, "name[%u] = %s\n", b + 1, quoted);
    }
}

/* A bar's label stands above it, so that it has the whole width also on a phone. */
static void append_plot(GString *drawing, const GPtrArray *splits, guint bars)
{
    int column = 4;
    const char *separator = "    plot";
    for (int part = 0; part < PARTS; part++) {
        if (!part_names[part])
            continue;
        if (is_used(splits, bars, part)) {
            g_string_append_printf(
                drawing,
                "%s data using (0):1:($%d/second):($%d/second):($1-0.1):($1+0.3) with boxxyerror "
                "lc rgb '%s' fs solid noborder title '%s'",
                separator, column, column + 1, colour_of(part), part_names[part]);
            separator = ", \\\n        ";
        }
        column += 2;
    }
    g_string_append_printf(drawing,
                           "%s data using ($2/second):($1+0.1):3 with labels left offset 0.5,0 "
                           "textcolor rgb ink notitle\n",
                           separator);
}

static void describe(struct figure *figure, const GPtrArray *splits, guint bars)
{
    GString *alt = g_string_new("Stacked bars of a step's time, compute and waiting:");
    for (guint b = 0; b < bars; b++) {
        const struct split *split = g_ptr_array_index(splits, b);
        double waits = 0;
        for (int cause = 0; cause <= STRIP_UNKNOWN; cause++)
            waits += split->wait[cause];
        g_autofree char *length = text_seconds(split->seconds), *waiting = text_seconds(waits);
        g_string_append_printf(alt, "%s %s %s, of which %s waiting", b ? ";" : "", split->label,
                               length, waiting);
    }
    figure->alt = g_string_free(g_string_append_c(alt, '.'), FALSE);
    figure->caption = g_strdup_printf(
        "Blue is work on the device (grey where its phases are not known), red is waiting, by what "
        "it waits for.%s%s",
        bars < splits->len ? " The fastest are drawn, the tables have all." : "",
        bars == 1 || ((const struct split *)g_ptr_array_index(splits, bars - 1))->given
            ? ""
            : " The steps that were given come first, then what the same step could be with the "
              "same memory, the fastest first.");
}

struct figure *figure_bars(const GPtrArray *splits)
{
    struct figure *figure = figure_new(figure_name("bars", 0),
                                       g_strdup("Where the time of a step goes"));
    guint bars = MIN(splits->len, MOST_BARS);
    double longest = 0;
    for (guint b = 0; b < bars; b++)
        longest = MAX(longest, ((const struct split *)g_ptr_array_index(splits, b))->seconds);
    struct axis_unit second = axis_seconds(longest);
    figure->wide_height = 110 + 44 * (int)bars;
    figure->phone_height = 150 + 44 * (int)bars;
    append_data(figure->data, splits, bars);
    append_names(figure->setup, splits, bars);
    axis_append_variable(figure->setup, "second", second.size);
    axis_append_variable(figure->setup, "longest", longest);
    g_string_append_printf(
        figure->drawing,
        "    set border 1 lc rgb muted lw 1\n    unset ytics\n"
        "    set grid xtics lc rgb grid lw 1 lt 1\n"
        "    set lmargin 1; set rmargin 3; set tmargin 0.3\n"
        "    set xrange [0:(phone ? 1.22 : 1.1)*longest/second]\n    set yrange [bars+0.4:0.4]\n"
        "    set xlabel 'time of a step, %s' offset 0,0.6 textcolor rgb ink\n"
        "    do for [b = 1:bars] { set label name[b] at graph 0.003, first b-(page < 4 ? 0.34 : "
        "0.4) "
        "left textcolor rgb ink }\n",
        second.name);
    append_plot(figure->drawing, splits, bars);
    describe(figure, splits, bars);
    return figure;
}
