/* How much a test does. In ./check it draws a few cases, other ones each time; with -m slow, as
 * `ctest -L long` runs it, it takes many, or all of a table. */
#ifndef PSTAR_TESTS_DRAWN_H
#define PSTAR_TESTS_DRAWN_H

#include <glib.h>
#include <stdbool.h>

static inline int draws(int few, int many)
{
    return g_test_slow() ? many : few;
}

/* Returns whether to take the next of the rows of a table, of which a few are drawn. */
static inline bool draws_row(size_t few, size_t rows)
{
    return g_test_slow() || (size_t)g_test_rand_int_range(0, (gint32)rows) < few;
}

/* Adds a test that is one of `count`, of which a few are drawn. */
static inline void draws_test(size_t few, size_t count, const char *path, void (*test)(void))
{
    if (draws_row(few, count))
        g_test_add_func(path, test);
}

#endif
