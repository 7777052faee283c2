#include "tests/traces/replace_file.h"

#include <glib.h>
#include <stdio.h>

void replace_file(const char *path, const char *contents, size_t length)
{
    FILE *file = fopen(path, "wb");
    g_assert_nonnull(file);
    size_t written = fwrite(contents, 1, length, file);
    int closed = fclose(file);
    g_assert_cmpuint(written, ==, length);
    g_assert_cmpint(closed, ==, 0);
}
