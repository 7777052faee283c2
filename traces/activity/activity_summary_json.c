#include "traces/activity/activity_summary.h"

static double seconds(uint64_t ns)
{
    return (double)ns / 1e9;
}

static json_t *level_json(const struct memory_level *level)
{
    return json_pack("{s:I, s:I, s:I}", "peak_bytes", (json_int_t)level->peak_bytes, "peak_time_ns",
                     (json_int_t)level->peak_ns, "live_bytes", (json_int_t)level->live_bytes);
}

/* Null where nothing was allocated there. */
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
