/* Plots of runs: the loss, and predictions beside measurements. */
#include "base/size.h"
#include "chunks/figures.h"
#include "report/plot.h"
#include "report/plots.h"
#include "report/text.h"

#include <math.h>

#define MOST_POINTS 800 /* a line cannot show more points */
#define FEW_POINTS  30  /* with at most this many, each point is marked */

/* The range that the axes cover. */
struct loss_extent {
    uint64_t first_step, last_step;
    bool drawable; /* at least one loss is a number */
};

static struct loss_extent extent_of(const GPtrArray *runs)
{
    struct loss_extent extent = {UINT64_MAX, 0, false};
    for (guint r = 0; r < runs->len; r++) {
        const struct logged_run *run = g_ptr_array_index(runs, r);
        for (guint i = 0; i < run->steps->len; i++) {
            const struct run_step *step = &g_array_index(run->steps, struct run_step, i);
            extent.first_step = MIN(extent.first_step, step->step);
            extent.last_step = MAX(extent.last_step, step->step);
            extent.drawable = extent.drawable || !isnan(step->loss);
        }
    }
    return extent;
}

/* gnuplot counts blocks, so an empty block still needs a row. `more` ends it, for a third column.
 */
static void begin_block(GString *data, const struct logged_run *run, const char *what,
                        const char *more)
{
    g_autofree char *origin = text_printable(run->origin);
    g_string_append_printf(data, "%s# %s: step, %s\nNaN NaN%s\n", data->len ? "\n\n" : "", origin,
                           what, more);
}

static void append_point(GString *data, double step, double loss)
{
    axis_append(data, step);
    g_string_append_c(data, ' ');
    axis_append(data, loss);
    g_string_append_c(data, '\n');
}

static guint span_of(const struct logged_run *run)
{
    return (run->steps->len + MOST_POINTS - 1) / MOST_POINTS;
}

/* Draws long runs as means over equal spans of steps. */
static void append_losses(GString *data, const struct logged_run *run)
{
    begin_block(data, run, "loss", "");
    guint span = span_of(run);
    for (guint first = 0; first < run->steps->len; first += span) {
        guint count = MIN(span, run->steps->len - first);
        double step = 0, loss = 0;
        for (guint i = first; i < first + count; i++) {
            step += (double)g_array_index(run->steps, struct run_step, i).step / count;
            loss += g_array_index(run->steps, struct run_step, i).loss / count;
        }
        append_point(data, step, loss);
    }
}

static bool append_evaluations(GString *data, const struct logged_run *run)
{
    bool any = false;
    begin_block(data, run, "loss of the evaluation", "");
    for (guint i = 0; i < run->steps->len; i++) {
        const struct run_step *step = &g_array_index(run->steps, struct run_step, i);
        if (isnan(step->eval_loss))
            continue;
        append_point(data, (double)step->step, step->eval_loss);
        any = true;
    }
    return any;
}

static bool same_loss(double a, double b)
{
    return a == b || (isnan(a) && isnan(b));
}

/* Returns whether all runs log the same losses, bit for bit, in the steps that they share. Their
 * curves then lie on each other. */
static bool all_equal(const GPtrArray *runs, guint *shared)
{
    const struct logged_run *first = g_ptr_array_index(runs, 0);
    *shared = first->steps->len;
    for (guint r = 1; r < runs->len; r++) {
        const struct logged_run *other = g_ptr_array_index(runs, r);
        *shared = MIN(*shared, other->steps->len);
        for (guint i = 0; i < *shared; i++) {
            const struct run_step *a = &g_array_index(first->steps, struct run_step, i);
            const struct run_step *b = &g_array_index(other->steps, struct run_step, i);
            if (a->step != b->step || !same_loss(a->loss, b->loss))
                return false;
        }
    }
    return runs->len > 1 && *shared > 0;
}

/* Returns the entropy of the text as the runs state it, or NAN. */
static double entropy_of(const GPtrArray *runs)
{
    for (guint r = 0; r < runs->len; r++) {
        const struct logged_run *run = g_ptr_array_index(runs, r);
        if (!isnan(run->unigram_entropy))
            return run->unigram_entropy;
    }
    return NAN;
}

/* Returns the distance of at most `most` labels below the axis: 1, 2 or 5 times a power of ten. */
static uint64_t tic_step(uint64_t steps, uint64_t most)
{
    static const uint64_t factors[] = {1, 2, 5};
    uint64_t power = 1;
    for (;; power *= 10)
        for (size_t i = 0; i < G_N_ELEMENTS(factors); i++)
            if (steps / (factors[i] * power) <= most || power > UINT64_MAX / 100)
                return factors[i] * power;
}

static void append_axes(GString *drawing, const struct loss_extent *extent)
{
    uint64_t last = MAX(extent->last_step, extent->first_step + 1);
    g_string_append_printf(drawing,
                           "    set xlabel 'step' textcolor rgb ink\n"
                           "    set ylabel 'loss, nats a token' textcolor rgb ink\n"
                           "    set xrange [%" G_GUINT64_FORMAT ":%" G_GUINT64_FORMAT "]\n"
                           "    distance = phone ? %" G_GUINT64_FORMAT " : %" G_GUINT64_FORMAT
                           "\n    set xtics distance\n%s",
                           extent->first_step, last, tic_step(last - extent->first_step, 4),
                           tic_step(last - extent->first_step, 10),
                           extent->drawable ? "" : "    set yrange [0:1]\n");
}

/* Returns how many earlier runs have the same colour. */
static guint twins_before(const GPtrArray *runs, guint index)
{
    guint twins = 0;
    const struct logged_run *run = g_ptr_array_index(runs, index);
    for (guint r = 0; r < index; r++) {
        const struct logged_run *other = g_ptr_array_index(runs, r);
        twins += !g_strcmp0(other->configuration.maker, run->configuration.maker);
    }
    return twins;
}

/* Returns who decided in the run, or its file's name. Free with g_free. */
static char *label_of(const struct logged_run *run)
{
    return run->configuration.maker ? configuration_short_label(&run->configuration)
                                    : g_path_get_basename(run->origin);
}

static void append_run(GString *drawing, const GPtrArray *runs, guint index, bool evaluated)
{
    const struct logged_run *run = g_ptr_array_index(runs, index);
    const char *maker = run->configuration.maker;
    const char *colour = palette_maker(maker ? maker : run->origin);
    g_autofree char *label = label_of(run);
    g_autofree char *shortened = text_shortened(label, 40);
    g_autofree char *quoted = text_gnuplot(shortened);
    /* Earlier lines are wider, so that equal curves can be seen. */
    g_string_append_printf(drawing,
                           "data index %u with %s lw %u dt %u pt 7 ps 0.5 lc rgb '%s' title %s, "
                           "\\\n        ",
                           2 * index, run->steps->len <= FEW_POINTS ? "linespoints" : "lines",
                           2 + 3 * MIN(runs->len - 1 - index, 3), 1 + twins_before(runs, index) % 5,
                           colour, quoted);
    if (evaluated)
        g_string_append_printf(drawing,
                               "data index %u with points pt 6 ps 1 lw 2 lc rgb '%s' "
                               "title 'its evaluations', \\\n        ",
                               2 * index + 1, colour);
}

/* `entropy` names the line of the entropy, and may be NULL. */
static char *loss_caption(const char *same, const char *entropy, const char *points)
{
    g_autofree char *below =
        entropy ? g_strdup_printf(" Below the %s the model has learned more than the frequency of "
                                  "each token.",
                                  entropy)
                : g_strdup("");
    return g_strconcat("Training loss.", same, below, points, NULL);
}

static void describe_loss(struct plot *plot, const GPtrArray *runs, guint span)
{
    const struct logged_run *run = g_ptr_array_index(runs, 0);
    double first = g_array_index(run->steps, struct run_step, 0).loss;
    double last = g_array_index(run->steps, struct run_step, run->steps->len - 1).loss;
    g_autofree char *from = text_number("%.3f", first), *to = text_number("%.3f", last);
    g_autofree char *entropy = isnan(entropy_of(runs)) ? NULL
                                                       : text_number("%.3f", entropy_of(runs));
    guint shared;
    bool equal = all_equal(runs, &shared);
    plot->alt = g_strdup_printf(
        "Loss by step of %u runs. The first goes from %s to %s in %u steps%s%s.", runs->len, from,
        to, run->steps->len, entropy ? "; the unigram entropy of the text is " : "",
        entropy ? entropy : "");
    g_autofree char *same =
        equal ? g_strdup_printf(" The losses of the runs are equal to the last bit in all %u steps "
                                "that they share, so the curves lie on each other.",
                                shared)
              : g_strdup("");
    const char *points = span > 1 ? " Each point is the mean of several steps." : "";
    plot->caption = loss_caption(same, entropy ? "dashed line" : NULL, points);
    plot->text_caption = loss_caption(same, entropy ? "unigram entropy of the text" : NULL, points);
}

struct plot *plot_loss(const GPtrArray *runs)
{
    struct plot *plot = plot_new(plot_name("loss", 0), g_strdup("Loss"));
    plot->wide_height = 420;
    plot->phone_height = 340;
    struct loss_extent extent = extent_of(runs);
    append_axes(plot->drawing, &extent);
    plot->axis = g_strdup("nats a token");
    g_string_append(plot->drawing, "    plot ");
    guint span = 1;
    for (guint r = 0; r < runs->len; r++) {
        const struct logged_run *run = g_ptr_array_index(runs, r);
        span = MAX(span, span_of(run));
        append_losses(plot->data, run);
        append_run(plot->drawing, runs, r, append_evaluations(plot->data, run));
    }
    double entropy = entropy_of(runs);
    axis_append_variable(plot->setup, "entropy", entropy);
    g_string_append(plot->drawing, "entropy with lines lw 1.5 dt (8,5) lc rgb ink ");
    g_string_append(plot->drawing,
                    isnan(entropy) ? "notitle\n" : "title 'unigram entropy of the text'\n");
    describe_loss(plot, runs, span);
    return plot;
}

/* Appends the steps that have figures, as means over equal spans. Returns the greatest time. */
static double append_times(GString *data, const struct logged_run *run)
{
    double greatest = 0;
    guint span = span_of(run);
    begin_block(data, run, "seconds, of these waiting", " NaN");
    for (guint first = 0; first < run->steps->len; first += span) {
        guint count = 0;
        double step = 0, seconds = 0, stall = 0;
        for (guint i = first; i < MIN(first + span, run->steps->len); i++) {
            const struct run_step *at = &g_array_index(run->steps, struct run_step, i);
            if (!at->counted || !(at->figures.iteration_seconds > 0))
                continue;
            count++;
            step += (double)at->step;
            seconds += at->figures.iteration_seconds;
            stall += at->figures.stall_seconds;
        }
        if (!count)
            continue;
        axis_append(data, step / count);
        g_string_append_c(data, ' ');
        append_point(data, seconds / count, stall / count);
        greatest = MAX(greatest, seconds / count);
    }
    return greatest;
}

/* Appends the lines of one run: its steps, and below them its waiting. */
static void append_run_times(GString *drawing, const GPtrArray *runs, guint index)
{
    const struct logged_run *run = g_ptr_array_index(runs, index);
    const char *maker = run->configuration.maker;
    const char *colour = palette_maker(maker ? maker : run->origin);
    g_autofree char *label = label_of(run);
    g_autofree char *shortened = text_shortened(label, 32);
    g_autofree char *waits = g_strconcat(shortened, ": waits", NULL);
    g_autofree char *quoted = text_gnuplot(shortened), *quoted_waits = text_gnuplot(waits);
    const char *with = run->steps->len <= FEW_POINTS ? "linespoints" : "lines";
    g_string_append_printf(drawing,
                           "%sdata index %u using 1:($2/second) with %s lw 2 dt %u pt 7 ps 0.5 lc "
                           "rgb '%s' title %s, \\\n        data index %u using 1:($3/second) with "
                           "lines lw 1 dt (3,4) lc rgb '%s' title %s",
                           index ? ", \\\n        " : "    plot ", index, with,
                           1 + twins_before(runs, index) % 5, colour, quoted, index, colour,
                           quoted_waits);
}

static guint timed_steps(const struct logged_run *run)
{
    guint count = 0;
    for (guint i = 0; i < run->steps->len; i++) {
        const struct run_step *step = &g_array_index(run->steps, struct run_step, i);
        count += step->counted && step->figures.iteration_seconds > 0;
    }
    return count;
}

static void describe_run_time(struct plot *plot, const GPtrArray *runs)
{
    GString *said = g_string_new(NULL);
    for (guint r = 0; r < runs->len; r++) {
        const struct logged_run *run = g_ptr_array_index(runs, r);
        struct plan_figures measured;
        if (!run_log_measured(run, &measured, NULL))
            continue;
        g_autofree char *length = text_seconds(measured.iteration_seconds);
        g_autofree char *waits = text_seconds(measured.stall_seconds);
        g_autofree char *origin = caption_name(run->origin);
        g_string_append_printf(said, " %s: %s, of which %s waiting.", origin, length, waits);
    }
    plot->alt = g_strdup_printf("Time of each step, and how much of it the device waited. Medians "
                                "from the third step on:%s",
                                said->str);
    plot->caption = g_strdup_printf(
        "The time of each step, and dotted below it how long the device waited. Medians from the "
        "third step on:%s",
        said->str);
    plot->text_caption = g_strdup_printf(
        "The time of each step, and in the lines that end in \"waits\" how long the device waited. "
        "Medians from the third step on:%s",
        said->str);
    g_string_free(said, TRUE);
}

struct plot *plot_run_time(const GPtrArray *runs)
{
    bool any = false;
    for (guint r = 0; r < runs->len; r++)
        any = any || timed_steps(g_ptr_array_index(runs, r)) > 1;
    if (!any)
        return NULL;
    struct plot *plot = plot_new(plot_name("run-time", 0), g_strdup("Step time over the run"));
    struct loss_extent extent = extent_of(runs);
    double greatest = 0;
    GString *lines = g_string_new(NULL);
    for (guint r = 0; r < runs->len; r++) {
        double most = append_times(plot->data, g_ptr_array_index(runs, r));
        greatest = MAX(greatest, most);
        append_run_times(lines, runs, r);
    }
    struct axis_unit second = axis_seconds(greatest);
    axis_append_variable(plot->setup, "second", second.size);
    axis_append_variable(plot->setup, "greatest", greatest);
    append_axes(plot->drawing, &extent);
    g_string_append_printf(plot->drawing,
                           "    set ylabel 'time of a step, %s' textcolor rgb ink\n"
                           "    set yrange [0:1.15*greatest/second]\n%s\n",
                           second.name, lines->str);
    g_string_free(lines, TRUE);
    plot->axis = g_strdup(second.name);
    plot->wide_height = 380;
    plot->phone_height = 340 + 20 * (int)MIN(2 * runs->len, 10);
    describe_run_time(plot, runs);
    return plot;
}

#define MOST_PREDICTIONS 8 /* more cannot be read; the table has all of them */

/* One panel shows one figure of the iteration. */
struct panel {
    const char *title;
    bool seconds;
    double (*value)(const struct plan_figures *figures);
};

static double traffic(const struct plan_figures *figures)
{
    return (double)figures_traffic(figures);
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

static double predicted_value(const struct panel *panel, const struct prediction *prediction)
{
    return panel->seconds && !prediction->timed ? NAN : panel->value(&prediction->predicted);
}

static char *value_label(const struct panel *panel, double value)
{
    if (isnan(value))
        return g_strdup("not predicted");
    return panel->seconds ? text_seconds(value) : size_format((uint64_t)value);
}

/* Counts have no range. */
static void append_range(GString *data, const struct panel *panel,
                         const struct prediction *prediction)
{
    g_string_append_c(data, ' ');
    axis_append(data, panel->value(panel->seconds ? &prediction->low : &prediction->measured));
    g_string_append_c(data, ' ');
    axis_append(data, panel->value(panel->seconds ? &prediction->high : &prediction->measured));
    g_string_append_c(data, '\n');
}

static void append_data(GString *data, const GArray *predictions, guint count)
{
    for (size_t p = 0; p < G_N_ELEMENTS(panels); p++) {
        g_string_append_printf(data,
                               "%s# %s, %s: row, predicted, measured, both as text, the place of "
                               "the first text, and the range of nine of ten steps\n",
                               p ? "\n\n" : "", panels[p].title,
                               panels[p].seconds ? "seconds" : "bytes");
        for (guint i = 0; i < count; i++) {
            const struct prediction *prediction = &g_array_index(predictions, struct prediction, i);
            double predicted = predicted_value(&panels[p], prediction);
            double measured = panels[p].value(&prediction->measured);
            g_autofree char *predicted_label = value_label(&panels[p], predicted);
            g_autofree char *measured_label = value_label(&panels[p], measured);
            g_string_append_printf(data, "%u ", i + 1);
            axis_append(data, predicted);
            g_string_append_c(data, ' ');
            axis_append(data, measured);
            g_string_append_printf(data, " \"%s\" \"%s\" ", predicted_label, measured_label);
            axis_append(data, isnan(predicted) ? 0 : predicted);
            append_range(data, &panels[p], prediction);
        }
    }
}

static void append_setup(GString *setup, const GArray *predictions, guint count)
{
    g_string_append_printf(setup, "pairs = %u\narray name[pairs]; array colour[pairs]\n", count);
    for (guint i = 0; i < count; i++) {
        const struct configuration *configuration =
            g_array_index(predictions, struct prediction, i).configuration;
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
            const struct prediction *prediction = &g_array_index(predictions, struct prediction, i);
            double predicted = predicted_value(&panels[p], prediction);
            greatest = MAX(greatest, panels[p].value(&prediction->measured));
            greatest = MAX(greatest, panels[p].value(&prediction->high));
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

/* Two bars per row: the prediction above the middle, the measurement below it. */
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

#define BAR_COLUMNS 60

static void append_bar_text(GString *text, const char *what, double value, double greatest,
                            const char *number)
{
    g_string_append_printf(text, "   %-10s", what);
    for (int i = 0; !isnan(value) && i < (int)(BAR_COLUMNS * value / greatest + 0.5); i++)
        g_string_append_c(text, *what == 'p' ? '=' : '#');
    g_string_append_printf(text, " %s\n", number);
}

/* Appends two bars for each configuration and panel, each with its number behind it. */
static void append_text(GString *text, const GArray *predictions, guint count)
{
    for (guint i = 0; i < count; i++) {
        const struct prediction *prediction = &g_array_index(predictions, struct prediction, i);
        g_autofree char *label = configuration_label(prediction->configuration);
        g_autofree char *shown = text_printable(label);
        g_string_append_printf(text, " %s\n", shown);
        for (size_t p = 0; p < G_N_ELEMENTS(panels); p++) {
            double predicted = predicted_value(&panels[p], prediction);
            double measured = panels[p].value(&prediction->measured);
            double greatest = isnan(predicted) ? measured : MAX(predicted, measured);
            g_autofree char *before = value_label(&panels[p], predicted);
            g_autofree char *after = value_label(&panels[p], measured);
            g_string_append_printf(text, "  %s\n", panels[p].title);
            append_bar_text(text, "predicted", predicted, greatest > 0 ? greatest : 1, before);
            append_bar_text(text, "measured", measured, greatest > 0 ? greatest : 1, after);
        }
    }
}

static void describe_predicted(struct plot *plot, const GArray *predictions, guint count)
{
    unsigned equal = 0, of = 0, unsteady = 0;
    for (guint i = 0; i < predictions->len; i++) {
        const struct prediction *prediction = &g_array_index(predictions, struct prediction, i);
        unsigned all;
        equal += prediction_equal_counts(prediction, &all);
        of += all;
        unsteady += !prediction->steady;
    }
    g_autofree char *some = count < predictions->len
                                ? g_strdup_printf(" The first %u of %u pairs are drawn.", count,
                                                  predictions->len)
                                : g_strdup("");
    plot->alt = g_strdup_printf(
        "Pairs of bars, predicted and measured, for traffic, peak device memory, stall and step "
        "time of %u configurations. %u of %u counts and peaks are equal.",
        count, equal, of);
    static const char state[] = "One iteration in the steady state: counts of the last step, and "
                                "median times from the third step on.";
    g_autofree char *counts = g_strdup_printf(
        "%u of %u counts and peaks are equal to the last byte.%s%s", equal, of,
        unsteady ? " In some runs the counts differ between steady steps." : "", some);
    plot->caption = g_strdup_printf("%s Nine of ten steps are within the thin lines. %s", state,
                                    counts);
    plot->text_caption = g_strdup_printf("%s %s", state, counts);
}

struct plot *plot_predicted(const GArray *predictions)
{
    struct plot *plot = plot_new(plot_name("predicted", 0), g_strdup("Predicted beside measured"));
    guint count = MIN(predictions->len, MOST_PREDICTIONS);
    plot->wide_height = (int)(100 + 75 + 2 * 75 * count);
    plot->phone_height = (int)(100 + 3 * 75 + 4 * 72 * count);
    append_data(plot->data, predictions, count);
    append_setup(plot->setup, predictions, count);
    g_string_append_printf(plot->drawing, "    height = phone ? %d. : %d.\n", plot->phone_height,
                           plot->wide_height);
    g_string_append(plot->drawing, drawing);
    append_text(plot->text, predictions, count);
    describe_predicted(plot, predictions, count);
    return plot;
}
