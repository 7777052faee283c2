/* The program: its options, its output and its exit statuses. */
#include "tests/report/sample.h"

#include <glib/gstdio.h>
#include <string.h>
#include <sys/wait.h>

struct outcome {
    int status;
    char *out, *err;
};

static struct outcome run(const char *const *arguments, const char *path)
{
    GPtrArray *command = g_ptr_array_new();
    g_ptr_array_add(command, (void *)PROGRAM_DIR "/pstar-report");
    for (size_t i = 0; arguments[i]; i++)
        g_ptr_array_add(command, (void *)arguments[i]);
    g_ptr_array_add(command, NULL);
    char **environment = g_get_environ();
    if (path)
        environment = g_environ_setenv(environment, "PATH", path, TRUE);
    struct outcome outcome = {0};
    int wait_status;
    GError *error = NULL;
    g_spawn_sync(NULL, (char **)command->pdata, environment, G_SPAWN_DEFAULT, NULL, NULL,
                 &outcome.out, &outcome.err, &wait_status, &error);
    g_assert_no_error(error);
    g_assert_true(WIFEXITED(wait_status));
    outcome.status = WEXITSTATUS(wait_status);
    g_strfreev(environment);
    g_ptr_array_unref(command);
    return outcome;
}

static void clear(struct outcome *outcome)
{
    g_free(outcome->out);
    g_free(outcome->err);
}

/* Expects one line on stderr and nothing on stdout. */
static void check_refused(const char *const *arguments, const char *path, int status,
                          const char *message)
{
    struct outcome outcome = run(arguments, path);
    g_assert_cmpint(outcome.status, ==, status);
    g_assert_cmpstr(outcome.out, ==, "");
    g_assert_true(g_str_has_prefix(outcome.err, "pstar-report: "));
    g_assert_nonnull(strstr(outcome.err, message));
    g_assert_true(strchr(outcome.err, '\n') == outcome.err + strlen(outcome.err) - 1);
    clear(&outcome);
}

static void test_usage(void)
{
    const char *const nothing[] = {NULL}, *const no_files[] = {"-o", "x", NULL};
    const char *const no_folder[] = {"x", NULL}, *const unknown[] = {"--nonsense", NULL};
    check_refused(nothing, NULL, 2, "usage");
    check_refused(no_files, NULL, 2, "usage");
    check_refused(no_folder, NULL, 2, "usage");
    const char *const both[] = {"x", "--text", "--json", NULL};
    check_refused(both, NULL, 2, "usage");
    check_refused(unknown, NULL, 2, "--nonsense");
    const char *const version[] = {"--version", NULL}, *const help[] = {"--help", NULL};
    struct outcome outcome = run(version, NULL);
    g_assert_cmpint(outcome.status, ==, 0);
    g_assert_true(g_str_has_prefix(outcome.out, "pstar-report "));
    clear(&outcome);
    outcome = run(help, NULL);
    g_assert_cmpint(outcome.status, ==, 0);
    g_assert_nonnull(strstr(outcome.out, "FILES..."));
    clear(&outcome);
}

/* Runs a shell command in the root folder and returns its exit status. */
static int run_shell(const char *format, const char *path)
{
    g_autofree char *text = g_strdup_printf(format, path);
    char *command[] = {(char *)"/bin/sh", (char *)"-c", text, NULL};
    int wait_status;
    GError *error = NULL;
    g_spawn_sync("/", command, NULL, G_SPAWN_SEARCH_PATH | G_SPAWN_STDERR_TO_DEV_NULL, NULL, NULL,
                 NULL, NULL, &wait_status, &error);
    g_assert_no_error(error);
    g_assert_true(WIFEXITED(wait_status));
    return WEXITSTATUS(wait_status);
}

/* The script of a figure draws it again, from any folder. */
static void check_redraws(const char *out)
{
    g_autofree char *svg = g_build_filename(out, "figures", "loss.svg", NULL);
    g_autofree char *script = g_build_filename(out, "figures", "loss.gp", NULL);
    g_autofree char *first = sample_read(svg);
    g_assert_cmpint(g_unlink(svg), ==, 0);
    g_assert_cmpint(run_shell("gnuplot '%s'", script), ==, 0);
    g_autofree char *second = sample_read(svg);
    g_assert_cmpstr(first, ==, second);
}

static void test_statuses(void)
{
    struct sample *sample = sample_new("");
    g_autofree char *out = sample_path(sample, "out"), *bad = sample_file(sample, "bad", "bad");
    const char *const ok[] = {sample->run, sample->sweep, "-o", out, NULL};
    const char *const damaged[] = {sample->run, bad, "-o", out, NULL};
    check_refused(damaged, NULL, 2, bad);
    check_refused(ok, sample->folder, 1, "gnuplot is not in PATH");
    g_assert_false(g_file_test(out, G_FILE_TEST_EXISTS));
    g_autofree char *gnuplot = g_find_program_in_path("gnuplot");
    if (gnuplot) {
        struct outcome outcome = run(ok, NULL);
        g_assert_cmpint(outcome.status, ==, 0);
        g_assert_cmpstr(outcome.err, ==, "");
        g_assert_nonnull(strstr(outcome.out, "Best of the sweep"));
        g_assert_true(g_file_test(out, G_FILE_TEST_IS_DIR));
        clear(&outcome);
        check_redraws(out);
        g_assert_cmpint(run_shell(PROGRAM_DIR "/pstar-report '%s' --text >/dev/full", sample->run),
                        ==, 1);
        const char *const text[] = {sample->run, "--text", NULL};
        outcome = run(text, NULL);
        g_assert_cmpint(outcome.status, ==, 0);
        g_assert_nonnull(strstr(outcome.out, "Loss, in nats a token\n"));
        clear(&outcome);
    } else {
        g_test_skip("no gnuplot");
    }
    sample_free(sample);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/program/usage", test_usage);
    g_test_add_func("/report/program/statuses", test_statuses);
    return g_test_run();
}
