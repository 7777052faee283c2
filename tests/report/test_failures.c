/* A failure gives a message that names the cause, and leaves nothing behind. */
#include "report/report.h"
#include "tests/report/drawn.h"

#include <glib/gstdio.h>
#include <string.h>

/* With one bad file among good ones no folder is made, and an existing folder does not change. */
static void test_bad_input_writes_nothing(void)
{
    struct sample *sample = sample_new("");
    g_autofree char *bad = sample_file(sample, "bad.json", "{\"results\": [3]}");
    g_autofree char *out = sample_path(sample, "out");
    unsigned before = sample_count(sample->folder);
    const char *const files[] = {sample->trace, bad, NULL};
    GError *error = NULL;
    g_assert_null(report_write(files, out, REPORT_TEXT, NULL, &error));
    g_assert_error(error, REPORT_ERROR, REPORT_ERROR_INPUT);
    g_clear_error(&error);
    g_assert_cmpuint(sample_count(sample->folder), ==, before);

    g_assert_cmpint(g_mkdir(out, 0755), ==, 0);
    g_assert_null(report_write(files, out, REPORT_TEXT, NULL, &error));
    g_clear_error(&error);
    g_assert_cmpuint(sample_count(out), ==, 0);
    sample_free(sample);
}

/* Runs with a PATH of one folder, in which gnuplot may be a test's script. */
static void write_without(const struct sample *sample, const char *path, const char *message)
{
    g_autofree char *saved = g_strdup(g_getenv("PATH"));
    g_autofree char *out = sample_path(sample, "out");
    const char *const files[] = {sample->run, NULL};
    unsigned before = sample_count(sample->folder);
    GError *error = NULL;
    g_setenv("PATH", path, TRUE);
    g_assert_null(report_write(files, out, REPORT_TEXT, NULL, &error));
    g_setenv("PATH", saved, TRUE);
    g_assert_error(error, REPORT_ERROR, REPORT_ERROR_FAILED);
    g_assert_nonnull(strstr(error->message, message));
    g_error_free(error);
    g_assert_cmpuint(sample_count(sample->folder), ==, before);
}

static void test_without_gnuplot(void)
{
    struct sample *sample = sample_new("");
    g_autofree char *empty = sample_path(sample, "bin");
    g_mkdir(empty, 0755);
    write_without(sample, empty, "gnuplot is not in PATH");
    g_autofree char *failing = sample_file(sample, "bin/gnuplot",
                                           "#!/bin/sh\necho 'no such terminal' >&2\nexit 2\n");
    g_chmod(failing, 0755);
    write_without(sample, empty, "no such terminal");
    g_autofree char *lazy = sample_file(sample, "bin/gnuplot", "#!/bin/sh\nexit 0\n");
    g_chmod(lazy, 0755);
    write_without(sample, empty, "gnuplot did not write bars.svg");
    g_autofree char *cut = sample_file(sample, "bin/gnuplot",
                                       "#!/bin/sh\nfor size in '' -phone; do\n"
                                       "    echo '<svg>' >\"${1%.gp}$size.svg\"\ndone\n");
    g_chmod(cut, 0755);
    write_without(sample, empty, "gnuplot did not write bars.svg");
    sample_free(sample);
}

/* The folder cannot be made because its parent is a file. */
static void test_bad_folder(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_autofree char *out = g_build_filename(sample->run, "out", NULL);
    const char *const files[] = {sample->run, NULL}, *const same[] = {sample->policy_run, NULL};
    GError *error = NULL;
    g_assert_null(report_write(files, out, REPORT_TEXT, NULL, &error));
    g_assert_error(error, REPORT_ERROR, REPORT_ERROR_FAILED);
    g_assert_nonnull(strstr(error->message, out));
    g_clear_error(&error);
    /* DIR is a file. */
    g_autofree char *before = sample_read(sample->run);
    g_assert_null(report_write(same, sample->run, REPORT_TEXT, NULL, &error));
    g_assert_error(error, REPORT_ERROR, REPORT_ERROR_FAILED);
    g_clear_error(&error);
    g_autofree char *after = sample_read(sample->run);
    g_assert_cmpstr(before, ==, after);
    sample_free(sample);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/failures/bad_input_writes_nothing", test_bad_input_writes_nothing);
    g_test_add_func("/report/failures/without_gnuplot", test_without_gnuplot);
    g_test_add_func("/report/failures/bad_folder", test_bad_folder);
    return g_test_run();
}
