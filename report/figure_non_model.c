#include "report/axis.h"
#include "report/figures.h"
#include "report/palette.h"
#include "report/phase_bands.h"
#include "report/text.h"
#include "traces/size.h"

#define COLUMNS 600 /* as many as the eye can tell apart across the figure */

/* Where each moment begins, in seconds, or in moments where the trace knows no durations; the
 * iteration's end behind them. [operator_count + 1], to g_free. */
static double *find_starts(const struct trace *trace, bool *timed)
{
    double *starts = g_new0(double, trace->operator_count + 1);
    *timed = false;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        *timed = *timed || trace->operators[m].duration_ns;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        starts[m + 1] = starts[m] + (*timed ? (double)trace->operators[m].duration_ns * 1e-9 : 1);
    return starts;
}

static GArray *find_phases(const struct trace *trace, const double *starts)
{
    GArray *phases = g_array_new(FALSE, FALSE, sizeof(struct strip_phase));
    for (uint32_t first = 0, next; first < trace->operator_count; first = next) {
        enum trace_phase phase = trace->operators[first].phase;
        for (next = first; next < trace->operator_count && trace->operators[next].phase == phase;)
            next++;
        const struct strip_phase part = {phase, starts[first], starts[next]};
        g_array_append_val(phases, part);
    }
    return phases;
}

/* Neighbouring moments that are narrower than a column share one: that of the most bytes. */
static void append_data(GString *data, const struct trace *trace, const double *starts)
{
    double width = starts[trace->operator_count] / COLUMNS;
    g_string_append(data, "# time; bytes of non-model data; where many moments are narrower than a "
                          "column of the picture, the most\n");
    for (uint32_t first = 0, next; first < trace->operator_count; first = next) {
        uint64_t most = trace->non_model_bytes[first];
        for (next = first + 1; next < trace->operator_count && starts[next] - starts[first] < width;
             next++)
            most = MAX(most, trace->non_model_bytes[next]);
        for (int edge = 0; edge < 2; edge++) {
            axis_append(data, starts[edge ? next : first]);
            g_string_append_printf(data, " %" G_GUINT64_FORMAT "\n", most);
        }
    }
}

static uint32_t find_peak(const struct trace *trace)
{
    uint32_t peak = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (trace->non_model_bytes[m] > trace->non_model_bytes[peak])
            peak = m;
    return peak;
}

static void describe(struct figure *figure, const struct input_trace *input, uint32_t peak,
                     bool timed)
{
    const struct trace *trace = input->trace;
    g_autofree char *most = size_format(trace->non_model_bytes[peak]);
    g_autofree char *model = size_format(trace_model_bytes(trace));
    figure->alt = g_strdup_printf("An area over one iteration: bytes of activations and "
                                  "workspaces. The peak, %s, is at %s.",
                                  most, trace->operators[peak].name);
    figure->caption = g_strdup_printf(
        "%s: activations and workspaces while each operator runs. The peak is %s, at moment %u, "
        "%s. The model data, %s in all, lies beside it; which part of that is on the device when, "
        "a "
        "plan decides.%s",
        input->path, most, peak, trace->operators[peak].name, model,
        timed ? " Time is the operators' own: waiting for copies is left out."
              : " The trace knows no durations, so every operator is equally wide.");
}

struct figure *figure_non_model(const struct input_trace *input, unsigned number)
{
    const struct trace *trace = input->trace;
    bool timed;
    g_autofree double *starts = find_starts(trace, &timed);
    g_autoptr(GArray) phases = find_phases(trace, starts);
    uint32_t peak = find_peak(trace);
    double duration = starts[trace->operator_count], most = (double)trace->non_model_bytes[peak];
    struct figure *figure = figure_new(figure_name("non-model", number),
                                       g_strdup("Activations and workspaces over one iteration"));
    struct axis_unit byte = axis_bytes(1.25 * most);
    struct axis_unit second = timed ? axis_seconds(duration) : (struct axis_unit){"moments", 1};
    g_autofree char *size = size_format(trace->non_model_bytes[peak]);
    g_autofree char *label = g_strdup_printf("peak %s", size), *quoted = text_gnuplot(label);
    bool left = starts[peak] < duration / 2;
    figure->wide_height = 400;
    figure->phone_height = 360;
    append_data(figure->data, trace, starts);
    axis_append_variable(figure->setup, "byte", byte.size);
    axis_append_variable(figure->setup, "second", second.size);
    axis_append_variable(figure->setup, "most", most);
    axis_append_variable(figure->setup, "duration", duration);
    axis_append_variable(figure->setup, "peak_at", (starts[peak] + starts[peak + 1]) / 2);
    g_string_append_printf(
        figure->drawing,
        "    set xrange [0:duration/second]\n    set yrange [0:1.25*most/byte]\n"
        "    set ylabel 'device memory, %s' textcolor rgb ink\n"
        "    set xlabel '%s%s' offset 0,0.6 textcolor rgb ink\n    unset key\n"
        "    set label %s at first peak_at/second, first 1.06*most/byte %s front textcolor rgb "
        "ink\n",
        byte.name, timed ? "time of the operators, " : "", second.name, quoted,
        left ? "left" : "right");
    phase_bands_append(figure->drawing, phases, duration);
    g_string_append(figure->drawing,
                    "    plot data using ($1/second):($2/byte) with filledcurves y1=0 lc rgb "
                    "'" PALETTE_NON_MODEL "' fs solid noborder notitle, \\\n"
                    "        '+' using (peak_at/second):(most/byte) every ::0::0 with points pt 7 "
                    "ps 0.7 lc rgb ink notitle\n");
    describe(figure, input, peak, timed);
    return figure;
}
