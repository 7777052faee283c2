#include "report/figures.h"

#include "report/axis.h"
#include "report/palette.h"
#include "report/text.h"

#include <math.h>

#define MOST_POINTS 800 /* more than a line across the figure can show */
#define FEW_POINTS  30  /* each can be seen by itself */

/* What the axes must hold. */
struct extent {
    uint64_t first_step, last_step;
    bool drawable; /* there is a number among the losses */
};

static struct extent extent_of(const GPtrArray *runs)
{
    struct extent extent = {UINT64_MAX, 0, false};
    for (guint r = 0; r < runs->len; r++) {
        const struct run_log *run = g_ptr_array_index(runs, r);
        for (guint i = 0; i < run->steps->len; i++) {
            const struct run_step *step = &g_array_index(run->steps, struct run_step, i);
            extent.first_step = MIN(extent.first_step, step->step);
            extent.last_step = MAX(extent.last_step, step->step);
            extent.drawable = extent.drawable || !isnan(step->loss);
        }
    }
    return extent;
}

/* gnuplot counts blocks: an empty one still needs a row. */
static void begin_block(GString *data, const struct run_log *run, const char *what)
{
    g_autofree char *origin = text_printable(run->origin);
    g_string_append_printf(data, "%s# %s: step, %s\nNaN NaN\n", data->len ? "\n\n" : "", origin,
                           what);
}

static void append_point(GString *data, double step, double loss)
{
    axis_append(data, step);
    g_string_append_c(data, ' ');
    axis_append(data, loss);
    g_string_append_c(data, '\n');
}

static guint span_of(const struct run_log *run)
{
    return (run->steps->len + MOST_POINTS - 1) / MOST_POINTS;
}

/* Long runs are drawn as means over equal spans of steps. */
static void append_losses(GString *data, const struct run_log *run)
{
    begin_block(data, run, "loss");
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

static bool append_evaluations(GString *data, const struct run_log *run)
{
    bool any = false;
    begin_block(data, run, "loss of the evaluation");
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

/* Whether all runs log the same losses, bit for bit, in the steps that they share, and they share
 * some: curves that lie on each other. */
static bool all_equal(const GPtrArray *runs, guint *shared)
{
    const struct run_log *first = g_ptr_array_index(runs, 0);
    *shared = first->steps->len;
    for (guint r = 1; r < runs->len; r++) {
        const struct run_log *other = g_ptr_array_index(runs, r);
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

/* The text's entropy as the runs state it; NAN where none does. */
static double entropy_of(const GPtrArray *runs)
{
    for (guint r = 0; r < runs->len; r++) {
        const struct run_log *run = g_ptr_array_index(runs, r);
        if (!isnan(run->unigram_entropy))
            return run->unigram_entropy;
    }
    return NAN;
}

static void append_axes(GString *drawing, const struct extent *extent)
{
    uint64_t last = MAX(extent->last_step, extent->first_step + 1);
    g_string_append_printf(drawing,
                           "    set xlabel 'step' textcolor rgb ink\n"
                           "    set ylabel 'loss, nats a token' textcolor rgb ink\n"
                           "    set xrange [%" G_GUINT64_FORMAT ":%" G_GUINT64_FORMAT "]\n%s",
                           extent->first_step, last,
                           extent->drawable ? "" : "    set yrange [0:1]\n");
}

/* How many of the runs before this one have the same colour. */
static guint twins_before(const GPtrArray *runs, guint index)
{
    guint twins = 0;
    const struct run_log *run = g_ptr_array_index(runs, index);
    for (guint r = 0; r < index; r++) {
        const struct run_log *other = g_ptr_array_index(runs, r);
        twins += !g_strcmp0(other->configuration.maker, run->configuration.maker);
    }
    return twins;
}

static void append_run(GString *drawing, const GPtrArray *runs, guint index, bool evaluated)
{
    const struct run_log *run = g_ptr_array_index(runs, index);
    const char *maker = run->configuration.maker;
    const char *colour = palette_maker(maker ? maker : run->origin);
    g_autofree char *label = maker ? configuration_short_label(&run->configuration)
                                   : g_path_get_basename(run->origin);
    g_autofree char *shortened = text_shortened(label, 40);
    g_autofree char *quoted = text_gnuplot(shortened);
    /* Earlier lines are wider, so that equal curves are seen to be equal. */
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

static void describe(struct figure *figure, const GPtrArray *runs, guint span)
{
    const struct run_log *run = g_ptr_array_index(runs, 0);
    double first = g_array_index(run->steps, struct run_step, 0).loss;
    double last = g_array_index(run->steps, struct run_step, run->steps->len - 1).loss;
    g_autofree char *from = text_number("%.3f", first), *to = text_number("%.3f", last);
    g_autofree char *entropy = isnan(entropy_of(runs)) ? NULL
                                                       : text_number("%.3f", entropy_of(runs));
    guint shared;
    bool equal = all_equal(runs, &shared);
    figure->alt = g_strdup_printf(
        "Loss by step of %u runs. The first goes from %s to %s in %u steps%s%s.", runs->len, from,
        to, run->steps->len, entropy ? "; the unigram entropy of the text is " : "",
        entropy ? entropy : "");
    g_autofree char *same =
        equal ? g_strdup_printf(" The runs' losses are equal to the last bit in all %u steps that "
                                "they share: the curves lie on each other.",
                                shared)
              : g_strdup("");
    figure->caption = g_strdup_printf(
        "Training loss.%s%s%s", same,
        entropy ? " Below the dashed line the model knows more than how often each token occurs."
                : "",
        span > 1 ? " Means over equal spans of steps." : "");
}

struct figure *figure_loss(const GPtrArray *runs)
{
    struct figure *figure = figure_new(figure_name("loss", 0), g_strdup("Loss"));
    figure->wide_height = 420;
    figure->phone_height = 340;
    struct extent extent = extent_of(runs);
    append_axes(figure->drawing, &extent);
    g_string_append(figure->drawing, "    plot ");
    guint span = 1;
    for (guint r = 0; r < runs->len; r++) {
        const struct run_log *run = g_ptr_array_index(runs, r);
        span = MAX(span, span_of(run));
        append_losses(figure->data, run);
        append_run(figure->drawing, runs, r, append_evaluations(figure->data, run));
    }
    double entropy = entropy_of(runs);
    axis_append_variable(figure->setup, "entropy", entropy);
    g_string_append(figure->drawing, "entropy with lines lw 1.5 dt (8,5) lc rgb ink ");
    g_string_append(figure->drawing,
                    isnan(entropy) ? "notitle\n" : "title 'unigram entropy of the text'\n");
    describe(figure, runs, span);
    return figure;
}
