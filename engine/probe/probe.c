#include "engine/probe/probe.h"

#include "engine/cpu/kernels.h"
#include "engine/host/machine.h"
#include "engine/probe/probe_steps.h"
#include "traces/failure.h"
#include "traces/output_file.h"
#include "traces/printable.h"

#include <stdio.h>

struct measurement {
    const char *subject;
    bool (*measure)(const struct device_ops *ops, struct platform *platform, GError **error);
    double seconds; /* about what it takes */
};

/* Of the CPU device, whose compute, copies and host are threads of one machine. */
static const struct measurement of_threads[] = {
    {"matrix products and memory", probe_compute, 7},
    {"optimizer", probe_updates, 3},
    {"copies", probe_copies, 14},
    {"waiting threads", probe_threads, 1},
    {"operators beside copies", probe_neighbours, 8},
    {NULL, NULL, 0},
};

/* Of a device with a memory of its own. */
static const struct measurement of_device[] = {
    {"matrix products and memory", probe_operators, 5},
    {"optimizer", probe_updates, 3},
    {"copies", probe_copies, 14},
    {NULL, NULL, 0},
};

static struct probe_step step_of(const struct measurement *all, uint32_t current)
{
    struct probe_step step = {.done = current, .total = current, .subject = all[current].subject};
    for (; all[step.total].measure; step.total++)
        step.seconds_left += all[step.total].seconds;
    return step;
}

static struct platform *describe(const struct device_ops *ops, GError **error)
{
    struct device_capacity capacity = {0};
    uint64_t host_capacity = 0;
    g_autofree char *name = ops->describe(&capacity, error);
    g_autofree char *host = cpu_describe(&host_capacity);
    if (!name)
        return NULL;
    struct platform *platform = g_new0(struct platform, 1);
    struct cpu_context *cpu = cpu_context_new(1);
    g_autoptr(GDateTime) now = g_date_time_new_now_utc();
    g_autofree char *date = g_date_time_format(now, "%Y-%m-%d");
    platform->source = g_strdup_printf(
        "measured by pstar-run --probe on %s, kernels for %s%s%s", date, cpu_context_simd(cpu),
        ops == &device_cpu ? "" : "; host: ", ops == &device_cpu ? "" : host);
    platform->name = g_steal_pointer(&name);
    platform->device_capacity = MAX(1, capacity.bytes);
    platform->host_capacity = MAX(1, host_capacity);
    cpu_context_free(cpu);
    return platform;
}

bool probe_run(const struct device_ops *ops, const char *path,
               void (*show)(void *data, const struct probe_step *step), void *data, GError **error)
{
    const struct measurement *all = ops == &device_cpu ? of_threads : of_device;
    struct platform *platform = output_file_has_place(path, error) ? describe(ops, error) : NULL;
    if (!platform)
        return false;
    bool ok = true;
    for (uint32_t m = 0; all[m].measure && ok; m++) {
        const struct probe_step step = step_of(all, m);
        if (show)
            show(data, &step);
        ok = all[m].measure(ops, platform, error) || failure_mark(error, FAILURE_DOES_NOT_FIT);
    }
    if (ok)
        ok = platform_write(platform, path, error) || failure_mark(error, FAILURE_RUNNING);
    if (ok)
        text_print_line(stdout, "%s: %s", path, platform->name);
    platform_free(platform);
    return ok;
}
