/* The threads of a thread's loops end when they are asked to, and come again. */
#include "engine/cpu/context.h"
#include "engine/cpu/kernels.h"
#include "engine/host/cores.h"

#include <glib.h>

static guint count_threads(void)
{
    g_autoptr(GDir) tasks = g_dir_open("/proc/self/task", 0, NULL);
    guint count = 0;
    while (g_dir_read_name(tasks))
        count++;
    return count;
}

static void count_elements(const void *counts, uint64_t first, uint64_t end)
{
    for (uint64_t i = first; i < end; i++)
        ((uint8_t *)counts)[i]++;
}

static void test_end(void)
{
    enum { ITEMS = 1000, THREADS = 4, LOOPS = 3 };
    uint8_t counts[ITEMS] = {0};
    guint before = count_threads();
    struct cpu_context *cpu = cpu_context_start(THREADS);
    for (int i = 0; i < LOOPS; i++) {
        cpu_parallel(cpu, count_elements, counts, ITEMS, 1);
        g_assert_cmpuint(count_threads(), >=, before + THREADS - 1);
        cores_leave();
        while (count_threads() > before) /* they end by themselves */
            g_usleep(1000);
        cores_leave(); /* of none */
    }
    for (int i = 0; i < ITEMS; i++)
        g_assert_cmpuint(counts[i], ==, LOOPS);
    cpu_context_free(cpu);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#ifdef __clang__
    return 77; /* LLVM's OpenMP keeps them */
#endif
    g_test_add_func("/loop-threads/end", test_end);
    return g_test_run();
}
