#include "base/printable.h"
#include "base/size.h"
#include "traces/activity/activity_summary.h"
#include "traces/summary.h"

enum { BUSIEST = 10, WIDEST_NAME = 60 };

static double percent(uint64_t part, uint64_t whole)
{
    return whole == 0 ? 0 : 100 * (double)part / (double)whole;
}

static void print_level(const struct activity_summary *summary, const char *label,
                        const struct memory_level *level, FILE *out)
{
    g_autofree char *peak = size_format(level->peak_bytes), *live = size_format(level->live_bytes);
    g_autofree char *when = summary_format_time(level->peak_ns - summary->first_ns);
    if (level->peak_bytes > 0)
        fprintf(out, "%-18s %12s   after %s; %s at the end\n", label, peak, when, live);
}

static void print_memory(const struct activity_summary *summary, uint32_t device, FILE *out)
{
    const GArray *devices = summary->memory->devices;
    for (guint i = 0; i < devices->len; i++) {
        const struct device_memory *memory = &g_array_index(devices, struct device_memory, i);
        if (memory->device != device)
            continue;
        print_level(summary, "  memory peak", &memory->allocated, out);
        g_autofree char *pool = size_format(memory->pool_peak_bytes);
        if (memory->pool_peak_bytes > 0)
            fprintf(out, "%-18s %12s   the largest pool\n", "  reserved", pool);
    }
}

static void print_device(const struct activity_summary *summary,
                         const struct device_summary *device, FILE *out)
{
    g_autofree char *label = g_strdup_printf("device %u", device->device);
    g_autofree char *size = size_format(device->gpu ? device->gpu->memory_bytes : 0);
    text_print_line(out, "%-18s %s%s%s", label,
                    device->gpu && device->gpu->name ? device->gpu->name : "not described",
                    device->gpu && device->gpu->memory_bytes > 0 ? ", " : "",
                    device->gpu && device->gpu->memory_bytes > 0 ? size : "");
    if (device->first_ns <= device->last_ns) {
        g_autofree char *busy = summary_format_time(device->busy_ns);
        g_autofree char *whole = summary_format_time(device->last_ns - device->first_ns);
        fprintf(out, "%-18s %12u   busy %s, %.1f%% of %s\n", "  kernels", device->kernel_count,
                busy, percent(device->busy_ns, device->last_ns - device->first_ns), whole);
        fprintf(out, "%-18s %12u   and %u memsets\n", "  copies", device->copy_count,
                device->set_count);
    }
    if (device->steps.length > 0) {
        g_autofree char *time = summary_format_time(device->step_ns);
        fprintf(out, "%-18s %12u   of %u kernels, %s each; by repetition, %.1f%% alike\n",
                "  steps", device->steps.count, device->steps.length, time,
                100 * device->steps.alike);
    }
    print_memory(summary, device->device, out);
}

static void print_traffic(const struct activity_summary *summary, FILE *out)
{
    if (summary->traffic->len > 0)
        fprintf(out, "%-18s %12s %7s %12s %14s\n", "traffic", "bytes", "copies", "time", "rate");
    for (guint i = 0; i < summary->traffic->len; i++) {
        const struct traffic_summary *traffic = &g_array_index(summary->traffic,
                                                               struct traffic_summary, i);
        g_autofree char *bytes = size_format(traffic->bytes);
        g_autofree char *time = summary_format_time(traffic->ns);
        g_autofree char *rate = traffic->ns > 0
                                    ? g_strdup_printf("%.2f GB/s",
                                                      (double)traffic->bytes / (double)traffic->ns)
                                    : g_strdup("");
        fprintf(out, "  %-16s %12s %7u %12s %14s   %s to %s\n", copy_kind_label(traffic->kind),
                bytes, traffic->count, time, rate, memory_kind_label(traffic->source),
                memory_kind_label(traffic->destination));
    }
}

static void print_kernels(const struct activity_summary *summary, FILE *out)
{
    if (summary->kernels->len > 0)
        fprintf(out, "%-18s %12s %7s %7s %12s\n", "busiest kernels", "time", "share", "calls",
                "longest");
    for (guint i = 0; i < MIN(summary->kernels->len, BUSIEST); i++) {
        const struct kernel_summary *kernel = &g_array_index(summary->kernels,
                                                             struct kernel_summary, i);
        g_autofree char *time = summary_format_time(kernel->total_ns);
        g_autofree char *longest = summary_format_time(kernel->longest_ns);
        g_autofree char *name = text_shortened(kernel->name, WIDEST_NAME);
        fprintf(out, "%-18s %12s %6.1f%% %7u %12s   %s\n", "", time,
                percent(kernel->total_ns, summary->kernel_ns), kernel->count, longest, name);
    }
}

void activity_summary_print(const struct activity_summary *summary, FILE *out)
{
    if (!summary)
        return;
    for (guint i = 0; i < summary->devices->len; i++)
        print_device(summary, &g_array_index(summary->devices, struct device_summary, i), out);
    print_level(summary, "pinned peak", &summary->memory->pinned, out);
    print_level(summary, "managed peak", &summary->memory->managed, out);
    g_autofree char *waits = summary_format_time(summary->wait_ns);
    g_autofree char *overhead = summary_format_time(summary->overhead_ns);
    fprintf(out, "%-18s %12s   for the device, %u times\n", "host waited", waits,
            summary->wait_count);
    fprintf(out, "%-18s %12s   of its own\n", "profiler took", overhead);
    print_traffic(summary, out);
    print_kernels(summary, out);
    fputc('\n', out);
}

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static json_t *level_json(const struct memory_level *level)
{
    return json_pack("{s:I, s:I, s:I}", "peak_bytes", (json_int_t)level->peak_bytes, "peak_time_ns",
                     (json_int_t)level->peak_ns, "live_bytes", (json_int_t)level->live_bytes);
}

/* Returns null if nothing was allocated on the device. */
static json_t *memory_json(const struct activity_summary *summary, uint32_t device)
{
    const GArray *devices = summary->memory->devices;
    for (guint i = 0; i < devices->len; i++) {
        const struct device_memory *memory = &g_array_index(devices, struct device_memory, i);
        if (memory->device != device)
            continue;
        json_t *json = level_json(&memory->allocated);
        json_object_set_new(json, "pool_peak_bytes",
                            json_integer((json_int_t)memory->pool_peak_bytes));
        return json;
    }
    return json_null();
}

static json_t *steps_json(const struct device_summary *device)
{
    if (device->steps.length == 0)
        return json_null();
    return json_pack("{s:I, s:I, s:I, s:f, s:f}", "count", (json_int_t)device->steps.count,
                     "kernels", (json_int_t)device->steps.length, "first_kernel",
                     (json_int_t)device->steps.first, "seconds", seconds(device->step_ns), "alike",
                     device->steps.alike);
}

static json_t *devices_json(const struct activity_summary *summary)
{
    json_t *devices = json_array();
    for (guint i = 0; i < summary->devices->len; i++) {
        const struct device_summary *device = &g_array_index(summary->devices,
                                                             struct device_summary, i);
        uint64_t whole_ns = device->last_ns > device->first_ns ? device->last_ns - device->first_ns
                                                               : 0;
        json_array_append_new(
            devices,
            json_pack("{s:I, s:s?, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:o, s:o}", "device",
                      (json_int_t)device->device, "name", device->gpu ? device->gpu->name : NULL,
                      "memory_bytes", (json_int_t)(device->gpu ? device->gpu->memory_bytes : 0),
                      "kernels", (json_int_t)device->kernel_count, "copies",
                      (json_int_t)device->copy_count, "memsets", (json_int_t)device->set_count,
                      "kernel_seconds", seconds(device->kernel_ns), "busy_seconds",
                      seconds(device->busy_ns), "seconds", seconds(whole_ns), "steps",
                      steps_json(device), "memory", memory_json(summary, device->device)));
    }
    return devices;
}

static json_t *kernels_json(const struct activity_summary *summary)
{
    json_t *kernels = json_array();
    for (guint i = 0; i < summary->kernels->len; i++) {
        const struct kernel_summary *kernel = &g_array_index(summary->kernels,
                                                             struct kernel_summary, i);
        json_array_append_new(kernels, json_pack("{s:s, s:I, s:f, s:f}", "name", kernel->name,
                                                 "calls", (json_int_t)kernel->count, "seconds",
                                                 seconds(kernel->total_ns), "longest_seconds",
                                                 seconds(kernel->longest_ns)));
    }
    return kernels;
}

static json_t *traffic_json(const struct activity_summary *summary)
{
    json_t *traffic = json_array();
    for (guint i = 0; i < summary->traffic->len; i++) {
        const struct traffic_summary *copies = &g_array_index(summary->traffic,
                                                              struct traffic_summary, i);
        json_array_append_new(
            traffic,
            json_pack("{s:s, s:s, s:s, s:I, s:I, s:f}", "direction", copy_kind_label(copies->kind),
                      "from", memory_kind_label(copies->source), "to",
                      memory_kind_label(copies->destination), "copies", (json_int_t)copies->count,
                      "bytes", (json_int_t)copies->bytes, "seconds", seconds(copies->ns)));
    }
    return traffic;
}

json_t *activity_summary_json(const struct activity_summary *summary,
                              const struct activity *activity)
{
    if (!summary)
        return json_null();
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:I, s:f, s:f, s:I, s:I, s:I, s:I}", "devices",
        devices_json(summary), "kernels", kernels_json(summary), "traffic", traffic_json(summary),
        "pinned", level_json(&summary->memory->pinned), "managed",
        level_json(&summary->memory->managed), "host_waits", (json_int_t)summary->wait_count,
        "host_wait_seconds", seconds(summary->wait_ns), "profiler_seconds",
        seconds(summary->overhead_ns), "dropped_records", (json_int_t)activity->dropped,
        "unfinished_records", (json_int_t)activity->unfinished, "untimed_records",
        (json_int_t)activity->untimed, "unreadable_bytes", (json_int_t)activity->unreadable);
}
