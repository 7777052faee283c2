#include "tests/traces/import_fixture.h"

#include <glib/gstdio.h>
#include <string.h>

void import_set_up(struct import_fixture *f, gconstpointer data)
{
    (void)data;
    f->folder = g_dir_make_tmp("import-XXXXXX", NULL);
    f->from = g_build_filename(f->folder, "recorded", NULL);
    f->to = g_build_filename(f->folder, "run.pstar", NULL);
    f->unknown = g_ptr_array_new_with_free_func(g_free);
}

void import_tear_down(struct import_fixture *f, gconstpointer data)
{
    (void)data;
    g_unlink(f->from);
    g_unlink(f->to);
    g_assert_cmpint(g_rmdir(f->folder), ==, 0);
    g_free(f->folder);
    g_free(f->from);
    g_free(f->to);
    g_ptr_array_unref(f->unknown);
    g_clear_error(&f->error);
}

void import_check_refused(struct import_fixture *f, importer *read, const char *reason)
{
    g_assert_false(read(f->from, f->to, f->unknown, &f->error));
    g_assert_nonnull(strstr(f->error->message, f->from));
    g_assert_nonnull(strstr(f->error->message, reason));
    g_clear_error(&f->error);
    g_assert_false(g_file_test(f->to, G_FILE_TEST_EXISTS));
}
