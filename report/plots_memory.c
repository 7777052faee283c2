/* Plots of memory over one iteration: of a plan, of a trace alone, and as measured. */
#include "base/size.h"
#include "report/plot.h"
#include "report/plots.h"
#include "report/text.h"

#include <math.h>

#define MEMORY_COLUMNS 600  /* more columns cannot be seen */
#define HEADROOM       1.25 /* above the budget, for the names of phases and the peak */
#define BUDGET_SHOWN   2.5  /* a budget above this multiple of the peak would flatten the picture */

/* The lists of chunks that are drawn on each other, from the bottom up. Something else lies on top.
 */
struct stack {
    unsigned count;
    enum trace_list lists[TRACE_ACCESS_LISTS];
};

/* Appends a line of data: the bytes of each list, and what lies on top. */
static void append_row(GString *data, const struct stack *stack, double time,
                       const uint64_t list_bytes[TRACE_ACCESS_LISTS], uint64_t top)
{
    axis_append(data, time);
    for (unsigned p = 0; p < stack->count; p++)
        g_string_append_printf(data, " %" G_GUINT64_FORMAT, list_bytes[stack->lists[p]]);
    g_string_append_printf(data, " %" G_GUINT64_FORMAT "\n", top);
}

static struct stack device_stack_of(const struct plan *plan)
{
    struct stack stack = {0};
    for (int list = 0; list < TRACE_ACCESS_LISTS; list++)
        if (plan->layout->places[list])
            stack.lists[stack.count++] = (enum trace_list)list;
    return stack;
}

/* Neighbouring moments that are narrower than a column become one: the moment with the most bytes.
 */
static void append_device_data(GString *data, const struct stack *stack,
                               const struct memory *memory)
{
    g_string_append(data, "# time");
    for (unsigned p = 0; p < stack->count; p++)
        g_string_append_printf(data, " %s", trace_list_name(stack->lists[p]));
    g_string_append(
        data,
        " non_model; bytes, of the largest moment where several share a column of the picture\n");
    double width = memory_duration(memory) / MEMORY_COLUMNS;
    for (uint32_t first = 0, next; first < memory->moment_count; first = next) {
        const struct memory_moment *fullest = &memory->moments[first];
        double start = fullest->start, end = fullest->end;
        for (next = first + 1; next < memory->moment_count && end - start < width; next++) {
            const struct memory_moment *moment = &memory->moments[next];
            end = moment->end;
            if (memory_total(moment) > memory_total(fullest))
                fullest = moment;
        }
        append_row(data, stack, start, fullest->list_bytes, fullest->non_model_bytes);
        append_row(data, stack, end, fullest->list_bytes, fullest->non_model_bytes);
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

static void append_device_stack(GString *drawing, const struct stack *stack, bool budget)
{
    /* From the top down: each area covers the lower part of the one before. */
    g_string_append_printf(drawing,
                           "    plot data using ($1/second):((sum [i=2:%u] column(i))/byte) "
                           "with filledcurves y1=0 lc rgb '" PALETTE_NON_MODEL "' fs solid "
                           "noborder title 'non-model data'",
                           stack->count + 2);
    for (unsigned p = stack->count; p-- > 0;)
        g_string_append_printf(drawing,
                               ", \\\n        data using ($1/second):((sum [i=2:%u] column(i))"
                               "/byte) with filledcurves y1=0 lc rgb '%s' fs solid noborder "
                               "title '%s'",
                               p + 2, palette_list(stack->lists[p]),
                               trace_list_name(stack->lists[p]));
    g_string_append_printf(drawing,
                           ", \\\n        data using ($1/second):((sum [i=2:%u] column(i))/byte) "
                           "with lines lc rgb ink lw 1.2 title 'all chunks'",
                           stack->count + 1);
    if (budget)
        g_string_append(drawing, ", \\\n        budget/byte with lines lc rgb ink lw 2 dt (8,5) "
                                 "title 'budget'");
    g_string_append(drawing,
                    ", \\\n        '+' using (peak_at/second):(peak_bytes/byte) every ::0::0 with "
                    "points pt 7 ps 0.7 lc rgb ink notitle\n");
}

/* Names the areas of the lists, from the bottom up. */
static void name_areas(struct areas *areas, unsigned count, const enum trace_list *lists)
{
    for (unsigned p = 0; p < count; p++) {
        areas->names[p] = trace_list_name(lists[p]);
        areas->glyphs[p] = palette_glyph(lists[p]);
    }
}

/* Draws the stack in characters. */
static void append_device_text(GString *text, const struct input_plan *input,
                               const struct memory *memory, bool budget_shown)
{
    const struct stack stack = device_stack_of(input->plan);
    const struct memory_moment *peak = &memory->moments[memory->peak];
    double budget = (double)input->plan->device_budget, greatest = (double)memory_total(peak);
    struct areas *areas = areas_new(stack.count + 1, memory_duration(memory),
                                    1.1 * (budget_shown ? fmax(greatest, budget) : greatest));
    g_autofree char *size = size_format(memory_total(peak));
    g_autofree char *mark = g_strdup_printf("peak %s: %s", size,
                                            input->trace->trace->operators[memory->peak].name);
    name_areas(areas, stack.count, stack.lists);
    areas->names[stack.count] = "non-model data";
    areas->glyphs[stack.count] = GLYPH_NON_MODEL;
    areas->line = budget_shown ? budget : -1;
    areas->line_name = "budget";
    areas->mark = mark;
    areas->mark_at = (peak->start + peak->end) / 2;
    for (uint32_t m = 0; m < memory->moment_count; m++) {
        const struct memory_moment *moment = &memory->moments[m];
        double edges[AREAS_MOST] = {0}, sum = 0;
        for (unsigned p = 0; p < stack.count; p++)
            edges[p] = sum += (double)moment->list_bytes[stack.lists[p]];
        edges[stack.count] = (double)memory_total(moment);
        areas_add(areas, moment->start, moment->end, edges);
    }
    g_autoptr(GArray) phases = memory_phases(memory);
    areas_append_text(text, areas, phases, memory->timed);
    areas_free(areas);
}

static void append_axes(struct plot *plot, const struct memory *memory, uint64_t budget,
                        bool budget_shown)
{
    double duration = memory_duration(memory);
    const struct memory_moment *peak = &memory->moments[memory->peak];
    double greatest = (double)memory_total(peak);
    double top = HEADROOM * (budget_shown ? MAX(greatest, (double)budget) : greatest);
    struct axis_unit byte = axis_bytes(top);
    struct axis_unit second = memory->timed ? axis_seconds(duration)
                                            : (struct axis_unit){"moments", 1};
    axis_append_variable(plot->setup, "byte", byte.size);
    axis_append_variable(plot->setup, "second", second.size);
    axis_append_variable(plot->setup, "budget", (double)budget);
    axis_append_variable(plot->setup, "duration", duration > 0 ? duration : 1);
    axis_append_variable(plot->setup, "top", top > 0 ? top : 1);
    axis_append_variable(plot->setup, "peak_at", (peak->start + peak->end) / 2);
    axis_append_variable(plot->setup, "peak_bytes", (double)memory_total(peak));
    g_string_append_printf(plot->drawing,
                           "    set xrange [0:duration/second]\n    set yrange [0:top/byte]\n"
                           "    set ylabel 'device memory, %s' textcolor rgb ink\n"
                           "    set xlabel '%s%s' offset 0,0.6 textcolor rgb ink\n",
                           byte.name,
                           memory->waits   ? "time in the step, "
                           : memory->timed ? "operator time, "
                                           : "",
                           second.name);
}

/* Returns a sentence about the time axis. */
static char *times_text(const struct memory *memory)
{
    if (memory->timed_by) {
        g_autofree char *timed_by = caption_name(memory->timed_by);
        return g_strdup_printf(" The times are those of %s.", timed_by);
    }
    return g_strdup(
        memory->waits   ? " The time is that of the plan's prediction; its waiting is drawn "
                          "where its copies take longer than its operators. The plan's "
                          "timeline, if it is given, says it exactly."
        : memory->timed ? " The time axis shows operators only, without waiting for copies."
                        : " The trace has no durations, so all operators are equally wide.");
}

static void describe_device(struct plot *plot, const struct input_plan *input,
                            const struct memory *memory, bool budget_shown)
{
    const struct trace *trace = input->trace->trace;
    const struct memory_moment *peak = &memory->moments[memory->peak];
    g_autofree char *total = size_format(memory_total(peak));
    g_autofree char *chunks = size_format(peak->chunk_bytes);
    g_autofree char *non_model = size_format(peak->non_model_bytes);
    g_autofree char *budget = size_format(input->plan->device_budget);
    g_autofree char *duration = memory->timed ? text_seconds(memory_duration(memory))
                                              : g_strdup("unknown time");
    g_autofree char *file = caption_name(input->path),
                    *busiest = caption_name(trace->operators[memory->peak].name);
    g_autofree char *where = g_strdup_printf("moment %u, %s", memory->peak, busiest);
    g_autofree char *times = times_text(memory);
    plot->alt = g_strdup_printf(
        "Stacked areas over one iteration of %s: the bytes of each chunk list, with non-model data "
        "on top. A dashed line is the budget of %s. The peak, %s, is at %s.",
        duration, budget, total, where);
    plot->caption = g_strdup_printf(
        "Device memory under %s while each operator runs: chunks by list, with activations and "
        "workspaces (non-model data) on top. The peak is %s (%s in chunks, %s non-model) at "
        "%s.%s%s",
        file, total, chunks, non_model, where, times,
        budget_shown ? "" : " The budget is higher than the picture.");
}

struct plot *plot_memory(const struct input_plan *plan, const struct memory *memory,
                         unsigned number)
{
    struct plot *plot = plot_new(plot_name("memory", number),
                                 g_strdup("Device memory over one iteration"));
    plot->wide_height = 500;
    plot->phone_height = 400;
    struct stack stack = device_stack_of(plan->plan);
    uint64_t budget = plan->plan->device_budget;
    double peak = (double)memory_total(&memory->moments[memory->peak]);
    bool budget_shown = (double)budget <= BUDGET_SHOWN * peak;
    append_device_data(plot->data, &stack, memory);
    append_axes(plot, memory, budget, budget_shown);
    g_autoptr(GArray) phases = memory_phases(memory);
    phase_bands_append(plot->drawing, phases, memory_duration(memory));
    append_peak(plot->drawing, plan->trace->trace, memory);
    append_device_stack(plot->drawing, &stack, budget_shown);
    append_device_text(plot->text, plan, memory, budget_shown);
    describe_device(plot, plan, memory, budget_shown);
    return plot;
}

#define HOST_COLUMNS 400 /* more columns cannot be seen */

/* Returns the lists that have host slots. */
static struct stack host_stack_of(const struct plan *plan)
{
    struct stack stack = {0};
    for (int list = 0; list < TRACE_ACCESS_LISTS; list++) {
        bool homed = false;
        for (uint32_t c = 0; c < plan->layout->chunk_count && !homed; c++)
            homed = plan->layout->chunks[c].list == list && plan->host_address[c] != NO_ADDRESS &&
                    !plan_in_nvme(plan, c);
        if (homed)
            stack.lists[stack.count++] = (enum trace_list)list;
    }
    return stack;
}

/* Of neighbouring moments that are narrower than a column, the first is drawn. */
static void append_host_data(GString *data, const struct stack *stack, const struct memory *memory)
{
    double width = memory_duration(memory) / HOST_COLUMNS;
    g_string_append(data, "# time; bytes of chunks that are only in host memory:");
    for (unsigned p = 0; p < stack->count; p++)
        g_string_append_printf(data, " %s", trace_list_name(stack->lists[p]));
    g_string_append(data, "; and of chunks that are also on the device\n");
    for (uint32_t first = 0, next; first < memory->moment_count; first = next) {
        const struct memory_moment *moment = &memory->moments[first];
        double start = moment->start, end = moment->end;
        for (next = first + 1; next < memory->moment_count && end - start < width; next++)
            end = memory->moments[next].end;
        append_row(data, stack, start, moment->host_slot_bytes, moment->host_twice_bytes);
        append_row(data, stack, end, moment->host_slot_bytes, moment->host_twice_bytes);
    }
}

/* From the top down: each area covers the lower part of the one before. */
static void append_host_stack(GString *drawing, const struct stack *stack)
{
    g_string_append_printf(drawing,
                           "    plot data using ($1/second):((sum [i=2:%u] column(i))/byte) with "
                           "filledcurves y1=0 lc rgb '" PALETTE_TWICE
                           "' fs solid noborder title 'also on the device'",
                           stack->count + 2);
    for (unsigned p = stack->count; p-- > 0;)
        g_string_append_printf(drawing,
                               ", \\\n        data using ($1/second):((sum [i=2:%u] column(i))"
                               "/byte) with filledcurves y1=0 lc rgb '%s' fs solid noborder "
                               "title '%s'",
                               p + 2, palette_list(stack->lists[p]),
                               trace_list_name(stack->lists[p]));
    g_string_append(drawing, ", \\\n        pool/byte with lines lc rgb ink lw 2 dt (8,5) title "
                             "'pinned pool'\n");
}

static void append_host_text(GString *text, const struct stack *stack, const struct memory *memory,
                             const GArray *phases)
{
    struct areas *areas = areas_new(stack->count + 1, memory_duration(memory),
                                    1.1 * (double)memory->host_pool_bytes);
    name_areas(areas, stack->count, stack->lists);
    areas->names[stack->count] = "also on the device";
    areas->glyphs[stack->count] = GLYPH_TWICE;
    areas->line = (double)memory->host_pool_bytes;
    areas->line_name = "pinned pool";
    for (uint32_t m = 0; m < memory->moment_count; m++) {
        const struct memory_moment *moment = &memory->moments[m];
        double edges[AREAS_MOST] = {0}, sum = 0;
        for (unsigned p = 0; p < stack->count; p++)
            edges[p] = sum += (double)moment->host_slot_bytes[stack->lists[p]];
        edges[stack->count] = sum + (double)moment->host_twice_bytes;
        areas_add(areas, moment->start, moment->end, edges);
    }
    areas_append_text(text, areas, phases, memory->timed);
    areas_free(areas);
}

static void describe_host(struct plot *plot, const struct input_plan *input,
                          const struct memory *memory)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < memory->moment_count; m++)
        most = MAX(most, memory->moments[m].host_twice_bytes);
    g_autofree char *pool = size_format(memory->host_pool_bytes), *twice = size_format(most);
    g_autofree char *file = caption_name(input->path);
    plot->alt = g_strdup_printf(
        "Stacked areas over one iteration: the host slots of each chunk list, and those of chunks "
        "that are also on the device. A dashed line is the pinned pool of %s.",
        pool);
    g_autofree char *whole = g_strdup_printf(
        "The pinned pool of %s is %s. No chunk is in pageable memory%s.", file, pool,
        input->plan->nvme_bytes ? ", and those on NVMe are not drawn" : " or on NVMe");
    g_autofree char *kept = g_strdup_printf(
        "Up to %s of the slots belong to chunks that are on the device at the time; these slots "
        "are kept for their return.",
        twice);
    plot->caption = g_strdup_printf("%s Coloured areas are chunks that are only in host memory. %s",
                                    whole, kept);
    plot->text_caption = g_strdup_printf(
        "%s Areas with the name of a list are chunks that are only in host memory. %s", whole,
        kept);
}

/* Bytes that change by less than this share of their most make a flat picture. */
#define FLAT 0.1

/* Returns whether what is only in host memory stays the same over the iteration. */
static bool is_flat(const struct memory *memory)
{
    uint64_t least = UINT64_MAX, most = 0;
    for (uint32_t m = 0; m < memory->moment_count; m++) {
        uint64_t bytes = 0;
        for (int list = 0; list < TRACE_ACCESS_LISTS; list++)
            bytes += memory->moments[m].host_slot_bytes[list];
        least = MIN(least, bytes);
        most = MAX(most, bytes);
    }
    return (double)(most - MIN(least, most)) <= FLAT * (double)memory->host_pool_bytes;
}

struct plot *plot_host(const struct input_plan *plan, const struct memory *memory, unsigned number)
{
    if (is_flat(memory))
        return NULL;
    struct plot *plot = plot_new(plot_name("host", number),
                                 g_strdup("Host memory over one iteration"));
    struct stack stack = host_stack_of(plan->plan);
    double duration = memory_duration(memory);
    struct axis_unit byte = axis_bytes(1.2 * (double)memory->host_pool_bytes);
    struct axis_unit second = memory->timed ? axis_seconds(duration)
                                            : (struct axis_unit){"moments", 1};
    plot->wide_height = 420;
    plot->phone_height = 360;
    append_host_data(plot->data, &stack, memory);
    axis_append_variable(plot->setup, "byte", byte.size);
    axis_append_variable(plot->setup, "second", second.size);
    axis_append_variable(plot->setup, "pool", (double)memory->host_pool_bytes);
    axis_append_variable(plot->setup, "duration", duration > 0 ? duration : 1);
    g_string_append_printf(plot->drawing,
                           "    set xrange [0:duration/second]\n    set yrange [0:1.2*pool/byte]\n"
                           "    set ylabel 'host memory, %s' textcolor rgb ink\n"
                           "    set xlabel '%s%s' offset 0,0.6 textcolor rgb ink\n",
                           byte.name,
                           memory->waits   ? "time in the step, "
                           : memory->timed ? "operator time, "
                                           : "",
                           second.name);
    g_autoptr(GArray) phases = memory_phases(memory);
    phase_bands_append(plot->drawing, phases, duration);
    append_host_stack(plot->drawing, &stack);
    append_host_text(plot->text, &stack, memory, phases);
    describe_host(plot, plan, memory);
    return plot;
}

/* Returns the start of each moment and the end of the iteration, [operator_count + 1]: in seconds,
 * or in moments if the trace has no durations. Free with g_free. */
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
    GArray *phases = g_array_new(FALSE, FALSE, sizeof(struct track_phase));
    for (uint32_t first = 0, next; first < trace->operator_count; first = next) {
        enum trace_phase phase = trace->operators[first].phase;
        for (next = first; next < trace->operator_count && trace->operators[next].phase == phase;)
            next++;
        const struct track_phase part = {phase, starts[first], starts[next]};
        g_array_append_val(phases, part);
    }
    return phases;
}

/* Neighbouring moments that are narrower than a column become one, with the most bytes of them. */
static void append_non_model_data(GString *data, const struct trace *trace, const double *starts)
{
    double width = starts[trace->operator_count] / MEMORY_COLUMNS;
    g_string_append(data, "# time; bytes of non-model data, the most where several moments share a "
                          "column of the picture\n");
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

static void append_non_model_text(GString *text, const struct trace *trace, const double *starts,
                                  uint32_t peak, const GArray *phases, bool timed)
{
    struct areas *areas = areas_new(1, starts[trace->operator_count],
                                    1.1 * (double)trace->non_model_bytes[peak]);
    g_autofree char *size = size_format(trace->non_model_bytes[peak]);
    g_autofree char *mark = g_strdup_printf("peak %s: %s", size, trace->operators[peak].name);
    areas->names[0] = "non-model data";
    areas->glyphs[0] = GLYPH_NON_MODEL;
    areas->mark = mark;
    areas->mark_at = (starts[peak] + starts[peak + 1]) / 2;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const double edge = (double)trace->non_model_bytes[m];
        areas_add(areas, starts[m], starts[m + 1], &edge);
    }
    areas_append_text(text, areas, phases, timed);
    areas_free(areas);
}

static uint32_t find_peak(const struct trace *trace)
{
    uint32_t peak = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (trace->non_model_bytes[m] > trace->non_model_bytes[peak])
            peak = m;
    return peak;
}

static void describe_non_model(struct plot *plot, const struct input_trace *input, uint32_t peak,
                               bool timed)
{
    const struct trace *trace = input->trace;
    g_autofree char *most = size_format(trace->non_model_bytes[peak]);
    g_autofree char *model = size_format(trace_model_bytes(trace));
    g_autofree char *file = caption_name(input->path),
                    *busiest = caption_name(trace->operators[peak].name);
    plot->alt = g_strdup_printf(
        "Area over one iteration: bytes of activations and workspaces. The peak, %s, is at %s.",
        most, busiest);
    plot->caption =
        g_strdup_printf("%s: activations and workspaces while each operator runs. The peak is %s, "
                        "at moment %u, %s. The model data takes %s more; a plan decides which part "
                        "of it is on the device at each moment.%s",
                        file, most, peak, busiest, model,
                        timed ? " The time axis shows operators only, without waiting for copies."
                              : " The trace has no durations, so all operators are equally wide.");
}

struct plot *plot_non_model(const struct input_trace *input, unsigned number)
{
    const struct trace *trace = input->trace;
    bool timed;
    g_autofree double *starts = find_starts(trace, &timed);
    g_autoptr(GArray) phases = find_phases(trace, starts);
    uint32_t peak = find_peak(trace);
    double duration = starts[trace->operator_count], most = (double)trace->non_model_bytes[peak];
    struct plot *plot = plot_new(plot_name("non-model", number),
                                 g_strdup("Activations and workspaces over one iteration"));
    struct axis_unit byte = axis_bytes(1.25 * most);
    struct axis_unit second = timed ? axis_seconds(duration) : (struct axis_unit){"moments", 1};
    g_autofree char *size = size_format(trace->non_model_bytes[peak]);
    g_autofree char *label = g_strdup_printf("peak %s", size), *quoted = text_gnuplot(label);
    bool left = starts[peak] < duration / 2;
    plot->wide_height = 400;
    plot->phone_height = 360;
    append_non_model_data(plot->data, trace, starts);
    axis_append_variable(plot->setup, "byte", byte.size);
    axis_append_variable(plot->setup, "second", second.size);
    axis_append_variable(plot->setup, "most", most);
    axis_append_variable(plot->setup, "duration", duration);
    axis_append_variable(plot->setup, "peak_at", (starts[peak] + starts[peak + 1]) / 2);
    g_string_append_printf(
        plot->drawing,
        "    set xrange [0:duration/second]\n    set yrange [0:1.25*most/byte]\n"
        "    set ylabel 'device memory, %s' textcolor rgb ink\n"
        "    set xlabel '%s%s' offset 0,0.6 textcolor rgb ink\n    unset key\n"
        "    set label %s at first peak_at/second, first 1.06*most/byte %s front textcolor rgb "
        "ink\n",
        byte.name, timed ? "operator time, " : "", second.name, quoted, left ? "left" : "right");
    phase_bands_append(plot->drawing, phases, duration);
    g_string_append(plot->drawing,
                    "    plot data using ($1/second):($2/byte) with filledcurves y1=0 lc rgb "
                    "'" PALETTE_NON_MODEL "' fs solid noborder notitle, \\\n"
                    "        '+' using (peak_at/second):(most/byte) every ::0::0 with points pt 7 "
                    "ps 0.7 lc rgb ink notitle\n");
    append_non_model_text(plot->text, trace, starts, peak, phases, timed);
    describe_non_model(plot, input, peak, timed);
    return plot;
}

#define LEVEL_COLUMNS 320

struct level {
    enum curve curve;
    const char *label, *colour, *glyph;
};

static const struct level device_levels[] = {
    {CURVE_DEVICE_USED, "in use by all processes (NVML)", "#9aa5b1", GLYPH_WHOLE},
    {CURVE_ALLOCATED, "allocated by the program", "#0072b2", GLYPH_PART},
    {CURVES, NULL, NULL, NULL},
};

static const struct level host_levels[] = {
    {CURVE_RESIDENT, "resident: pageable and pinned", "#9aa5b1", GLYPH_WHOLE},
    {CURVE_MANAGED, "managed", "#009e73", GLYPH_NON_MODEL},
    {CURVE_PINNED, "pinned", "#e69f00", GLYPH_PART},
    {CURVES, NULL, NULL, NULL},
};

static double most_of(const struct tracks *tracks, const struct level *levels)
{
    double most = 0;
    for (; levels->label; levels++)
        most = MAX(most, curve_most(tracks->curves[levels->curve]));
    return most;
}

/* Returns whether all curves stay the same over the step. */
static bool all_flat(const struct tracks *tracks, const struct level *levels)
{
    for (; levels->label; levels++) {
        const GArray *curve = tracks->curves[levels->curve];
        double least = curve_most(curve), most = least;
        for (guint i = 0; i < curve->len; i++)
            least = MIN(least, g_array_index(curve, struct curve_point, i).value);
        if (most - least > FLAT * most)
            return false;
    }
    return true;
}

/* All areas begin at 0. The greatest is drawn first, so that its parts lie on it. */
static void append_plot(struct plot *plot, const struct tracks *tracks, const struct level *levels,
                        GString *said)
{
    const char *separator = "    plot";
    unsigned index = 0;
    for (; levels->label; levels++) {
        const GArray *curve = tracks->curves[levels->curve];
        if (!curve->len)
            continue;
        g_string_append_printf(plot->data, "%s# seconds, bytes: %s\n", index ? "\n\n" : "",
                               levels->label);
        curve_append_data(plot->data, curve, tracks->seconds, LEVEL_COLUMNS);
        g_string_append_printf(plot->drawing,
                               "%s data index %u using ($1/second):($2/byte) with filledcurves "
                               "y1=0 lc rgb '%s' fs solid noborder title '%s'",
                               separator, index++, levels->colour, levels->label);
        separator = ", \\\n        ";
        g_autofree char *size = size_format((uint64_t)curve_most(curve));
        g_string_append_printf(said, "%s%s up to %s", said->len ? ", " : "", levels->label, size);
    }
    g_string_append_c(plot->drawing, '\n');
}

/* Parts lie before the whole here, which is their last area. */
static void append_levels_text(GString *text, const struct tracks *tracks,
                               const struct level *levels, double most)
{
    double edges[LEVEL_COLUMNS][AREAS_MOST], column[LEVEL_COLUMNS];
    const struct level *known[AREAS_MOST];
    unsigned count = 0;
    for (; levels->label; levels++)
        if (tracks->curves[levels->curve]->len)
            known[count++] = levels;
    struct areas *areas = areas_new(count, tracks->seconds, 1.1 * most);
    for (unsigned a = 0; a < count; a++) {
        const struct level *level = known[count - 1 - a];
        areas->names[a] = level->label;
        areas->glyphs[a] = level->glyph;
        curve_columns(tracks->curves[level->curve], tracks->seconds, LEVEL_COLUMNS, column);
        for (unsigned c = 0; c < LEVEL_COLUMNS; c++)
            edges[c][a] = column[c];
    }
    for (unsigned c = 0; c < LEVEL_COLUMNS; c++)
        areas_add(areas, tracks->seconds * c / LEVEL_COLUMNS,
                  tracks->seconds * (c + 1) / LEVEL_COLUMNS, edges[c]);
    areas_append_text(text, areas, tracks->phases, true);
    areas_free(areas);
}

static struct plot *plot_levels(const struct tracks *tracks, const struct level *levels,
                                const char *stem, const char *what, unsigned number)
{
    double most = most_of(tracks, levels);
    if (!(most > 0) || all_flat(tracks, levels))
        return NULL;
    struct plot *plot = plot_new(plot_name(stem, number),
                                 g_strdup_printf("%s memory over a step: measured", what));
    struct axis_unit byte = axis_bytes(1.2 * most), second = axis_seconds(tracks->seconds);
    g_autoptr(GString) said = g_string_new(NULL);
    g_autofree char *name = g_ascii_strdown(what, -1);
    plot->wide_height = 380;
    plot->phone_height = 340;
    axis_append_variable(plot->setup, "byte", byte.size);
    axis_append_variable(plot->setup, "second", second.size);
    axis_append_variable(plot->setup, "most", most);
    axis_append_variable(plot->setup, "duration", tracks->seconds);
    g_string_append_printf(plot->drawing,
                           "    set xrange [0:duration/second]\n    set yrange [0:1.2*most/byte]\n"
                           "    set ylabel '%s memory, %s' textcolor rgb ink\n"
                           "    set xlabel 'time in the step, %s' offset 0,0.6 textcolor rgb ink\n",
                           name, byte.name, second.name);
    phase_bands_append(plot->drawing, tracks->phases, tracks->seconds);
    append_plot(plot, tracks, levels, said);
    append_levels_text(plot->text, tracks, levels, most);
    plot->alt = g_strdup_printf("Areas over a step: %s.", said->str);
    g_autofree char *origin = caption_name(tracks->origin);
    plot->caption = g_strdup_printf(
        "%s: %s. Allocations made before the recording began are missing.", origin, said->str);
    return plot;
}

struct plot *plot_allocated(const struct tracks *tracks, unsigned number)
{
    return plot_levels(tracks, device_levels, "allocated", "Device", number);
}

struct plot *plot_host_measured(const struct tracks *tracks, unsigned number)
{
    return plot_levels(tracks, host_levels, "host-measured", "Host", number);
}
