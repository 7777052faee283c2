/* Every reader over the files that its fuzzer begins with, and over those that fuzzing found. No
 * input crashes it, and it accepts those named good*. */
#include "tests/fuzz/readers.h"

#include <string.h>

static bool try_file(const struct fuzz_reader *reader, const char *path)
{
    g_autofree char *input = NULL;
    gsize bytes;
    g_assert_true(g_file_get_contents(path, &input, &bytes, NULL));
    /* Of exactly this size, for the sanitizers. */
    g_autofree uint8_t *exact = bytes > 0 ? g_memdup2(input, bytes) : NULL;
    return fuzz_try(reader, exact ? exact : (const uint8_t *)"", bytes);
}

static void test_reader(gconstpointer data)
{
    const struct fuzz_reader *reader = data;
    g_autofree char *folder = g_build_filename(TEST_SOURCE_DIR, "corpus", reader->name, NULL);
    g_autoptr(GError) error = NULL;
    GDir *entries = g_dir_open(folder, 0, &error);
    g_assert_no_error(error);
    guint good = 0, files = 0;
    for (const char *name; (name = g_dir_read_name(entries)); files++) {
        g_autofree char *path = g_build_filename(folder, name, NULL);
        bool accepted = try_file(reader, path);
        if (g_str_has_prefix(name, "good") && !accepted)
            g_error("%s is refused", path);
        good += accepted;
    }
    g_dir_close(entries);
    g_test_message("%u files, %u of them good", files, good);
    g_assert_cmpuint(good, >, 0);
}

/* Inputs that are cut at every place are refused or read, but never crash a reader. */
static void test_cut(gconstpointer data)
{
    enum { CUTS = 50 };
    const struct fuzz_reader *reader = data;
    g_autofree char *folder = g_build_filename(TEST_SOURCE_DIR, "corpus", reader->name, NULL);
    GDir *entries = g_dir_open(folder, 0, NULL);
    for (const char *name; (name = g_dir_read_name(entries));) {
        if (!g_str_has_prefix(name, "good"))
            continue;
        g_autofree char *path = g_build_filename(folder, name, NULL), *input = NULL;
        gsize bytes;
        g_assert_true(g_file_get_contents(path, &input, &bytes, NULL));
        for (gsize i = 0; i < CUTS; i++)
            fuzz_try(reader, (const uint8_t *)input, bytes * i / CUTS);
    }
    g_dir_close(entries);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    for (size_t i = 0; i < fuzz_reader_count; i++) {
        g_autofree char *whole = g_strdup_printf("/fuzz/%s", fuzz_readers[i].name);
        g_autofree char *cut = g_strdup_printf("/fuzz/%s/cut", fuzz_readers[i].name);
        g_test_add_data_func(whole, &fuzz_readers[i], test_reader);
        g_test_add_data_func(cut, &fuzz_readers[i], test_cut);
    }
    return g_test_run();
}
