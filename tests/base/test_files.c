/* Files are read in pieces, and what cannot be read is an error. */
#include "base/files.h"

#include <glib/gstdio.h>
#include <string.h>

static void add_piece(void *all, const void *piece, size_t bytes)
{
    g_byte_array_append(all, piece, (guint)bytes);
}

/* Pieces follow each other, whatever the length of the file. */
static void test_pieces(void)
{
    static const gsize lengths[] = {0, 1, 1000, 1 << 18, (1 << 18) + 1, 1000000};
    g_autofree char *folder = g_dir_make_tmp("pstar-files-XXXXXX", NULL);
    g_autofree char *path = g_build_filename(folder, "file", NULL);
    g_autofree char *bytes = g_malloc(1000000);
    for (gsize i = 0; i < 1000000; i++)
        bytes[i] = (char)g_test_rand_int();
    for (size_t i = 0; i < G_N_ELEMENTS(lengths); i++) {
        g_autoptr(GByteArray) all = g_byte_array_new();
        g_assert_true(g_file_set_contents(path, bytes, (gssize)lengths[i], NULL));
        g_assert_true(input_file_read(path, add_piece, all, NULL));
        g_assert_cmpmem(all->data, all->len, bytes, lengths[i]);
    }
    g_unlink(path);
    g_rmdir(folder);
}

/* What a disk says about a file is reported with its name. Linux cannot read the beginning of the
 * second one. */
static void test_unreadable(void)
{
    static const char *const paths[] = {"/nowhere", "/proc/self/mem"};
    static const gint codes[] = {G_FILE_ERROR_NOENT, G_FILE_ERROR_IO};
    for (size_t i = 0; i < G_N_ELEMENTS(paths); i++) {
        g_autoptr(GByteArray) all = g_byte_array_new();
        g_autoptr(GError) error = NULL;
        g_assert_false(input_file_read(paths[i], add_piece, all, &error));
        g_assert_error(error, G_FILE_ERROR, codes[i]);
        g_assert_true(g_str_has_prefix(error->message, paths[i]));
        g_assert_cmpuint(all->len, ==, 0);
    }
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/files/pieces", test_pieces);
    g_test_add_func("/files/unreadable", test_unreadable);
    return g_test_run();
}
