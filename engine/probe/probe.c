#include "engine/probe/probe.h"

#include "base/failure.h"
#include "base/output_file.h"
#include "base/printable.h"
#include "engine/cpu/kernels.h"
#include "engine/devices.h"
#include "engine/host/machine.h"
#include "engine/probe/probe_steps.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <unistd.h>

struct measurement {
    const char *subject;
    bool (*measure)(const struct device_ops *ops, struct platform *platform, GError **error);
    /* Instead: */
    void (*measure_ranks)(struct ranks *ranks, struct platform *platform);
    bool (*measure_disk)(const char *folder, struct platform *platform, GError **error);
    double seconds; /* about what it takes */
};

/* Of the CPU device, whose compute, copies and host are threads of one machine. */
static const struct measurement of_threads[] = {
    {"matrix products and memory", .measure = probe_compute, .seconds = 7},
    {"optimizer", .measure = probe_updates, .seconds = 3},
    {"copies", .measure = probe_copies, .seconds = 14},
    {"waiting threads", .measure = probe_threads, .seconds = 1},
    {"operators beside copies", .measure = probe_neighbours, .seconds = 8},
    {"disk", .measure_disk = probe_disk, .seconds = 8},
    {"ranks of a host", .measure_ranks = probe_node, .seconds = 4},
    {"ranks of all hosts", .measure_ranks = probe_network, .seconds = 4},
    {.subject = NULL},
};

/* Of a device with a memory of its own. */
static const struct measurement of_device[] = {
    {"matrix products and memory", .measure = probe_operators, .seconds = 5},
    {"optimizer", .measure = probe_updates, .seconds = 3},
    {"copies", .measure = probe_copies, .seconds = 14},
    {"the host's memory", .measure = probe_host_memory, .seconds = 2},
    {"disk", .measure_disk = probe_disk, .seconds = 8},
    {.subject = NULL},
};

/* With one rank there is nothing that ranks do together. */
static bool is_left_out(const struct probe_request *request, const struct measurement *measurement)
{
    return (!request->ranks && measurement->measure_ranks) ||
           (!request->nvme && measurement->measure_disk);
}

static struct probe_step step_of(const struct probe_request *request, const struct measurement *all,
                                 uint32_t current)
{
    struct probe_step step = {.subject = all[current].subject};
    for (uint32_t m = 0; all[m].subject; m++) {
        if (is_left_out(request, &all[m]))
            continue;
        step.done += m < current;
        step.total++;
        step.seconds_left += m < current ? 0 : all[m].seconds;
    }
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

static bool is_first(const struct probe_request *request)
{
    return !request->ranks || request->ranks->rank == 0;
}

static bool agree(const struct probe_request *request, const char *description, int *elsewhere,
                  GError **error)
{
    return ranks_agree(request->ranks, description, request->status_of, elsewhere, error);
}

static bool measure(const struct probe_request *request, const struct measurement *measurement,
                    struct platform *platform, GError **error)
{
    if (measurement->measure_ranks)
        measurement->measure_ranks(request->ranks, platform);
    if (measurement->measure_disk)
        return measurement->measure_disk(request->nvme, platform, error);
    return !measurement->measure || measurement->measure(request->device, platform, error) ||
           failure_mark(error, FAILURE_DOES_NOT_FIT);
}

/* After each measurement all ranks know whether each of them goes on. */
static bool measure_all(const struct probe_request *request, struct platform *platform,
                        int *elsewhere, GError **error)
{
    const struct measurement *all = request->device == &device_cpu ? of_threads : of_device;
    bool ok = true;
    for (uint32_t m = 0; all[m].subject && ok; m++) {
        if (is_left_out(request, &all[m]))
            continue;
        const struct probe_step step = step_of(request, all, m);
        if (request->show)
            request->show(request->data, &step);
        measure(request, &all[m], platform, error);
        ok = agree(request, "", elsewhere, error);
    }
    if (ok && request->ranks)
        probe_shared_host(request->ranks, platform);
    return ok;
}

/* Exchanges are measured in the host's memory. */
static bool can_measure_ranks(const struct probe_request *request, GError **error)
{
    if (request->ranks && request->nvme) {
        g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                    "--nvme %s: a disk is measured by one rank only", request->nvme);
        return false;
    }
    if (!request->ranks || request->device == &device_cpu)
        return true;
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                "--device %s: is measured by one rank only; several ranks need --device cpu",
                request->device->name);
    return false;
}

/* Minutes of measuring must not end with a folder that cannot be used. */
static bool has_folder(const struct probe_request *request, GError **error)
{
    if (!request->nvme || g_access(request->nvme, W_OK | X_OK) == 0)
        return true;
    g_set_error(error, G_OPTION_ERROR, G_OPTION_ERROR_BAD_VALUE,
                "--nvme %s: no files can be created there: %s", request->nvme, g_strerror(errno));
    return false;
}

static struct platform *begin(const struct probe_request *request, GError **error)
{
    if (!can_measure_ranks(request, error) || !has_folder(request, error) ||
        (is_first(request) && !output_file_has_place(request->path, error)))
        return NULL;
    return describe(request->device, error);
}

bool probe_run(const struct probe_request *request, int *elsewhere, GError **error)
{
    struct platform *platform = begin(request, error);
    bool ok = agree(request, "work: measurements\n", elsewhere, error) &&
              measure_all(request, platform, elsewhere, error);
    if (ok && is_first(request) && !platform_write(platform, request->path, error))
        failure_mark(error, FAILURE_RUNNING);
    ok = ok && agree(request, "", elsewhere, error);
    if (ok && is_first(request))
        text_print_line(stdout, "%s: %s", request->path, platform->name);
    platform_free(platform);
    return ok;
}
