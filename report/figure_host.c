#include "report/axis.h"
#include "report/figures.h"
#include "report/palette.h"
#include "report/phase_bands.h"
#include "report/text.h"
#include "traces/size.h"

#define COLUMNS 400 /* as many as the eye can tell apart across the figure */

/* The lists that have slots in host memory. */
struct parts {
    unsigned count;
    enum trace_list lists[TRACE_ACCESS_LISTS];
};

static struct parts parts_of(const struct plan *plan)
{
    struct parts parts = {0};
    for (int list = 0; list < TRACE_ACCESS_LISTS; list++) {
        bool homed = false;
        for (uint32_t c = 0; c < plan->layout->chunk_count && !homed; c++)
            homed = plan->layout->chunks[c].list == list && plan->host_address[c] != NO_ADDRESS;
        if (homed)
            parts.lists[parts.count++] = (enum trace_list)list;
    }
    return parts;
}

static void append_row(GString *data, const struct parts *parts, double time,
                       const struct memory_moment *moment)
{
    axis_append(data, time);
    for (unsigned p = 0; p < parts->count; p++)
        g_string_append_printf(data, " %" G_GUINT64_FORMAT, moment->host_bytes[parts->lists[p]]);
    g_string_append_printf(data, " %" G_GUINT64_FORMAT "\n", moment->host_twice_bytes);
}

/* Of neighbouring moments that are narrower than a column, the first. */
static void append_data(GString *data, const struct parts *parts, const struct memory *memory)
{
    double width = memory_duration(memory) / COLUMNS;
    g_string_append(data, "# time; bytes of chunks that only host memory has:");
    for (unsigned p = 0; p < parts->count; p++)
        g_string_append_printf(data, " %s", trace_list_name(parts->lists[p]));
    g_string_append(data, "; of chunks that are on the device, too\n");
    for (uint32_t first = 0, next; first < memory->moment_count; first = next) {
        double start = memory->moments[first].start, end = memory->moments[first].end;
        for (next = first + 1; next < memory->moment_count && end - start < width; next++)
            end = memory->moments[next].end;
        append_row(data, parts, start, &memory->moments[first]);
        append_row(data, parts, end, &memory->moments[first]);
    }
}

/* From the top down: each area is drawn over the one that reaches above it. */
static void append_stack(GString *drawing, const struct parts *parts)
{
    g_string_append_printf(drawing,
                           "    plot data using ($1/second):((sum [i=2:%u] column(i))/byte) with "
                           "filledcurves y1=0 lc rgb '" PALETTE_TWICE "' fs solid noborder "
                           "title 'on the device, too'",
                           parts->count + 2);
    for (unsigned p = parts->count; p-- > 0;)
        g_string_append_printf(drawing,
                               ", \\\n        data using ($1/second):((sum [i=2:%u] column(i))"
                               "/byte) with filledcurves y1=0 lc rgb '%s' fs solid noborder "
                               "title '%s'",
                               p + 2, palette_list(parts->lists[p]),
                               trace_list_name(parts->lists[p]));
    g_string_append(drawing, ", \\\n        pool/byte with lines lc rgb ink lw 2 dt (8,5) title "
                             "'pinned pool'\n");
}

static void describe(struct figure *figure, const struct input_plan *input,
                     const struct memory *memory)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < memory->moment_count; m++)
        most = MAX(most, memory->moments[m].host_twice_bytes);
    g_autofree char *pool = size_format(memory->host_pool_bytes), *twice = size_format(most);
    figure->alt =
        g_strdup_printf("Stacked areas over one iteration: the slots in host memory of each "
                        "chunk list, and of chunks that are on the device, too; the "
                        "pinned pool of %s as a dashed line.",
                        pool);
    figure->caption = g_strdup_printf(
        "The pinned pool of %s is %s; no chunk lies in pageable memory, or on NVMe. In colour are "
        "the chunks that only host memory has; up to %s of the slots belong to chunks that are on "
        "the device at the time, and wait for them to come back.",
        input->path, pool, twice);
}

struct figure *figure_host(const struct input_plan *plan, const struct memory *memory,
                           unsigned number)
{
    struct figure *figure = figure_new(figure_name("host", number),
                                       g_strdup("Host memory over one iteration"));
    struct parts parts = parts_of(plan->plan);
    double duration = memory_duration(memory);
    struct axis_unit byte = axis_bytes(1.2 * (double)memory->host_pool_bytes);
    struct axis_unit second = memory->timed ? axis_seconds(duration)
                                            : (struct axis_unit){"moments", 1};
    figure->wide_height = 420;
    figure->phone_height = 360;
    append_data(figure->data, &parts, memory);
    axis_append_variable(figure->setup, "byte", byte.size);
    axis_append_variable(figure->setup, "second", second.size);
    axis_append_variable(figure->setup, "pool", (double)memory->host_pool_bytes);
    axis_append_variable(figure->setup, "duration", duration > 0 ? duration : 1);
    g_string_append_printf(figure->drawing,
                           "    set xrange [0:duration/second]\n    set yrange [0:1.2*pool/byte]\n"
                           "    set ylabel 'host memory, %s' textcolor rgb ink\n"
                           "    set xlabel '%s%s' offset 0,0.6 textcolor rgb ink\n",
                           byte.name, memory->timed ? "time of the operators, " : "", second.name);
    g_autoptr(GArray) phases = memory_phases(memory);
    phase_bands_append(figure->drawing, phases, duration);
    append_stack(figure->drawing, &parts);
    describe(figure, plan, memory);
    return figure;
}
