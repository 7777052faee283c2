#include "engine/cpu/memory.h"
#include "base/fault.h"
#include "base/size.h"
#include "engine/device.h"
#include "engine/host/machine.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { HUGE_PAGE = 2 << 20 };

static bool refuse(GError **error, const char *what, uint64_t bytes)
{
    g_autofree char *size = size_format(bytes);
    g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_MEMORY, "cannot allocate %s of %s: %s", what,
                size, g_strerror(errno));
    return false;
}

/* Makes sure that every page exists, in large pages if the system has them. */
static bool populate(uint8_t *start, uint64_t bytes, const struct nodes_spread *spread)
{
    madvise(start, bytes, MADV_HUGEPAGE);
    if (spread)
        nodes_touch(spread, start, bytes);
    if (madvise(start, bytes, MADV_POPULATE_WRITE) == 0)
        return true;
    if (errno != EINVAL)
        return false;
    /* Linux before 5.14 has no MADV_POPULATE_WRITE. */
    for (uint64_t page = 0; page < bytes; page += 4096)
        ((volatile uint8_t *)start)[page] = 0;
    return true;
}

static uint64_t round_up(uint64_t bytes, uint64_t unit)
{
    return (bytes + unit - 1) / unit * unit;
}

/* Reserves address space for both memories. Nothing in it can be accessed yet. */
static bool reserve(struct cpu_memory *memory, GError **error)
{
    uint64_t span = round_up(memory->arena_bytes, HUGE_PAGE);
    void *map = mmap(NULL, memory->reserved_bytes, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (map == MAP_FAILED)
        return refuse(error, "address space", memory->reserved_bytes);
    memory->reserved = map;
    memory->arena = (uint8_t *)round_up((uintptr_t)map, HUGE_PAGE);
    memory->host_hidden = memory->arena + span;
    return true;
}

/* Maps as mmap does, unless the fault strikes. */
static void *map_unless(enum fault fault, void *at, uint64_t bytes, int flags, int file)
{
    if (!fault_strikes(fault))
        return mmap(at, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    errno = ENOMEM;
    return MAP_FAILED;
}

static bool open_arena(struct cpu_memory *memory, GError **error)
{
    if (memory->arena_bytes == 0)
        return true;
    void *map = map_unless(FAULT_DEVICE_MEMORY, memory->arena, memory->arena_bytes,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1);
    if (map == MAP_FAILED || !populate(memory->arena, memory->arena_bytes, NULL))
        return refuse(error, "an arena", memory->arena_bytes);
    return true;
}

static bool map_twice(struct cpu_memory *memory, int file, const struct nodes_spread *spread)
{
    if (file < 0 || ftruncate(file, (off_t)memory->host_pool_bytes) != 0 ||
        mmap(memory->host_hidden, memory->host_pool_bytes, PROT_NONE, MAP_SHARED | MAP_FIXED, file,
             0) == MAP_FAILED)
        return false;
    void *map = map_unless(FAULT_PINNED_MEMORY, NULL, memory->host_pool_bytes, MAP_SHARED, file);
    if (map == MAP_FAILED)
        return false;
    memory->host = map;
    return populate(memory->host, memory->host_pool_bytes, spread);
}

static bool open_host(struct cpu_memory *memory, const struct nodes_spread *spread, GError **error)
{
    if (memory->host_pool_bytes == 0)
        return true;
    int file = memfd_create("pstar host pool", MFD_CLOEXEC);
    bool ok = map_twice(memory, file, spread) ||
              refuse(error, "a host pool", memory->host_pool_bytes);
    if (file >= 0)
        close(file);
    return ok;
}

bool cpu_memory_open(struct cpu_memory *memory, uint64_t arena_bytes, uint64_t host_pool_bytes,
                     const struct nodes_spread *spread, uint32_t threads, GError **error)
{
    uint64_t reserved = HUGE_PAGE + round_up(arena_bytes, HUGE_PAGE) +
                        round_up(host_pool_bytes, HUGE_PAGE);
    *memory = (struct cpu_memory){
        .arena_bytes = arena_bytes, .host_pool_bytes = host_pool_bytes, .reserved_bytes = reserved};
    const struct machine_need need = {.arena_bytes = arena_bytes,
                                      .host_pool_bytes = host_pool_bytes,
                                      .address_bytes = reserved + host_pool_bytes,
                                      .threads = threads,
                                      .pool_is_file = true};
    if (machine_check(&need, error) && reserve(memory, error) && open_arena(memory, error) &&
        open_host(memory, spread, error))
        return true;
    cpu_memory_close(memory);
    return false;
}

void cpu_memory_close(struct cpu_memory *memory)
{
    if (memory->reserved)
        munmap(memory->reserved, memory->reserved_bytes);
    if (memory->host)
        munmap(memory->host, memory->host_pool_bytes);
    *memory = (struct cpu_memory){0};
}

/* ---- the link ---- */

enum {
    SLICE = 256 << 10,     /* bytes copied between two looks at the clock */
    SHORTEST_SLEEP = 20000 /* in ns: what a sleep costs */
};

void link_enter(void)
{
    prctl(PR_SET_TIMERSLACK, 1);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void sleep_until(uint64_t ns)
{
    struct timespec end = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
        continue;
}

/* Copies in slices, none earlier than its share of the whole copy's time, so that memory traffic is
 * spread over time as on a slow link. */
static void copy_paced(struct link *link, uint8_t *to, const uint8_t *from, uint64_t bytes,
                       bool at_once)
{
    uint64_t start = at_once && link->free_ns ? link->free_ns : now_ns();
    double ns_a_byte = 1e9 / link->rate;
    for (uint64_t done = 0; done < bytes;) {
        uint64_t slice = bytes - done < SLICE ? bytes - done : SLICE;
        memcpy(to + done, from + done, slice);
        done += slice;
        uint64_t due = start + (uint64_t)((double)done * ns_a_byte);
        if (due > now_ns() + SHORTEST_SLEEP || (done == bytes && due > now_ns()))
            sleep_until(due);
    }
    uint64_t due = start + (uint64_t)((double)bytes * ns_a_byte);
    uint64_t now = now_ns();
    /* If memory is slower than the link, the next copy starts from now, because lost time is not
     * made up. */
    link->free_ns = due + SHORTEST_SLEEP * 10 > now ? due : now;
}

void link_copy(struct link *link, void *to, const void *from, uint64_t bytes, bool at_once)
{
    if (link->rate > 0)
        copy_paced(link, to, from, bytes, at_once);
    else
        memcpy(to, from, bytes);
    link->bytes += bytes;
    link->copies++;
}
