#include "engine/host/machine.h"

#include "base/process_limits.h"
#include "base/size.h"
#include "engine/device.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
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

/* ---- control groups ---- */

/* The files of one version of the kernel's interface. */
struct group_files {
    const char *limit, *usage;
    const char *cache; /* the key in memory.stat of the bytes that the kernel can take back */
};

static const struct group_files unified_files = {"memory.max", "memory.current", "inactive_file"};
static const struct group_files separate_files = {"memory.limit_in_bytes", "memory.usage_in_bytes",
                                                  "total_inactive_file"};

/* Reads the number at the beginning of a file, or returns false if there is none. */
static bool read_number(const char *folder, const char *name, uint64_t *number)
{
    g_autofree char *path = g_build_filename(folder, name, NULL), *text = NULL;
    char *end;
    if (!g_file_get_contents(path, &text, NULL, NULL))
        return false;
    *number = g_ascii_strtoull(text, &end, 10);
    return end > text;
}

static uint64_t read_cache(const char *folder, const char *key)
{
    g_autofree char *path = g_build_filename(folder, "memory.stat", NULL), *text = NULL;
    if (!g_file_get_contents(path, &text, NULL, NULL))
        return 0;
    g_auto(GStrv) lines = g_strsplit(text, "\n", -1);
    for (char **line = lines; *line; line++) {
        size_t length = strlen(key);
        if (g_str_has_prefix(*line, key) && (*line)[length] == ' ')
            return g_ascii_strtoull(*line + length, NULL, 10);
    }
    return 0;
}

static uint64_t left_in_group(const char *folder, const struct group_files *files)
{
    uint64_t limit, usage;
    if (!read_number(folder, files->limit, &limit) || !read_number(folder, files->usage, &usage))
        return UINT64_MAX;
    uint64_t cache = MIN(usage, read_cache(folder, files->cache));
    return limit > usage - cache ? limit - (usage - cache) : 0;
}

/* Returns the least of a group and the groups above it. A container sees other paths than the
 * kernel's, and finds no files until the root. */
static uint64_t left_in_groups(const char *mount, const char *group,
                               const struct group_files *files)
{
    g_autofree char *path = g_strdup(group);
    uint64_t least = UINT64_MAX;
    for (char *end = path + strlen(path); end; end = strrchr(path, '/')) {
        *end = '\0';
        g_autofree char *folder = g_build_filename(mount, path, NULL);
        uint64_t left = left_in_group(folder, files);
        least = MIN(least, left);
    }
    return least;
}

uint64_t machine_group_bytes(const char *membership, const char *mount)
{
    g_auto(GStrv) lines = g_strsplit(membership, "\n", -1);
    g_autofree char *separate = g_build_filename(mount, "memory", NULL);
    uint64_t least = UINT64_MAX;
    for (char **line = lines; *line; line++) {
        g_auto(GStrv) parts = g_strsplit(*line, ":", 3); /* number:controllers:path */
        if (g_strv_length(parts) != 3)
            continue;
        g_auto(GStrv) controllers = g_strsplit(parts[1], ",", -1);
        uint64_t left = UINT64_MAX;
        if (*parts[1] == '\0')
            left = left_in_groups(mount, parts[2], &unified_files);
        else if (g_strv_contains((const char *const *)controllers, "memory"))
            left = left_in_groups(separate, parts[2], &separate_files);
        least = MIN(least, left);
    }
    return least;
}

static uint64_t group_bytes(void)
{
    g_autofree char *membership = NULL;
    g_file_get_contents("/proc/self/cgroup", &membership, NULL, NULL);
    return machine_group_bytes(membership ? membership : "", "/sys/fs/cgroup");
}

uint64_t available_bytes(void)
{
    uint64_t unused = free_bytes(), left = group_bytes();
    return MIN(unused, left);
}

/* ---- needs ---- */

/* One thing that a need is compared with. */
struct machine_comparison {
    const char *what;     /* "... that WHAT" */
    uint64_t limit, used; /* what is left is the difference */
    uint64_t takes;
    uint64_t beside; /* what the run may take later, at most */
};

static bool fits(const struct machine_comparison *by, const struct machine_need *need,
                 GError **error)
{
    uint64_t left = by->limit - MIN(by->limit, by->used);
    if (by->limit == UINT64_MAX || by->takes <= left)
        return true;
    g_autofree char *arena = size_format(need->arena_bytes);
    g_autofree char *pool = size_format(need->host_pool_bytes);
    g_autofree char *all = size_format(by->takes), *excess = size_format(by->takes - left);
    g_autofree char *there = size_format(left);
    g_autofree char *of_arena = need->arena_bytes ? g_strdup_printf("the device's %s and ", arena)
                                                  : g_strdup("");
    g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_MEMORY,
                "not enough memory: for %sa host pool of %s the run takes %s, %s more than the %s "
                "%s; %" G_GUINT64_FORMAT " bytes would fit",
                of_arena, pool, all, excess, there, by->what, by->takes + by->used + by->beside);
    return false;
}

/* Returns how many addresses a run takes beside arena, host pool and what it has when it takes
 * them: heaps, libraries' buffers and threads, of which there are two for each that computes. */
static uint64_t addresses_beside(const struct machine_need *need)
{
    enum { HEAPS = 64 << 20, QUEUES = 8 };
    uint64_t threads = process_thread_bytes(QUEUES + 2 * (uint64_t)need->threads);
    return MIN(threads, UINT64_MAX / 2) + HEAPS;
}

bool machine_check(const struct machine_need *need, GError **error)
{
    uint64_t resident = process_bytes(PROCESS_RESIDENT),
             memory = need->arena_bytes + need->host_pool_bytes;
    uint64_t takes = memory + MACHINE_BESIDE_BYTES - MIN(MACHINE_BESIDE_BYTES, resident);
    const struct machine_comparison comparisons[] = {
        {"that the control group leaves", group_bytes(), 0, takes, 0},
        {"available on this machine", free_bytes(), 0, takes, 0},
        {"left of the address space (ulimit -v)", process_limit(RLIMIT_AS),
         process_bytes(PROCESS_ADDRESSES), need->address_bytes, addresses_beside(need)},
        {"left for data (ulimit -d)", process_limit(RLIMIT_DATA), process_bytes(PROCESS_PRIVATE),
         need->arena_bytes + (need->pool_is_file ? 0 : need->host_pool_bytes),
         addresses_beside(need)},
        {"that a file may have (ulimit -f)",
         need->pool_is_file ? process_limit(RLIMIT_FSIZE) : UINT64_MAX, 0, need->host_pool_bytes,
         0},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(comparisons); i++)
        if (!fits(&comparisons[i], need, error))
            return false;
    return true;
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
