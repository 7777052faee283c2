#include "report/figures.h"

#include "report/axis.h"
#include "report/palette.h"
#include "report/text.h"

#include <math.h>
#include <string.h>

#define MOST_POINTS 800 /* more than a line across the figure can show */

/* Long runs are drawn as means over equal spans of steps. */
static guint append_run(GString *data, const struct run_log *run)
{
    g_autofree char *origin = text_printable(run->origin);
    g_string_append_printf(data, "%s# %s: step, loss\n", data->len ? "\n\n" : "", origin);
    guint span = (run->steps->len + MOST_POINTS - 1) / MOST_POINTS;
    for (guint first = 0; first < run->steps->len; first += span) {
        guint count = MIN(span, run->steps->len - first);
        double step = 0, loss = 0;
        for (guint i = first; i < first + count; i++) {
            step += (double)g_array_index(run->steps, struct run_step, i).step / count;
            loss += g_array_index(run->steps, struct run_step, i).loss / count;
        }
        axis_append(data, step);
        g_string_append_c(data, ' ');
        axis_append(data, loss);
        g_string_append_c(data, '\n');
    }
    return span;
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
            if (a->step != b->step || memcmp(&a->loss, &b->loss, sizeof a->loss) != 0)
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

static void append_lines(GString *drawing, const GPtrArray *runs)
{
    g_string_append(drawing, "    plot ");
    for (guint r = 0; r < runs->len; r++) {
        const struct run_log *run = g_ptr_array_index(runs, r);
        const char *maker = run->configuration.maker;
        guint same = 0;
        for (guint earlier = 0; earlier < r; earlier++) {
            const struct run_log *other = g_ptr_array_index(runs, earlier);
            same += !g_strcmp0(other->configuration.maker, maker);
        }
        g_autofree char *label = maker ? configuration_short_label(&run->configuration)
                                       : g_path_get_basename(run->origin);
        g_autofree char *shortened = text_shortened(label, 40);
        g_autofree char *quoted = text_gnuplot(shortened);
        /* Earlier lines are wider, so that equal curves are seen to be equal. */
        g_string_append_printf(drawing,
                               "%sdata index %u with lines lw %u dt %u lc rgb '%s' title %s",
                               r ? ", \\\n        " : "", r, 2 + 3 * MIN(runs->len - 1 - r, 3),
                               1 + same % 5, palette_maker(maker ? maker : run->origin), quoted);
    }
    if (!isnan(entropy_of(runs)))
        g_string_append(drawing, ", \\\n        entropy with lines lw 1.5 dt (8,5) lc rgb ink "
                                 "title 'unigram entropy of the text'");
    g_string_append_c(drawing, '\n');
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
    guint span = 1;
    for (guint r = 0; r < runs->len; r++)
        span = MAX(span, append_run(figure->data, g_ptr_array_index(runs, r)));
    double entropy = entropy_of(runs);
    if (!isnan(entropy)) {
        g_string_append(figure->setup, "entropy = ");
        axis_append(figure->setup, entropy);
        g_string_append_c(figure->setup, '\n');
    }
    g_string_append(figure->drawing, "    set xlabel 'step' textcolor rgb ink\n"
                                     "    set ylabel 'loss, nats a token' textcolor rgb ink\n");
    append_lines(figure->drawing, runs);
    describe(figure, runs, span);
    return figure;
}
