/* Memory in several places: how it is described, who gets what, and that results are the same.
 * Whether memory is near only a machine that has some that is far could tell. */
#include "engine/cpu/context.h"
#include "engine/engine.h"
#include "engine/host/cores.h"

#include <glib/gstdio.h>
#include <sys/mman.h>
#include <unistd.h>

static cpu_set_t set_of(const int *cores, size_t count)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (size_t i = 0; i < count; i++)
        CPU_SET((size_t)cores[i], &set);
    return set;
}
#define SET_OF(...) set_of((int[]){__VA_ARGS__}, sizeof((int[]){__VA_ARGS__}) / sizeof(int))

/* ---- what the system says ---- */

static const struct {
    const char *entry, *cores;
} described[] = {{"node10", "12-13\n"}, {"node2", "4-7\n"},    {"node0", "0-3,8,10-11\n"},
                 {"node3", "\n"},       {"node4", "900-9999"}, {"nodes", "1\n"},
                 {"power", "2\n"}};

static char *write_folder(void)
{
    char *folder = g_dir_make_tmp("nodes-XXXXXX", NULL);
    for (size_t i = 0; i < G_N_ELEMENTS(described); i++) {
        g_autofree char *entry = g_build_filename(folder, described[i].entry, NULL);
        g_autofree char *file = g_build_filename(entry, "cpulist", NULL);
        g_assert_cmpint(g_mkdir(entry, 0700), ==, 0);
        g_assert_true(g_file_set_contents(file, described[i].cores, -1, NULL));
    }
    return folder;
}

static void remove_folder(char *folder)
{
    for (size_t i = 0; i < G_N_ELEMENTS(described); i++) {
        g_autofree char *entry = g_build_filename(folder, described[i].entry, NULL);
        g_autofree char *file = g_build_filename(entry, "cpulist", NULL);
        g_unlink(file);
        g_rmdir(entry);
    }
    g_assert_cmpint(g_rmdir(folder), ==, 0);
    g_free(folder);
}

static void reads_what_is_allowed(void)
{
    char *folder = write_folder();
    cpu_set_t allowed = SET_OF(0, 1, 3, 4, 5, 9, 11, 13), first = SET_OF(0, 1, 3, 11);
    cpu_set_t second = SET_OF(4, 5), third = SET_OF(13);
    struct nodes *nodes = nodes_read(folder, &allowed);
    g_assert_nonnull(nodes);
    g_assert_cmpuint(nodes->count, ==, 3);
    g_assert_true(CPU_EQUAL(&nodes->cores[0], &first));
    g_assert_true(CPU_EQUAL(&nodes->cores[1], &second));
    g_assert_true(CPU_EQUAL(&nodes->cores[2], &third));
    const uint32_t before[] = {0, 4, 6, 7};
    g_assert_cmpmem(nodes->before, sizeof before, before, sizeof before);
    nodes_free(nodes);
    remove_folder(folder);
}

static void one_is_none(void)
{
    char *folder = write_folder();
    cpu_set_t one = SET_OF(4, 5, 6), nobody = SET_OF(20);
    g_assert_null(nodes_read(folder, &one));
    g_assert_null(nodes_read(folder, &nobody));
    remove_folder(folder);
    g_assert_null(nodes_read("/no such folder", &one));
}

/* ---- who gets what ---- */

/* Nodes with these numbers of cores, of which no thread is to run on any. */
static struct nodes *nodes_with(uint32_t count, const uint32_t *cores)
{
    struct nodes *nodes = g_new0(struct nodes, 1);
    nodes->count = count;
    nodes->cores = g_new0(cpu_set_t, count);
    nodes->before = g_new0(uint32_t, count + 1);
    for (uint32_t n = 0; n < count; n++)
        nodes->before[n + 1] = nodes->before[n] + cores[n];
    return nodes;
}

static uint64_t common(uint64_t first, uint64_t end, uint64_t other_first, uint64_t other_end)
{
    uint64_t from = MAX(first, other_first), to = MIN(end, other_end);
    return from < to ? to - from : 0;
}

/* A thread a core: but for rounding at the borders every byte is near the thread that has it. */
static void shares_are_near_their_threads(void)
{
    for (int trial = 0; trial < 2000; trial++) {
        uint32_t count = (uint32_t)g_test_rand_int_range(2, 9), cores[8] = {0};
        for (uint32_t n = 0; n < count; n++)
            cores[n] = (uint32_t)g_test_rand_int_range(1, 65);
        struct nodes *nodes = nodes_with(count, cores);
        uint64_t bytes = (uint64_t)g_test_rand_int_range(0, 1 << 30) * 1024, near = 0;
        uint32_t parts = nodes->before[count];
        g_assert_cmpuint(nodes_share(nodes, 0, bytes), ==, 0);
        g_assert_cmpuint(nodes_share(nodes, count, bytes), ==, bytes);
        for (uint32_t part = 0; part < parts; part++) {
            uint32_t node = nodes_of_part(nodes, part, parts);
            g_assert_cmpuint(node, <, count);
            near += common(part * bytes / parts, (part + 1) * bytes / parts,
                           nodes_share(nodes, node, bytes), nodes_share(nodes, node + 1, bytes));
        }
        g_assert_cmpuint(bytes - near, <=, count);
        nodes_free(nodes);
    }
}

/* However many threads there are: a part's middle is in its node's share. */
static void parts_belong_where_their_middle_is(void)
{
    const uint64_t bytes = UINT64_C(1) << 40;
    for (int trial = 0; trial < 2000; trial++) {
        uint32_t cores[] = {(uint32_t)g_test_rand_int_range(1, 65),
                            (uint32_t)g_test_rand_int_range(1, 65)};
        struct nodes *nodes = nodes_with(2, cores);
        uint64_t parts = (uint64_t)g_test_rand_int_range(1, 300);
        for (uint64_t part = 0; part < parts; part++) {
            uint64_t middle = (2 * part + 1) * bytes / (2 * parts) + 1; /* + 1: it was cut */
            uint32_t node = nodes_of_part(nodes, part, parts);
            g_assert_cmpuint(nodes_share(nodes, node, bytes), <=, middle);
            g_assert_cmpuint(middle, <=, nodes_share(nodes, node + 1, bytes));
        }
        nodes_free(nodes);
    }
}

/* ---- what is done with it ---- */

/* Two nodes of the cores that there are; on a single one both have it. */
static struct nodes *halves(const cpu_set_t *all)
{
    struct nodes *nodes = nodes_with(2, (uint32_t[]){1, 1});
    uint32_t seen = 0, count = (uint32_t)CPU_COUNT(all);
    for (size_t core = 0; core < CPU_SETSIZE; core++)
        if (CPU_ISSET(core, all))
            CPU_SET(core, &nodes->cores[seen++ >= count / 2]);
    if (count == 1)
        nodes->cores[0] = *all;
    return nodes;
}

/* Linux before 5.14 does not, nor do emulators that only say so. */
static bool system_touches_memory(void)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char there = 0;
    void *memory = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    g_assert_true(memory != MAP_FAILED);
    bool touches = madvise(memory, page, MADV_POPULATE_WRITE) == 0 &&
                   mincore(memory, page, &there) == 0 && there & 1;
    munmap(memory, page);
    return touches;
}

static void touches_everything(void)
{
    if (!system_touches_memory()) {
        g_test_skip("the system touches no memory when asked to");
        return;
    }
    const struct core_sets mine = cores_split(CORES_TOGETHER);
    struct nodes *nodes = halves(&mine.all);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), pages = 300, bytes = pages * page - 100;
    for (int trial = 0; trial < 20; trial++) {
        uint64_t cuts[9];
        uint32_t count = (uint32_t)g_test_rand_int_range(0, 10);
        for (uint32_t c = 0; c < count; c++)
            cuts[c] = bytes * c / 9 + (uint64_t)g_test_rand_int_range(0, (gint32)page);
        const struct nodes_spread spread = {nodes, cuts, count};
        uint8_t *pool = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
                             0);
        g_assert_true(pool != MAP_FAILED);
        madvise(pool, bytes, MADV_NOHUGEPAGE);
        nodes_touch(&spread, pool, bytes);
        unsigned char there[300];
        g_assert_cmpint(mincore(pool, bytes, there), ==, 0);
        for (uint64_t p = 0; p < pages; p++)
            g_assert_true(there[p] & 1);
        munmap(pool, bytes);
    }
    nodes_free(nodes);
}

static void note_cores(const void *arguments, uint64_t first, uint64_t end)
{
    cpu_set_t *seen = *(cpu_set_t *const *)arguments;
    g_assert_cmpuint(end, ==, first + 1);
    seen[first] = cores_split(CORES_TOGETHER).all;
}

static void threads_run_on_their_nodes(void)
{
    enum { MOST = 6 };
    const struct core_sets mine = cores_split(CORES_TOGETHER);
    struct nodes *nodes = halves(&mine.all);
    for (unsigned threads = 1; threads <= MOST; threads++) {
        struct cpu_context *cpu = cpu_context_new(threads);
        cpu_set_t seen[MOST], *to = seen;
        cpu_context_keep_near(cpu, nodes);
        /* With fewer items than threads, some threads have none. */
        cpu_parallel(cpu, note_cores, &to, threads, 1);
        cpu_parallel(cpu, note_cores, &to, 1, 1);
        cpu_parallel(cpu, note_cores, &to, threads, 1);
        for (unsigned part = 0; part < threads; part++)
            g_assert_true(
                CPU_EQUAL(&seen[part], &nodes->cores[nodes_of_part(nodes, part, threads)]));
        cpu_context_free(cpu);
        cores_bind(&mine.all);
    }
    nodes_free(nodes);
}

static void bits_are_the_same(void)
{
    enum { ELEMENTS = 40 * 1024 + 7, ARRAYS = 4 };
    const struct core_sets mine = cores_split(CORES_TOGETHER);
    const struct adamw_options options = {1e-3, 0.9, 0.95, 1e-8, 0.1, 1};
    const struct adamw_step step = adamw_step_of(&options, 3);
    struct nodes *nodes = halves(&mine.all);
    g_autofree float *one = g_new(float, (size_t)ARRAYS *ELEMENTS);
    for (size_t i = 0; i < (size_t)ARRAYS * ELEMENTS; i++)
        one[i] = (float)g_test_rand_double_range(1e-3, 1);
    g_autofree float *other = g_memdup2(one, ARRAYS * ELEMENTS * sizeof *one);
    float *arrays[] = {one, other};
    for (int near = 0; near < 2; near++) {
        struct cpu_context *cpu = cpu_context_new(5);
        float *at = arrays[near];
        const struct adamw_tensor tensor = {.elements = ELEMENTS,
                                            .param = at,
                                            .gradient = at + ELEMENTS,
                                            .exp_avg = at + 2 * ELEMENTS,
                                            .exp_avg_sq = at + 3 * ELEMENTS};
        if (near)
            cpu_context_keep_near(cpu, nodes);
        cpu_adamw(cpu, &step, NULL, &tensor);
        cpu_context_free(cpu);
    }
    cores_bind(&mine.all);
    g_assert_cmpmem(one, ARRAYS * ELEMENTS * sizeof *one, other, ARRAYS * ELEMENTS * sizeof *other);
    nodes_free(nodes);
}

/* Parameters of three tensors in one chunk, masters in two, of which one never leaves the device.
 */
static void cuts_are_where_tensors_begin(void)
{
    struct chunk chunks[] = {
        {1024, 768, 0, TRACE_PARAM}, {1024, 1024, 0, TRACE_MASTER}, {512, 512, 0, TRACE_MASTER}};
    struct layout_place params[] = {{0, 0}, {0, 256}, {0, 512}};
    struct layout_place masters[] = {{1, 0}, {1, 512}, {2, 0}};
    struct layout layout = {.tensor_count = 3, .chunk_count = 3, .chunks = chunks};
    layout.places[TRACE_PARAM] = params;
    layout.places[TRACE_MASTER] = masters;
    uint64_t homes[] = {1024, 0, NO_ADDRESS};
    const struct plan plan = {.layout = &layout, .host_address = homes, .host_pool_bytes = 2048};
    const uint64_t expected[] = {0, 512, 1024, 1280, 1536, 1792};
    g_autoptr(GArray) cuts = pool_cuts(&plan);
    g_assert_cmpmem(cuts->data, cuts->len * sizeof(uint64_t), expected, sizeof expected);
}

/* Every second core of 64 is there. */
static void test_split(void)
{
    static const struct {
        uint32_t cores;
        enum cores_use use;
        uint32_t compute, host;
    } splits[] = {{16, CORES_TOGETHER, 16, 16},  {16, CORES_APART, 12, 4},
                  {3, CORES_APART, 2, 1},        {1, CORES_APART, 1, 1},
                  {16, CORES_BESIDE_GPU, 1, 15}, {4, CORES_BESIDE_GPU, 1, 3},
                  {3, CORES_BESIDE_GPU, 3, 3}};
    for (size_t i = 0; i < G_N_ELEMENTS(splits); i++) {
        cpu_set_t all, either;
        CPU_ZERO(&all);
        for (uint32_t core = 0; core < splits[i].cores; core++)
            CPU_SET(2 * core + 1, &all);
        struct core_sets cores = cores_split_set(&all, splits[i].use);
        g_assert_cmpuint(cores.compute_count, ==, splits[i].compute);
        g_assert_cmpuint(cores.host_count, ==, splits[i].host);
        g_assert_cmpint(CPU_COUNT(&cores.compute), ==, splits[i].compute);
        g_assert_cmpint(CPU_COUNT(&cores.host), ==, splits[i].host);
        CPU_OR(&either, &cores.compute, &cores.host);
        g_assert_true(CPU_EQUAL(&either, &all));
        g_assert_true(CPU_ISSET(1, &cores.compute)); /* the first core */
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/nodes/split", test_split);
    g_test_add_func("/nodes/reads_what_is_allowed", reads_what_is_allowed);
    g_test_add_func("/nodes/one_is_none", one_is_none);
    g_test_add_func("/nodes/shares_are_near_their_threads", shares_are_near_their_threads);
    g_test_add_func("/nodes/parts_belong_where_their_middle_is",
                    parts_belong_where_their_middle_is);
    g_test_add_func("/nodes/touches_everything", touches_everything);
    g_test_add_func("/nodes/threads_run_on_their_nodes", threads_run_on_their_nodes);
    g_test_add_func("/nodes/bits_are_the_same", bits_are_the_same);
    g_test_add_func("/nodes/cuts_are_where_tensors_begin", cuts_are_where_tensors_begin);
    return g_test_run();
}
