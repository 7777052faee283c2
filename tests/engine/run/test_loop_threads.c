/* The threads of a thread's loops stay from one loop to the next, end when they are asked to, and
 * come again. */
#include "engine/cpu/context.h"
#include "engine/cpu/kernels.h"
#include "engine/host/cores.h"

#include <glib.h>
#include <string.h>

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

static gint by_name(gconstpointer left, gconstpointer right)
{
    return strcmp(*(char *const *)left, *(char *const *)right);
}

/* Returns the numbers of the process' threads. */
static char *list_threads(void)
{
    g_autoptr(GDir) tasks = g_dir_open("/proc/self/task", 0, NULL);
    g_autoptr(GPtrArray) names = g_ptr_array_new_with_free_func(g_free);
    const char *name;
    while ((name = g_dir_read_name(tasks)))
        g_ptr_array_add(names, g_strdup(name));
    g_ptr_array_sort(names, by_name);
    g_ptr_array_add(names, NULL);
    return g_strjoinv(" ", (char **)names->pdata);
}

/* GCC's OpenMP ends the threads that a loop leaves out. */
static void test_stay(void)
{
    enum { ITEMS = 1000, THREADS = 4 };
    uint8_t counts[ITEMS] = {0};
    struct cpu_context *cpu = cpu_context_start(THREADS);
    cpu_parallel(cpu, count_elements, counts, ITEMS, 1);
    g_autofree char *before = list_threads();
    for (uint64_t items = 0; items <= THREADS; items++)
        cpu_parallel(cpu, count_elements, counts, items, 1);
    cpu_parallel(cpu, count_elements, counts, ITEMS, 1);
    g_autofree char *after = list_threads();
    g_assert_cmpstr(before, ==, after);
    for (int i = 0; i < ITEMS; i++)
        g_assert_cmpuint(counts[i], ==, 2 + (i < THREADS ? THREADS - i : 0));
    cpu_context_free(cpu);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
#ifdef __clang__
    return 77; /* LLVM's OpenMP keeps them */
#endif
    g_test_add_func("/loop-threads/end", test_end); /* first: it counts threads, and has none yet */
    g_test_add_func("/loop-threads/stay", test_stay);
    return g_test_run();
}
