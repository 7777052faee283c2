#include "report/axis.h"
#include "report/figures.h"
#include "report/palette.h"
#include "report/phase_bands.h"
#include "report/text.h"

#include <string.h>

#define COLUMNS 320 /* parts of the iteration; the rate is the mean over each */

static void append_data(GString *data, const struct strips *strips)
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

static void describe(struct figure *figure, const struct strips *strips, const double *peaks)
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
    append_data(figure->data, strips);
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
    describe(figure, strips, peaks);
    return figure;
}
