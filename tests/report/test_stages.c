/* The stages of a pipeline in a sweep: a row for each, with its passes where they are. */
#include "report/report.h"
#include "tests/report/sample.h"

#include <string.h>

/* A sweep of two stages with two micro-batches; %s is the end of the first pass. */
static const char sweep[] =
    "{\"trace\": \"t.pstar\", \"model\": \"m\", \"precision\": \"fp32\", \"objective\": \"time\", "
    "\"h2d_rate\": 1e9, \"d2h_rate\": 1e9, \"link\": null, \"results\": [{\"chunk_bytes\": 1024, "
    "\"policy\": \"opt\", \"device_memory_bytes\": 4096, \"look_ahead\": 0, \"fits\": true, "
    "\"h2d_bytes\": 0, \"d2h_bytes\": 0, \"h2d_copies\": 0, \"d2h_copies\": 0, \"evictions\": 0, "
    "\"moves\": 0, \"moved_bytes\": 0, \"peak_device_bytes\": 1, \"peak_live_device_bytes\": 1, "
    "\"peak_host_bytes\": 1, \"stall_seconds\": 0.0, \"iteration_seconds\": 10.0, \"stages\": ["
    "{\"passes\": [[\"forward\", 0, 0.0, %s], [\"forward\", 1, 1.0, 2.0], "
    "[\"backward\", 0, 4.0, 6.0], [\"backward\", 1, 7.0, 9.0], [\"update\", 0, 9.0, 10.0]]}, "
    "{\"passes\": [[\"forward\", 0, 1.0, 2.0], [\"backward\", 0, 2.0, 4.0], "
    "[\"forward\", 1, 4.0, 5.0], [\"backward\", 1, 5.0, 7.0], [\"update\", 0, 9.0, 10.0]]}]}]}";

/* Returns the part of a text between two bars behind `name`. Free with g_free. */
static char *row_of(const char *text, const char *name)
{
    const char *begin = strstr(text, name);
    g_assert_nonnull(begin);
    g_auto(GStrv) parts = g_strsplit(begin, "|", 3);
    g_assert_cmpuint(g_strv_length(parts), ==, 3);
    return g_strdup(parts[1]);
}

/* Asserts that the row has the letter in the second of the step. */
static void expect_letter(const char *row, int second, char letter)
{
    size_t at = (strlen(row) * (2 * (size_t)second + 1)) / 20;
    g_assert_cmpint(row[at], ==, letter);
}

static void test_rows(void)
{
    struct sample *sample = sample_new("");
    const char *const expected[] = {"ff..bb.bbu", ".fbbfbb..u"};
    GError *error = NULL;
    g_autofree char *json = g_strdup_printf(sweep, "1.0");
    g_autofree char *path = sample_file(sample, "sweep.json", json);
    const char *const files[] = {path, NULL};
    g_autofree char *text = report_text(files, NULL, &error);
    g_assert_no_error(error);
    g_assert_nonnull(strstr(text, "What each stage of the pipeline does when"));
    g_assert_nonnull(
        strstr(text, ". Letters are passes of micro-batches. At a dot, the stage waits "));
    g_assert_null(strstr(text, "A box is"));
    for (int s = 0; s < 2; s++) {
        g_autofree char *name = g_strdup_printf(" stage %d ", s), *row = row_of(text, name);
        for (int second = 0; second < 10; second++)
            expect_letter(row, second, expected[s][second]);
    }
    sample_free(sample);
}

static void test_bad_pass(void)
{
    struct sample *sample = sample_new("");
    g_autoptr(GError) error = NULL;
    g_autofree char *json = g_strdup_printf(sweep, "-1.0");
    g_autofree char *path = sample_file(sample, "sweep.json", json);
    const char *const files[] = {path, NULL};
    g_assert_null(report_text(files, NULL, &error));
    g_assert_error(error, REPORT_ERROR, REPORT_ERROR_INPUT);
    g_assert_nonnull(strstr(error->message, "results[0].stages[0].passes[0]"));
    sample_free(sample);
}

/* What pstar-sim and pstar-plan take for a pipeline no file states, so no command is printed that
 * would simulate or plan something else, or be refused. */
static void test_no_commands(void)
{
    struct sample *sample = sample_new("");
    GError *error = NULL;
    g_autofree char *json = g_strdup_printf(sweep, "1.0");
    g_autofree char *path = sample_file(sample, "sweep.json", json);
    const char *const files[] = {sample->trace, path, NULL};
    g_autofree char *text = report_text(files, NULL, &error);
    g_assert_no_error(error);
    g_assert_null(strstr(text, "pstar-plan "));
    g_assert_null(strstr(text, "pstar-sim /"));
    g_assert_nonnull(strstr(text, "the commands for the stages of a pipeline"));
    sample_free(sample);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/stages/rows", test_rows);
    g_test_add_func("/report/stages/commands", test_no_commands);
    g_test_add_func("/report/stages/bad", test_bad_pass);
    return g_test_run();
}
