#include "report/figures.h"

#include "report/axis.h"
#include "report/palette.h"
#include "report/quantities.h"
#include "report/text.h"
#include "traces/size.h"

#include <math.h>

#define MOST_PAIRS 8 /* more would not be read; the table has them all */

/* One panel: a figure of the iteration. */
struct panel {
    const char *title;
    bool seconds;
    double (*value)(const struct plan_figures *figures);
};

static double traffic(const struct plan_figures *figures)
{
    return (double)quantity_traffic(figures);
}

static double peak(const struct plan_figures *figures)
{
    return (double)figures->peak_device_bytes;
}

static double stall(const struct plan_figures *figures)
{
    return figures->stall_seconds;
}

static double step_time(const struct plan_figures *figures)
{
    return figures->iteration_seconds;
}

static const struct panel panels[] = {
    {"traffic", false, traffic},
    {"peak device memory", false, peak},
    {"stall", true, stall},
    {"step time", true, step_time},
};

static double predicted_value(const struct panel *panel, const struct pair *pair)
{
    return panel->seconds && !pair->timed ? NAN : panel->value(&pair->predicted);
}

static char *value_label(const struct panel *panel, double value)
{
    if (isnan(value))
        return g_strdup("not predicted");
    return panel->seconds ? text_seconds(value) : size_format((uint64_t)value);
}

/* Counts are one number. */
static void append_range(GString *data, const struct panel *panel, const struct pair *pair)
{
    g_string_append_c(data, ' ');
    axis_append(data, panel->value(panel->seconds ? &pair->low : &pair->measured));
    g_string_append_c(data, ' ');
    axis_append(data, panel->value(panel->seconds ? &pair->high : &pair->measured));
    g_string_append_c(data, '\n');
}

static void append_data(GString *data, const GArray *pairs, guint count)
{
    for (size_t p = 0; p < G_N_ELEMENTS(panels); p++) {
        g_string_append_printf(data,
                               "%s# %s, %s: row, predicted, measured, both as text, the place of "
                               "the first text, and between what nine of ten steps lie\n",
                               p ? "\n\n" : "", panels[p].title,
                               panels[p].seconds ? "seconds" : "bytes");
        for (guint i = 0; i < count; i++) {
            const struct pair *pair = &g_array_index(pairs, struct pair, i);
            double predicted = predicted_value(&panels[p], pair);
            double measured = panels[p].value(&pair->measured);
            g_autofree char *predicted_label = value_label(&panels[p], predicted);
            g_autofree char *measured_label = value_label(&panels[p], measured);
            g_string_append_printf(data, "%u ", i + 1);
            axis_append(data, predicted);
            g_string_append_c(data, ' ');
            axis_append(data, measured);
            g_string_append_printf(data, " \"%s\" \"%s\" ", predicted_label, measured_label);
            axis_append(data, isnan(predicted) ? 0 : predicted);
            append_range(data, &panels[p], pair);
        }
    }
}

static void append_setup(GString *setup, const GArray *pairs, guint count)
{
    g_string_append_printf(setup, "pairs = %u\narray name[pairs]; array colour[pairs]\n", count);
    for (guint i = 0; i < count; i++) {
        const struct configuration *configuration =
            g_array_index(pairs, struct pair, i).configuration;
        g_autofree char *label = configuration_label(configuration);
        g_autofree char *shortened = text_shortened(label, 52);
        g_autofree char *quoted = text_gnuplot(shortened);
        g_string_append_printf(setup, "name[%u] = %s; colour[%u] = '%s'\n", i + 1, quoted, i + 1,
                               palette_maker(configuration->maker));
    }
    g_string_append_printf(setup, "array title[%d]; array scale[%d]; array greatest[%d]\n",
                           (int)G_N_ELEMENTS(panels), (int)G_N_ELEMENTS(panels),
                           (int)G_N_ELEMENTS(panels));
    for (size_t p = 0; p < G_N_ELEMENTS(panels); p++) {
        double greatest = 0;
        for (guint i = 0; i < count; i++) {
            const struct pair *pair = &g_array_index(pairs, struct pair, i);
            double predicted = predicted_value(&panels[p], pair);
            greatest = MAX(greatest, panels[p].value(&pair->measured));
            greatest = MAX(greatest, panels[p].value(&pair->high));
            greatest = isnan(predicted) ? greatest : MAX(greatest, predicted);
        }
        struct axis_unit unit = panels[p].seconds ? axis_seconds(greatest) : axis_bytes(greatest);
        g_string_append_printf(setup, "title[%zu] = '%s, %s'; scale[%zu] = real(", p + 1,
                               panels[p].title, unit.name, p + 1);
        axis_append(setup, unit.size);
        g_string_append_printf(setup, "); greatest[%zu] = real(", p + 1);
        axis_append(setup, greatest > 0 ? greatest : unit.size);
        g_string_append(setup, ")\n");
    }
}

/* A bar of half the height of a row: above its middle the prediction, below it the measurement. */
static const char drawing[] =
    "    set multiplot layout (phone ? 4 : 2), (phone ? 1 : 2) \\\n"
    "        margins screen (phone ? 0.03 : 0.015), screen (phone ? 0.97 : 0.985), \\\n"
    "        screen 70/height, screen 1 - 30/height \\\n"
    "        spacing screen 0.03, screen 75/height\n"
    "    unset key\n"
    "    set border 1 lc rgb muted\n"
    "    unset ytics\n"
    "    set grid xtics lc rgb grid lw 1 lt 1\n"
    "    set yrange [pairs+0.6:0.3]\n"
    "    do for [i = 1:pairs] { set label name[i] at graph 0.008, first i-0.42 left front "
    "textcolor rgb ink }\n"
    "    do for [p = 1:4] {\n"
    "        set title title[p] offset 0,-0.6 textcolor rgb ink\n"
    "        set xrange [0:1.3*greatest[p]/scale[p]]\n"
    "        plot for [i = 1:pairs] data index p-1 every ::(i-1)::(i-1) \\\n"
    "            using (0):1:(0):($2/scale[p]):($1-0.27):($1+0.02) \\\n"
    "            with boxxyerror lc rgb colour[i] fs transparent solid 0.4 border, \\\n"
    "            for [i = 1:pairs] data index p-1 every ::(i-1)::(i-1) \\\n"
    "            using (0):1:(0):($3/scale[p]):($1+0.06):($1+0.35) \\\n"
    "            with boxxyerror lc rgb colour[i] fs solid border, \\\n"
    "            data index p-1 using ($6/scale[p]):($1-0.125):4 with labels left "
    "offset 0.5,0 textcolor rgb ink, \\\n"
    "            data index p-1 using ($3/scale[p]):($8 > $7 ? $1+0.205 : "
    "NaN):($7/scale[p]):($8/scale[p]) "
    "with xerrorbars pt 0 lc rgb ink lw 1.5, \\\n"
    "            data index p-1 using (($8 > $3 ? $8 : $3)/scale[p]):($1+0.205):5 with labels left "
    "offset 0.5,0 textcolor rgb ink\n"
    "    }\n"
    "    unset label; set origin 0,0; set size 1,32/height\n"
    "    set lmargin 0; set rmargin 0; set tmargin 0; set bmargin 0\n"
    "    unset border; unset tics; unset title; unset grid; set xrange [0:1]; set yrange [0:1]\n"
    "    set key inside center center horizontal\n"
    "    plot NaN with boxes lc rgb muted fs transparent solid 0.4 border title 'predicted', \\\n"
    "        NaN with boxes lc rgb muted fs solid border title 'measured'\n"
    "    unset multiplot\n";

static void describe(struct figure *figure, const GArray *pairs, guint count)
{
    unsigned equal = 0, of = 0, unsteady = 0;
    for (guint i = 0; i < pairs->len; i++) {
        const struct pair *pair = &g_array_index(pairs, struct pair, i);
        unsigned all;
        equal += pair_equal_counts(pair, &all);
        of += all;
        unsteady += !pair->steady;
    }
    g_autofree char *some = count < pairs->len
                                ? g_strdup_printf(" The first %u of %u pairs are drawn.", count,
                                                  pairs->len)
                                : g_strdup("");
    figure->alt = g_strdup_printf(
        "Pairs of bars, predicted and measured, for traffic, peak device memory, stall and step "
        "time of %u configurations. %u of %u counts and peaks are equal.",
        count, equal, of);
    figure->caption = g_strdup_printf(
        "An iteration in the steady state: counts of the last step, medians of the times from the "
        "third step on; nine of ten steps lie within the thin lines. Counts and peaks equal to the "
        "last byte: %u of %u.%s%s",
        equal, of, unsteady ? " Some runs did not count the same in every steady step." : "", some);
}

struct figure *figure_predicted(const GArray *pairs)
{
    struct figure *figure = figure_new(figure_name("predicted", 0),
                                       g_strdup("Predicted beside measured"));
    guint count = MIN(pairs->len, MOST_PAIRS);
    figure->wide_height = (int)(100 + 75 + 2 * 75 * count);
    figure->phone_height = (int)(100 + 3 * 75 + 4 * 72 * count);
    append_data(figure->data, pairs, count);
    append_setup(figure->setup, pairs, count);
    g_string_append_printf(figure->drawing, "    height = phone ? %d. : %d.\n",
                           figure->phone_height, figure->wide_height);
    g_string_append(figure->drawing, drawing);
    describe(figure, pairs, count);
    return figure;
}
