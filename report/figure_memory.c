#include "report/figures.h"

#include "report/axis.h"
#include "report/palette.h"
#include "report/phase_bands.h"
#include "report/text.h"
#include "traces/size.h"

#include <math.h>

#define COLUMNS      600  /* as many as the eye can tell apart across the figure */
#define HEADROOM     1.25 /* above the budget: for the names of phases and of the peak */
#define BUDGET_SHOWN 2.5  /* a budget of more times the peak would flatten the picture */

/* The parts of the stack, from the bottom up. */
struct parts {
    unsigned count;
    enum trace_list lists[TRACE_ACCESS_LISTS];
};

static struct parts parts_of(const struct plan *plan)
{
    struct parts parts = {0};
    for (int list = 0; list < TRACE_ACCESS_LISTS; list++)
        if (plan->layout->places[list])
            parts.lists[parts.count++] = (enum trace_list)list;
    return parts;
}

static void append_row(GString *data, const struct parts *parts, double time,
                       const struct memory_moment *moment)
{
    axis_append(data, time);
    for (unsigned p = 0; p < parts->count; p++)
        g_string_append_printf(data, " %" G_GUINT64_FORMAT, moment->list_bytes[parts->lists[p]]);
    g_string_append_printf(data, " %" G_GUINT64_FORMAT "\n", moment->non_model_bytes);
}

/* Neighbouring moments that are narrower than a column share one: that of the most bytes. */
static void append_data(GString *data, const struct parts *parts, const struct memory *memory)
{
    g_string_append(data, "# time");
    for (unsigned p = 0; p < parts->count; p++)
        g_string_append_printf(data, " %s", trace_list_name(parts->lists[p]));
    g_string_append(data, " non_model; bytes; where many moments are narrower than a column of "
                          "the picture, the one of the most bytes\n");
    double width = memory_duration(memory) / COLUMNS;
    for (uint32_t first = 0, next; first < memory->moment_count; first = next) {
        const struct memory_moment *fullest = &memory->moments[first];
        double start = fullest->start, end = fullest->end;
        for (next = first + 1; next < memory->moment_count && end - start < width; next++) {
            const struct memory_moment *moment = &memory->moments[next];
            end = moment->end;
            if (memory_total(moment) > memory_total(fullest))
                fullest = moment;
        }
        append_row(data, parts, start, fullest);
        append_row(data, parts, end, fullest);
    }
}

static void append_peak(GString *drawing, const struct trace *trace, const struct memory *memory)
{
    const struct memory_moment *peak = &memory->moments[memory->peak];
    double middle = (peak->start + peak->end) / 2;
    bool left = middle < memory_duration(memory) / 2;
    g_autofree char *size = size_format(memory_total(peak));
    g_autofree char *name = text_shortened(trace->operators[memory->peak].name, 48);
    g_autofree char *wide = g_strdup_printf("peak %s: %s", size, name);
    g_autofree char *wide_label = text_gnuplot(wide);
    g_autofree char *phone = g_strdup_printf("peak %s", size);
    g_autofree char *phone_label = text_gnuplot(phone);
    g_string_append_printf(
        drawing,
        "    set arrow from first peak_at/second, graph 0.85 to first peak_at/second, "
        "first peak_bytes/byte nohead front lc rgb ink lw 1\n"
        "    set label (phone ? %s : %s) at first peak_at/second, graph 0.88 %s front "
        "textcolor rgb ink\n",
        phone_label, wide_label, left ? "left" : "right");
}

static void append_stack(GString *drawing, const struct parts *parts, bool budget)
{
    /* From the top down: each area is drawn over the one that reaches above it. */
    g_string_append_printf(drawing,
                           "    plot data using ($1/second):((sum [i=2:%u] column(i))/byte) "
                           "with filledcurves y1=0 lc rgb '" PALETTE_NON_MODEL "' fs solid "
                           "noborder title 'non-model data'",
                           parts->count + 2);
    for (unsigned p = parts->count; p-- > 0;)
        g_string_append_printf(drawing,
                               ", \\\n        data using ($1/second):((sum [i=2:%u] column(i))"
                               "/byte) with filledcurves y1=0 lc rgb '%s' fs solid noborder "
                               "title '%s'",
                               p + 2, palette_list(parts->lists[p]),
                               trace_list_name(parts->lists[p]));
    g_string_append_printf(drawing,
                           ", \\\n        data using ($1/second):((sum [i=2:%u] column(i))/byte) "
                           "with lines lc rgb ink lw 1.2 title 'all chunks'",
                           parts->count + 1);
    if (budget)
        g_string_append(drawing, ", \\\n        budget/byte with lines lc rgb ink lw 2 dt (8,5) "
                                 "title 'budget'");
    g_string_append(drawing,
                    ", \\\n        '+' using (peak_at/second):(peak_bytes/byte) every ::0::0 with "
                    "points pt 7 ps 0.7 lc rgb ink notitle\n");
}

static void append_axes(struct figure *figure, const struct memory *memory, uint64_t budget,
                        bool budget_shown)
{
    double duration = memory_duration(memory);
    const struct memory_moment *peak = &memory->moments[memory->peak];
    double greatest = (double)memory_total(peak);
    double top = HEADROOM * (budget_shown ? MAX(greatest, (double)budget) : greatest);
    struct axis_unit byte = axis_bytes(top);
    struct axis_unit second = memory->timed ? axis_seconds(duration)
                                            : (struct axis_unit){"moments", 1};
    axis_append_variable(figure->setup, "byte", byte.size);
    axis_append_variable(figure->setup, "second", second.size);
    axis_append_variable(figure->setup, "budget", (double)budget);
    axis_append_variable(figure->setup, "duration", duration > 0 ? duration : 1);
    axis_append_variable(figure->setup, "top", top > 0 ? top : 1);
    axis_append_variable(figure->setup, "peak_at", (peak->start + peak->end) / 2);
    axis_append_variable(figure->setup, "peak_bytes", (double)memory_total(peak));
    g_string_append_printf(figure->drawing,
                           "    set xrange [0:duration/second]\n    set yrange [0:top/byte]\n"
                           "    set ylabel 'device memory, %s' textcolor rgb ink\n"
                           "    set xlabel '%s%s' offset 0,0.6 textcolor rgb ink\n",
                           byte.name, memory->timed ? "time of the operators, " : "", second.name);
}

static void describe(struct figure *figure, const struct input_plan *input,
                     const struct memory *memory, bool budget_shown)
{
    const struct trace *trace = input->trace->trace;
    const struct memory_moment *peak = &memory->moments[memory->peak];
    const struct trace_operator *busiest = &trace->operators[memory->peak];
    g_autofree char *total = size_format(memory_total(peak));
    g_autofree char *chunks = size_format(peak->chunk_bytes);
    g_autofree char *non_model = size_format(peak->non_model_bytes);
    g_autofree char *budget = size_format(input->plan->device_budget);
    g_autofree char *duration = memory->timed ? text_seconds(memory_duration(memory))
                                              : g_strdup("unknown time");
    g_autofree char *where = g_strdup_printf("moment %u, %s", memory->peak, busiest->name);
    figure->alt = g_strdup_printf(
        "Stacked areas over one iteration of %s: the bytes of each chunk list, non-model data on "
        "top, the budget of %s as a dashed line. The peak, %s, is at %s.",
        duration, budget, total, where);
    figure->caption = g_strdup_printf(
        "What lies on the device under %s while each operator runs: chunks by list, activations "
        "and workspaces (non-model data) on top. The peak is %s (%s in chunks, %s non-model) at "
        "%s.%s%s",
        input->path, total, chunks, non_model, where,
        memory->timed ? " Time is the operators' own: waiting for copies is left out."
                      : " The trace knows no durations, so every operator is equally wide.",
        budget_shown ? "" : " The budget lies above the picture.");
}

struct figure *figure_memory(const struct input_plan *plan, const struct memory *memory,
                             unsigned number)
{
    struct figure *figure = figure_new(figure_name("memory", number),
                                       g_strdup("Device memory over one iteration"));
    figure->wide_height = 500;
    figure->phone_height = 400;
    struct parts parts = parts_of(plan->plan);
    uint64_t budget = plan->plan->device_budget;
    double peak = (double)memory_total(&memory->moments[memory->peak]);
    bool budget_shown = (double)budget <= BUDGET_SHOWN * peak;
    append_data(figure->data, &parts, memory);
    append_axes(figure, memory, budget, budget_shown);
    g_autoptr(GArray) phases = memory_phases(memory);
    phase_bands_append(figure->drawing, phases, memory_duration(memory));
    append_peak(figure->drawing, plan->trace->trace, memory);
    append_stack(figure->drawing, &parts, budget_shown);
    describe(figure, plan, memory, budget_shown);
    return figure;
}
