#include "engine/host/available.h"

#include "engine/device.h"

#include <stdio.h>

G_DEFINE_QUARK(pstar_device_error, device_error)

/* What the system would give without swapping; UINT64_MAX where it does not say. */
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

/* What a container may have in all; UINT64_MAX outside of one. */
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
