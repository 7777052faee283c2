/* A link takes the time its rate says, for one copy and for many in a row. */
#include "engine/cpu/memory.h"

#include <glib.h>
#include <string.h>

enum { BYTES = 8 << 20, COPIES = 5 };

static double copy_all(struct link *link, uint8_t *to, const uint8_t *from)
{
    gint64 start = g_get_monotonic_time();
    for (int i = 0; i < COPIES; i++)
        link_copy(link, to, from, BYTES, i > 0);
    return (double)(g_get_monotonic_time() - start) * 1e-6;
}

static void test_rate(void)
{
    struct link link = {.rate = 200e6};
    uint8_t *from = g_malloc(BYTES), *to = g_malloc0(BYTES);
    for (int i = 0; i < BYTES; i++)
        from[i] = (uint8_t)(i * 31);
    link_enter();
    double seconds = copy_all(&link, to, from), due = COPIES * BYTES / link.rate;
    g_assert_cmpmem(from, BYTES, to, BYTES);
    g_assert_cmpuint(link.bytes, ==, (uint64_t)COPIES * BYTES);
    g_assert_cmpuint(link.copies, ==, COPIES);
    /* Never early; how late is the machine's load. */
    g_assert_cmpfloat(seconds, >=, due * 0.999);
    g_test_message("%d copies of %d bytes: %.6f s, due %.6f s", COPIES, BYTES, seconds, due);
    g_free(from);
    g_free(to);
}

static void test_memory_speed(void)
{
    struct link link = {.rate = 0};
    uint8_t *from = g_malloc(BYTES), *to = g_malloc0(BYTES);
    memset(from, 5, BYTES);
    copy_all(&link, to, from);
    g_assert_cmpmem(from, BYTES, to, BYTES);
    g_assert_cmpuint(link.copies, ==, COPIES);
    g_free(from);
    g_free(to);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/link/rate", test_rate);
    g_test_add_func("/link/memory-speed", test_memory_speed);
    return g_test_run();
}
