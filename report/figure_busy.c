#include "report/axis.h"
#include "report/figures.h"
#include "report/palette.h"
#include "report/phase_bands.h"
#include "report/text.h"

#define COLUMNS 320 /* parts of the iteration, each as high as the share of it that was busy */

/* The strips that the file knows, from the top down. */
struct known {
    unsigned count;
    enum strip strips[STRIPS];
};

static struct known known_of(const struct strips *strips)
{
    struct known known = {0};
    for (int s = 0; s < STRIPS; s++)
        if (strips->known[s] && (s != STRIP_HOST || strips->spans[s]->len))
            known.strips[known.count++] = (enum strip)s;
    return known;
}

static void append_data(GString *data, const struct strips *strips, const struct known *known)
{
    g_autofree double *busy = g_new(double, (size_t)COLUMNS *STRIPS);
    double width = strips->seconds / COLUMNS;
    g_string_append(data, "# seconds; the share of the time around it that was busy:");
    for (unsigned k = 0; k < known->count; k++) {
        g_string_append_printf(data, "%s %s", k ? "," : "", strip_label(known->strips[k]));
        strips_busy_columns(strips, known->strips[k], busy + (size_t)k * COLUMNS, COLUMNS);
    }
    for (guint c = 0; c < COLUMNS; c++)
        for (int edge = 0; edge < 2; edge++) {
            g_string_append_c(data, '\n');
            axis_append(data, (c + (guint)edge) * width);
            for (unsigned k = 0; k < known->count; k++) {
                char share[G_ASCII_DTOSTR_BUF_SIZE];
                g_string_append_printf(
                    data, " %s",
                    g_ascii_formatd(share, sizeof share, "%.4f", busy[k * COLUMNS + c] / width));
            }
        }
    g_string_append_c(data, '\n');
}

static char *share_text(double part, double whole)
{
    g_autofree char *percent = text_number("%.0f", whole > 0 ? 100 * part / whole : 0);
    return g_strconcat(percent, " %", NULL);
}

/* The band of a strip reaches from its number, counted from below, to 0.6 above it. */
static void append_bands(struct figure *figure, const struct strips *strips,
                         const struct known *known, const struct strip_sums *sums)
{
    GString *drawing = figure->drawing;
    for (unsigned k = 0; k < known->count; k++) {
        unsigned y = known->count - 1 - k;
        g_autofree char *share = share_text(sums->busy[known->strips[k]], strips->seconds);
        g_string_append_printf(
            drawing,
            "    set object rectangle from graph 0, first %u to graph 1, first %u.6 behind "
            "fc rgb muted fs transparent solid 0.10 noborder\n"
            "    set label '%s  %s' at graph 0, first %u.78 left textcolor rgb ink\n",
            y, y, strip_label(known->strips[k]), share, y);
    }
    g_string_append(drawing, "    plot");
    for (unsigned k = 0; k < known->count; k++)
        g_string_append_printf(drawing,
                               "%s data using ($1/second):(%u):(%u+0.6*$%u) with filledcurves "
                               "lc rgb '%s' fs solid noborder notitle",
                               k ? ", \\\n        " : "", known->count - 1 - k,
                               known->count - 1 - k, k + 2, palette_strip(known->strips[k]));
    g_string_append_c(drawing, '\n');
}

static void append_axes(struct figure *figure, const struct strips *strips, unsigned bands)
{
    struct axis_unit second = axis_seconds(strips->seconds);
    axis_append_variable(figure->setup, "second", second.size);
    axis_append_variable(figure->setup, "duration", strips->seconds);
    g_string_append_printf(figure->drawing,
                           "    set border 1 lc rgb muted lw 1\n    unset grid\n    unset ytics\n"
                           "    set lmargin 2; set rmargin 2; set tmargin 0.5\n"
                           "    set xrange [0:duration/second]\n    set yrange [0:%u.45]\n"
                           "    set xlabel 'time in the step, %s' offset 0,0.6 textcolor rgb ink\n",
                           bands, second.name);
}

static void describe(struct figure *figure, const struct strips *strips, const struct known *known,
                     const struct strip_sums *sums)
{
    GString *shares = g_string_new(NULL);
    for (unsigned k = 0; k < known->count; k++) {
        g_autofree char *share = share_text(sums->busy[known->strips[k]], strips->seconds);
        g_string_append_printf(shares, "%s%s %s", k ? ", " : "", strip_label(known->strips[k]),
                               share);
    }
    g_autofree char *length = text_seconds(strips->seconds);
    figure->alt = g_strdup_printf("One strip a resource over a step of %s, filled where it is "
                                  "busy. Shares of the step: %s.",
                                  length, shares->str);
    figure->caption = g_strdup_printf(
        "%s, %s. Each strip is as full as the resource is busy; the percentages are shares of the "
        "whole step. Where the device waits, the strip that is busy then is what it waits for.%s%s",
        strips->measured ? "Measured" : "Simulated", strips->origin,
        strips->known[STRIP_H2D] ? "" : " The trace has recorded no copies.",
        strips->known[STRIP_NETWORK] ? " The network is busy while NCCL's kernels run, which also "
                                       "wait for other ranks, and copies between devices."
                                     : "");
    g_string_free(shares, TRUE);
}

struct figure *figure_busy(const struct strips *strips, unsigned number)
{
    struct figure *figure = figure_new(figure_name("busy", number),
                                       strips_title("Who is busy, when", strips));
    struct known known = known_of(strips);
    struct strip_sums sums = strips_sum_all(strips);
    figure->wide_height = 75 + 58 * (int)known.count;
    figure->phone_height = 75 + 52 * (int)known.count;
    append_data(figure->data, strips, &known);
    append_axes(figure, strips, known.count);
    phase_bands_append(figure->drawing, strips->phases, strips->seconds);
    append_bands(figure, strips, &known, &sums);
    describe(figure, strips, &known, &sums);
    return figure;
}
