#include "engine/host/machine.h"

#include "engine/device.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

G_DEFINE_QUARK(pstar_device_error, device_error)

/* Returns what the system would give without swapping, or UINT64_MAX if it does not say. */
static uint64_t free_bytes(void)
{
    FILE *file = fopen("/proc/meminfo", "re");
    uint64_t kilobytes = UINT64_MAX / 1024;
    char line[256];
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %" G_GUINT64_FORMAT " kB", &kilobytes) == 1)
            break;
    if (file)
        fclose(file);
    return kilobytes * 1024;
}

/* Returns what a container may have in all, or UINT64_MAX outside of a container. */
static uint64_t allowed_bytes(void)
{
    FILE *file = fopen("/sys/fs/cgroup/memory.max", "re");
    uint64_t bytes;
    if (!file || fscanf(file, "%" G_GUINT64_FORMAT, &bytes) != 1)
        bytes = UINT64_MAX;
    if (file)
        fclose(file);
    return bytes;
}

uint64_t available_bytes(void)
{
    return MIN(free_bytes(), allowed_bytes());
}

/* Returns the processor's name as the kernel knows it, like "Intel(R) Xeon(R) Processor". */
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

char *cpu_describe(uint64_t *bytes)
{
    g_autofree char *name = processor();
    *bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) / 2;
    return g_strdup_printf("CPU, %ld cores, %s", sysconf(_SC_NPROCESSORS_ONLN), name);
}
