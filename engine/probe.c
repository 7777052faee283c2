#include "engine/probe.h"

#include "engine/cpu/kernels.h"
#include "engine/probe_measure.h"
#include "engine/probe_steps.h"
#include "engine/progress.h"

#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct step {
    const char *subject;
    bool (*measure)(struct platform *platform, GError **error);
    double seconds; /* about what it takes */
};

static const struct step steps[] = {
    {"matrix products and memory", probe_compute, 7},
    {"optimizer", probe_updates, 3},
    {"copies", probe_copies, 14},
    {"waiting threads", probe_threads, 1},
    {"operators beside copies", probe_neighbours, 8},
};

static void show(size_t current)
{
    double left = 0;
    if (!progress_wanted())
        return;
    for (size_t s = current; s < G_N_ELEMENTS(steps); s++)
        left += steps[s].seconds;
    fprintf(stderr, "\r\033[K");
    if (current < G_N_ELEMENTS(steps))
        fprintf(stderr, "probe %zu/%zu  %s  about %.0f s left", current + 1, G_N_ELEMENTS(steps),
                steps[current].subject, left);
    fflush(stderr);
}

/* "Intel(R) Xeon(R) Processor", as the kernel names it. */
static char *processor(void)
{
    g_autofree char *text = NULL;
    if (g_file_get_contents("/proc/cpuinfo", &text, NULL, NULL)) {
        const char *name = strstr(text, "model name");
        const char *colon = name ? strchr(name, ':') : NULL;
        if (colon)
            return g_strstrip(g_strndup(colon + 1, strcspn(colon + 1, "\n")));
    }
    return g_strdup("processor of an unknown name");
}

static uint64_t memory_bytes(void)
{
    return (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* The CPU device's memory is the host's: half is called the device's. */
static struct platform *describe(void)
{
    struct platform *platform = g_new0(struct platform, 1);
    struct cpu_context *cpu = cpu_context_new(1);
    g_autofree char *name = processor();
    g_autoptr(GDateTime) now = g_date_time_new_now_utc();
    g_autofree char *date = g_date_time_format(now, "%Y-%m-%d");
    platform->name = g_strdup_printf("CPU, %ld cores, %s", sysconf(_SC_NPROCESSORS_ONLN), name);
    platform->source = g_strdup_printf("measured by pstar-run --probe on %s, kernels for %s", date,
                                       cpu_context_simd(cpu));
    platform->device_bytes = platform->host_bytes = MAX(1, memory_bytes() / 2);
    cpu_context_free(cpu);
    return platform;
}

/* Before a minute is spent on figures that nobody can keep. */
static bool may_write(const char *path, GError **error)
{
    g_autofree char *folder = g_path_get_dirname(path);
    if (!g_file_test(path, G_FILE_TEST_IS_DIR) && g_access(folder, W_OK) == 0)
        return true;
    g_set_error(error, PLATFORM_ERROR, PLATFORM_ERROR_INVALID, "%s: cannot be written", path);
    return false;
}

int probe_run(const char *path, GError **error)
{
    if (!may_write(path, error))
        return 2;
    struct platform *platform = describe();
    int status = 0;
    for (size_t s = 0; s < G_N_ELEMENTS(steps) && status == 0; s++) {
        show(s);
        status = steps[s].measure(platform, error) ? 0 : 3;
    }
    show(G_N_ELEMENTS(steps));
    if (status == 0 && !platform_write(platform, path, error))
        status = 1;
    if (status == 0)
        printf("%s: %s\n", path, platform->name);
    platform_free(platform);
    return status;
}
