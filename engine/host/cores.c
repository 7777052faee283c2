#include "engine/host/cores.h"

#include <glib.h>
#include <omp.h>
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- cores ---- */

/* Gives the first `count` cores of all to compute and the others to the host. */
static void split_at(struct core_sets *cores, uint32_t count)
{
    uint32_t seen = 0;
    for (int core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, &cores->all))
            CPU_CLR(core, seen++ < count ? &cores->host : &cores->compute);
    cores->host_count -= count;
    cores->compute_count = count;
}

struct core_sets cores_split_set(const cpu_set_t *all, enum cores_use use)
{
    enum { LEAST_BESIDE_GPU = 4 };
    uint32_t count = (uint32_t)CPU_COUNT(all);
    struct core_sets cores = {
        .all = *all, .compute = *all, .host = *all, .compute_count = count, .host_count = count};
    if (use == CORES_APART && count > 1)
        split_at(&cores, count - MAX(count / 4, 1));
    if (use == CORES_BESIDE_GPU && count >= LEAST_BESIDE_GPU)
        split_at(&cores, 1);
    return cores;
}

struct core_sets cores_split(enum cores_use use)
{
    cpu_set_t all;
    CPU_ZERO(&all);
    if (pthread_getaffinity_np(pthread_self(), sizeof all, &all) != 0)
        CPU_SET(0, &all);
    return cores_split_set(&all, use);
}

void cores_bind(const cpu_set_t *set)
{
    pthread_setaffinity_np(pthread_self(), sizeof *set, set);
}

void cores_leave(void)
{
#ifndef __clang__
    omp_pause_resource(omp_pause_soft, omp_get_initial_device());
#endif
}

/* ---- nodes ---- */

/* "0-3,8,10-11\n" */
static void add_cores(const char *list, cpu_set_t *cores)
{
    char *next;
    for (;; list = next + 1) {
        uint64_t first = g_ascii_strtoull(list, &next, 10);
        if (next == list)
            return;
        uint64_t last = *next == '-' ? g_ascii_strtoull(next + 1, &next, 10) : first;
        for (uint64_t core = first; core <= last && core < CPU_SETSIZE; core++)
            CPU_SET(core, cores);
        if (*next != ',')
            return;
    }
}

/* Returns the node's cores that are allowed; none if it has no such file. */
static cpu_set_t read_cores(const char *folder, const char *node, const cpu_set_t *allowed)
{
    g_autofree char *path = g_build_filename(folder, node, "cpulist", NULL);
    g_autofree char *list = NULL;
    cpu_set_t cores;
    CPU_ZERO(&cores);
    if (g_file_get_contents(path, &list, NULL, NULL))
        add_cores(list, &cores);
    CPU_AND(&cores, &cores, allowed);
    return cores;
}

static gint by_number(gconstpointer left, gconstpointer right)
{
    const uint32_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

static GArray *numbers_of_nodes(const char *folder)
{
    GArray *numbers = g_array_new(FALSE, FALSE, sizeof(uint32_t));
    GDir *entries = g_dir_open(folder, 0, NULL);
    const char *name;
    while (entries && (name = g_dir_read_name(entries))) {
        guint64 number;
        if (g_str_has_prefix(name, "node") &&
            g_ascii_string_to_unsigned(name + strlen("node"), 10, 0, UINT32_MAX, &number, NULL)) {
            uint32_t node = (uint32_t)number;
            g_array_append_val(numbers, node);
        }
    }
    if (entries)
        g_dir_close(entries);
    g_array_sort(numbers, by_number);
    return numbers;
}

struct nodes *nodes_read(const char *folder, const cpu_set_t *allowed)
{
    g_autoptr(GArray) numbers = numbers_of_nodes(folder);
    struct nodes *nodes = g_new0(struct nodes, 1);
    nodes->cores = g_new(cpu_set_t, numbers->len + 1);
    nodes->before = g_new0(uint32_t, numbers->len + 1);
    for (uint32_t i = 0; i < numbers->len; i++) {
        g_autofree char *name = g_strdup_printf("node%u", g_array_index(numbers, uint32_t, i));
        cpu_set_t cores = read_cores(folder, name, allowed);
        if (CPU_COUNT(&cores) == 0)
            continue; /* it has only memory, or only cores that are not allowed */
        nodes->cores[nodes->count] = cores;
        nodes->before[nodes->count + 1] = nodes->before[nodes->count] + (uint32_t)CPU_COUNT(&cores);
        nodes->count++;
    }
    if (nodes->count >= 2)
        return nodes;
    nodes_free(nodes);
    return NULL;
}

void nodes_free(struct nodes *nodes)
{
    if (!nodes)
        return;
    g_free(nodes->cores);
    g_free(nodes->before);
    g_free(nodes);
}

uint64_t nodes_share(const struct nodes *nodes, uint32_t node, uint64_t bytes)
{
    return bytes * nodes->before[node] / nodes->before[nodes->count];
}

uint32_t nodes_of_part(const struct nodes *nodes, uint64_t part, uint64_t parts)
{
    uint64_t core = (2 * part + 1) * nodes->before[nodes->count] / (2 * parts);
    uint32_t node = 0;
    while (nodes->before[node + 1] <= core)
        node++;
    return node;
}

struct toucher {
    const struct nodes_spread *spread;
    uint32_t node;
    uint8_t *start;
    uint64_t bytes;
};

static void touch_share(const struct toucher *toucher, uint64_t piece, uint64_t bytes)
{
    const struct nodes *nodes = toucher->spread->nodes;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    uint64_t first = (piece + nodes_share(nodes, toucher->node, bytes)) / page * page;
    uint64_t end = piece + nodes_share(nodes, toucher->node + 1, bytes);
    /* A page on a border belongs to the next share, except the pool's last page. */
    if (end < toucher->bytes)
        end = end / page * page;
    if (first < end)
        madvise(toucher->start + first, end - first, MADV_POPULATE_WRITE);
}

static void *touch_shares(void *data)
{
    const struct toucher *toucher = data;
    const struct nodes_spread *spread = toucher->spread;
    uint64_t piece = 0;
    cores_bind(&spread->nodes->cores[toucher->node]);
    for (uint32_t c = 0; c < spread->cut_count; c++) {
        touch_share(toucher, piece, spread->cuts[c] - piece);
        piece = spread->cuts[c];
    }
    touch_share(toucher, piece, toucher->bytes - piece);
    return NULL;
}

void nodes_touch(const struct nodes_spread *spread, uint8_t *start, uint64_t bytes)
{
    uint32_t count = spread->nodes->count;
    g_autofree struct toucher *touchers = g_new(struct toucher, count);
    g_autofree GThread **threads = g_new(GThread *, count);
    for (uint32_t n = 0; n < count; n++) {
        touchers[n] = (struct toucher){spread, n, start, bytes};
        threads[n] = g_thread_try_new("touch", touch_shares, &touchers[n], NULL);
    }
    for (uint32_t n = 0; n < count; n++)
        if (threads[n])
            g_thread_join(threads[n]);
}
