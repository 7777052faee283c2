/* Figures of one step: where its time goes, who is busy when, and what the link carries. */
#include "report/figure.h"
#include "report/figures.h"
#include "report/text.h"

#include <string.h>

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

static void append_bar_data(GString *data, const GPtrArray *splits, guint bars)
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

static void describe_bars(struct figure *figure, const GPtrArray *splits, guint bars)
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
    append_bar_data(figure->data, splits, bars);
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
    describe_bars(figure, splits, bars);
    return figure;
}

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

static void append_busy_data(GString *data, const struct strips *strips, const struct known *known)
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

static void describe_busy(struct figure *figure, const struct strips *strips,
                          const struct known *known, const struct strip_sums *sums)
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
    append_busy_data(figure->data, strips, &known);
    append_axes(figure, strips, known.count);
    phase_bands_append(figure->drawing, strips->phases, strips->seconds);
    append_bands(figure, strips, &known, &sums);
    describe_busy(figure, strips, &known, &sums);
    return figure;
}

#define COLUMNS 320 /* parts of the iteration; the rate is the mean over each */

static void append_rate_data(GString *data, const struct strips *strips)
{
    double bytes[2][COLUMNS], width = strips->seconds / COLUMNS;
    strips_byte_columns(strips, STRIP_H2D, bytes[0], COLUMNS);
    strips_byte_columns(strips, STRIP_D2H, bytes[1], COLUMNS);
    g_string_append(data,
                    "# seconds, H2D and D2H in bytes a second: means of the time around it\n");
    for (guint c = 0; c < COLUMNS; c++)
        for (int edge = 0; edge < 2; edge++) {
            axis_append(data, (c + (guint)edge) * width);
            for (int way = 0; way < 2; way++) {
                char rate[G_ASCII_DTOSTR_BUF_SIZE];
                g_string_append_printf(
                    data, " %s", g_ascii_formatd(rate, sizeof rate, "%.0f", bytes[way][c] / width));
            }
            g_string_append_c(data, '\n');
        }
}

static const char panels[] =
    "    set multiplot\n"
    "    set lmargin at screen (phone ? 0.14 : 0.075); set rmargin at screen 0.985\n"
    "    set xrange [0:duration/second]\n"
    "    set yrange [0:1.35*highest/rate]\n"
    "    array colour[2] = ['%s', '%s']\n"
    "    array name[2] = ['H2D', 'D2H']\n"
    "    array peak[2] = [h2d_peak, d2h_peak]\n"
    "    array peak_label[2] = [h2d_label, d2h_label]\n"
    "    do for [way = 1:2] {\n"
    "        set tmargin at screen (way == 1 ? 0.99 : 0.545)\n"
    "        set bmargin at screen (way == 1 ? 0.585 : 0.14)\n"
    "        set format x (way == 1 ? '' : '%%g')\n"
    "        set xlabel (way == 1 ? '' : x_label) offset 0,0.6 textcolor rgb ink\n"
    "        set ylabel name[way].', '.rate_name offset (phone ? 1.5 : 0),0 textcolor rgb ink\n"
    "        set label 99 peak_label[way] at graph 0.99, first 1.15*peak[way]/rate right "
    "textcolor rgb ink\n"
    "        plot data index 0 using ($1/second):(column(way+1)/rate) with filledcurves y1=0 "
    "lc rgb colour[way] fs solid noborder notitle, \\\n"
    "            peak[way]/rate with lines lc rgb ink lw 1.5 dt (8,5) notitle%s\n"
    "        unset label; unset object\n"
    "    }\n"
    "    unset multiplot\n";

/* A block a direction. */
static void append_nvml(struct figure *figure, const struct strips *strips)
{
    g_string_append(figure->data, "\n\n# seconds, bytes a second: H2D by NVML\n");
    curve_append_data(figure->data, strips->curves[CURVE_H2D], strips->seconds, COLUMNS);
    g_string_append(figure->data, "\n\n# D2H by NVML, likewise\n");
    curve_append_data(figure->data, strips->curves[CURVE_D2H], strips->seconds, COLUMNS);
}

/* Of a direction: what the link can do where a file says so, else its fastest copy. */
static double peak_of(const struct strips *strips, int way)
{
    double fastest = strips_peak_rate(strips, way ? STRIP_D2H : STRIP_H2D);
    return strips->link_said_by ? strips->link_rate[way] : fastest;
}

/* `fastest`: of all that was measured. */
static void append_rates(struct figure *figure, const double *peaks, double fastest)
{
    static const char *const names[] = {"h2d", "d2h"};
    double highest = MAX(MAX(peaks[0], peaks[1]), fastest);
    double unit = highest >= 1e9 ? 1e9 : highest >= 1e6 ? 1e6 : 1e3;
    axis_append_variable(figure->setup, "rate", unit);
    axis_append_variable(figure->setup, "highest", highest > 0 ? highest : unit);
    g_string_append_printf(figure->setup, "rate_name = '%s'\n",
                           unit == 1e9   ? "GB/s"
                           : unit == 1e6 ? "MB/s"
                                         : "kB/s");
    for (int way = 0; way < 2; way++) {
        g_autofree char *variable = g_strconcat(names[way], "_peak", NULL);
        g_autofree char *label = text_rate(peaks[way]);
        axis_append_variable(figure->setup, variable, peaks[way]);
        g_string_append_printf(figure->setup, "%s_label = '%s%s'\n", names[way],
                               peaks[way] > 0 ? "peak " : "no copies", peaks[way] > 0 ? label : "");
    }
}

static void describe_link(struct figure *figure, const struct strips *strips, const double *peaks)
{
    struct strip_sums sums = strips_sum_all(strips);
    g_autofree char *h2d = text_rate(sums.bytes[STRIP_H2D] / strips->seconds);
    g_autofree char *d2h = text_rate(sums.bytes[STRIP_D2H] / strips->seconds);
    g_autofree char *h2d_peak = text_rate(peaks[0]), *d2h_peak = text_rate(peaks[1]);
    figure->alt = g_strdup_printf("Rate of the copies over a step, host to device above, device to "
                                  "host below. Means: %s and %s; the peaks are %s and %s.",
                                  h2d, d2h, h2d_peak, d2h_peak);
    g_autofree char *peak =
        strips->link_said_by ? g_strdup_printf("what the link can do, by %s", strips->link_said_by)
                             : g_strdup("the rate of the fastest copy in it (no platform's file "
                                        "says what the link can do)");
    figure->caption = g_strdup_printf(
        "%s, %s. Over the whole step H2D moves %s on average and D2H %s. The dashed line is "
        "%s: what lies below the line, the link could have moved.%s",
        strips->measured ? "Measured" : "Simulated", strips->origin, h2d, d2h, peak,
        strips->curves[CURVE_H2D]->len ? " The dark line is all of PCIe, by NVML." : "");
}

struct figure *figure_link(const struct strips *strips, unsigned number)
{
    struct figure *figure =
        figure_new(figure_name("link", number),
                   strips_title("What the link carries, beside its peak", strips));
    const double peaks[2] = {peak_of(strips, 0), peak_of(strips, 1)};
    double nvml_most = MAX(curve_most(strips->curves[CURVE_H2D]),
                           curve_most(strips->curves[CURVE_D2H]));
    double fastest = MAX(strips_peak_rate(strips, STRIP_H2D), strips_peak_rate(strips, STRIP_D2H));
    struct axis_unit second = axis_seconds(strips->seconds);
    figure->wide_height = 400;
    figure->phone_height = 360;
    append_rate_data(figure->data, strips);
    append_rates(figure, peaks, MAX(nvml_most, fastest));
    axis_append_variable(figure->setup, "second", second.size);
    axis_append_variable(figure->setup, "duration", strips->seconds);
    g_string_append_printf(figure->setup, "x_label = 'time in the step, %s'\n", second.name);
    phase_bands_append(figure->drawing, strips->phases, strips->seconds);
    bool nvml = strips->curves[CURVE_H2D]->len || strips->curves[CURVE_D2H]->len;
    g_string_append_printf(figure->drawing, panels, palette_strip(STRIP_H2D),
                           palette_strip(STRIP_D2H),
                           nvml ? ", data index way using ($1/second):($2/rate) with lines lc rgb "
                                  "ink lw 2 notitle"
                                : "");
    if (nvml)
        append_nvml(figure, strips);
    describe_link(figure, strips, peaks);
    return figure;
}
