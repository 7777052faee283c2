#include "engine/cpu/memory.h"
#include "engine/device.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20 };

GQuark device_error_quark(void)
{
    return g_quark_from_static_string("device-error");
}

static bool refuse(GError **error, const char *what, uint64_t bytes)
{
    char *size = g_format_size_full(bytes, G_FORMAT_SIZE_IEC_UNITS);
    g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_MEMORY, "%s of %s cannot be had: %s", what, size,
                g_strerror(errno));
    g_free(size);
    return false;
}

/* What the system would give without swapping; UINT64_MAX where it does not say. */
static uint64_t available_bytes(void)
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

/* Touching more than there is would not fail but have the kernel kill someone. */
static bool check_available(uint64_t bytes, GError **error)
{
    uint64_t available = available_bytes();
    if (bytes <= available)
        return true;
    char *asked = g_format_size_full(bytes, G_FORMAT_SIZE_IEC_UNITS);
    char *there = g_format_size_full(available, G_FORMAT_SIZE_IEC_UNITS);
    g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_MEMORY,
                "the arena and the host pool take %s together; this machine has %s available",
                asked, there);
    g_free(asked);
    g_free(there);
    return false;
}

/* Every page is there afterwards: large ones where the kernel has them. */
static bool populate(uint8_t *start, uint64_t bytes)
{
    madvise(start, bytes, MADV_HUGEPAGE);
    if (madvise(start, bytes, MADV_POPULATE_WRITE) == 0)
        return true;
    if (errno != EINVAL)
        return false;
    /* Linux before 5.14. */
    for (uint64_t page = 0; page < bytes; page += 4096)
        ((volatile uint8_t *)start)[page] = 0;
    return true;
}

static uint8_t *map_aligned(uint64_t bytes)
{
    uint8_t *map =
        mmap(NULL, bytes + HUGE_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED)
        return NULL;
    uint64_t before = (HUGE_PAGE - (uintptr_t)map % HUGE_PAGE) % HUGE_PAGE;
    if (before)
        munmap(map, before);
    /* The kernel rounds lengths up to whole pages but wants the start of a page. */
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t kept = (bytes + page - 1) / page * page;
    if (HUGE_PAGE - before > kept - bytes)
        munmap(map + before + kept, bytes + HUGE_PAGE - before - kept);
    return map + before;
}

static bool open_arena(struct cpu_memory *memory, GError **error)
{
    if (memory->arena_bytes == 0)
        return true;
    memory->arena = map_aligned(memory->arena_bytes);
    if (!memory->arena || !populate(memory->arena, memory->arena_bytes))
        return refuse(error, "an arena", memory->arena_bytes);
    return true;
}

static uint8_t *map_shared(int file, uint64_t bytes, int protection)
{
    uint8_t *map = mmap(NULL, bytes, protection, MAP_SHARED, file, 0);
    return map == MAP_FAILED ? NULL : map;
}

static bool open_host(struct cpu_memory *memory, GError **error)
{
    if (memory->host_bytes == 0)
        return true;
    int file = memfd_create("pstar host pool", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)memory->host_bytes) == 0) {
        memory->host_hidden = map_shared(file, memory->host_bytes, PROT_NONE);
        memory->host = map_shared(file, memory->host_bytes, PROT_READ | PROT_WRITE);
    }
    bool had = memory->host_hidden && memory->host && populate(memory->host, memory->host_bytes);
    if (!had)
        refuse(error, "a host pool", memory->host_bytes);
    if (file >= 0)
        close(file);
    return had;
}

bool cpu_memory_open(struct cpu_memory *memory, uint64_t arena_bytes, uint64_t host_bytes,
                     GError **error)
{
    *memory = (struct cpu_memory){.arena_bytes = arena_bytes, .host_bytes = host_bytes};
    if (check_available(arena_bytes + host_bytes, error) && open_arena(memory, error) &&
        open_host(memory, error))
        return true;
    cpu_memory_close(memory);
    return false;
}

void cpu_memory_close(struct cpu_memory *memory)
{
    if (memory->arena)
        munmap(memory->arena, memory->arena_bytes);
    if (memory->host)
        munmap(memory->host, memory->host_bytes);
    if (memory->host_hidden)
        munmap(memory->host_hidden, memory->host_bytes);
    *memory = (struct cpu_memory){0};
}
