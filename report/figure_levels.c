#include "report/axis.h"
#include "report/figures.h"
#include "report/palette.h"
#include "report/phase_bands.h"
#include "traces/size.h"

#define COLUMNS 320

struct level {
    enum curve curve;
    const char *label, *colour;
};

static const struct level device_levels[] = {
    {CURVE_DEVICE_USED, "in use, by all processes (NVML)", "#9aa5b1"},
    {CURVE_ALLOCATED, "allocated by the program", "#0072b2"},
    {CURVES, NULL, NULL},
};

static const struct level host_levels[] = {
    {CURVE_RESIDENT, "resident: pageable and pinned", "#9aa5b1"},
    {CURVE_MANAGED, "managed", "#009e73"},
    {CURVE_PINNED, "pinned", "#e69f00"},
    {CURVES, NULL, NULL},
};

static double most_of(const struct strips *strips, const struct level *levels)
{
    double most = 0;
    for (; levels->label; levels++)
        most = MAX(most, curve_most(strips->curves[levels->curve]));
    return most;
}

/* Areas that begin at 0, the greatest first, so that what is part of it lies on it. */
static void append_plot(struct figure *figure, const struct strips *strips,
                        const struct level *levels, GString *said)
{
    const char *separator = "    plot";
    unsigned index = 0;
    for (; levels->label; levels++) {
        const GArray *curve = strips->curves[levels->curve];
        if (!curve->len)
            continue;
        g_string_append_printf(figure->data, "%s# seconds, bytes: %s\n", index ? "\n\n" : "",
                               levels->label);
        curve_append_data(figure->data, curve, strips->seconds, COLUMNS);
        g_string_append_printf(figure->drawing,
                               "%s data index %u using ($1/second):($2/byte) with filledcurves "
                               "y1=0 lc rgb '%s' fs solid noborder title '%s'",
                               separator, index++, levels->colour, levels->label);
        separator = ", \\\n        ";
        g_autofree char *size = size_format((uint64_t)curve_most(curve));
        g_string_append_printf(said, "%s%s up to %s", said->len ? ", " : "", levels->label, size);
    }
    g_string_append_c(figure->drawing, '\n');
}

static struct figure *figure_levels(const struct strips *strips, const struct level *levels,
                                    const char *stem, const char *what, unsigned number)
{
    double most = most_of(strips, levels);
    if (!(most > 0))
        return NULL;
    struct figure *figure = figure_new(figure_name(stem, number),
                                       g_strdup_printf("%s memory over a step: measured", what));
    struct axis_unit byte = axis_bytes(1.2 * most), second = axis_seconds(strips->seconds);
    g_autoptr(GString) said = g_string_new(NULL);
    g_autofree char *name = g_ascii_strdown(what, -1);
    figure->wide_height = 380;
    figure->phone_height = 340;
    axis_append_variable(figure->setup, "byte", byte.size);
    axis_append_variable(figure->setup, "second", second.size);
    axis_append_variable(figure->setup, "most", most);
    axis_append_variable(figure->setup, "duration", strips->seconds);
    g_string_append_printf(figure->drawing,
                           "    set xrange [0:duration/second]\n    set yrange [0:1.2*most/byte]\n"
                           "    set ylabel '%s memory, %s' textcolor rgb ink\n"
                           "    set xlabel 'time in the step, %s' offset 0,0.6 textcolor rgb ink\n",
                           name, byte.name, second.name);
    phase_bands_append(figure->drawing, strips->phases, strips->seconds);
    append_plot(figure, strips, levels, said);
    figure->alt = g_strdup_printf("Areas over a step: %s.", said->str);
    figure->caption =
        g_strdup_printf("%s: %s. What was allocated before the recording began is not "
                        "among the allocations.",
                        strips->origin, said->str);
    return figure;
}

struct figure *figure_allocated(const struct strips *strips, unsigned number)
{
    return figure_levels(strips, device_levels, "allocated", "Device", number);
}

struct figure *figure_host_measured(const struct strips *strips, unsigned number)
{
    return figure_levels(strips, host_levels, "host-measured", "Host", number);
}
