/* Reports of a single file, and two reports in the same folder. */
#include "tests/report/drawn.h"

#include <string.h>

/* Each kind of file alone gives its figure, and says for each missing figure what makes it: a
 * command, or how a trace is recorded, from which the command starts. */
static void check_alone(const char *file, const struct sample *sample, const char *plot,
                        unsigned count, const char *command)
{
    const char *const files[] = {file, NULL};
    g_free(drawn_report(sample, files, REPORT_TEXT));
    g_autofree char *page = drawn_page(sample);
    drawn_check_page(page);
    g_assert_nonnull(strstr(page, "id=\"missing\""));
    if (!strstr(page, command))
        g_error("%s alone: the page does not name %s", file, command);
    g_autofree char *folder = sample_path(sample, "out/figures");
    g_assert_cmpuint(sample_count(folder), ==, count);
    if (plot)
        drawn_check(sample, plot);
}

static void test_alone(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_autofree char *plan_trace = g_strdup_printf("pstar-plan %s --device", sample->trace);
    check_alone(sample->trace, sample, "non-model", 2 * 5 + 1, plan_trace);
    check_alone(sample->plan, sample, NULL, 0, "pstar-collect -o run.pstar");
    check_alone(sample->sweep, sample, "heat", 5 * 5, "--log run.jsonl");
    check_alone(sample->timeline, sample, "link", 3 * 5 + 1, "pstar-collect -o run.pstar");
    check_alone(sample->run, sample, "loss", 3 * 5, "pstar-sim starts from a trace");
    sample_free(sample);
}

/* A trace that has only operators shows their times and says nothing about waiting. */
static void test_operators(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    const char *const files[] = {sample->trace, NULL};
    g_autofree char *summary = drawn_report(sample, files, REPORT_TEXT);
    drawn_check(sample, "bars");
    g_autofree char *page = drawn_page(sample);
    g_assert_nonnull(strstr(page, "<h1>The operators of a step take"));
    g_assert_nonnull(strstr(page, "id=\"timeline-box\""));
    g_assert_null(strstr(page, "id=\"busy\""));
    g_assert_null(strstr(summary, "How busy each resource is, by phase"));
    sample_free(sample);
}

/* A second report replaces the first and keeps files that are not figures. */
static void test_twice(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_free(drawn_report(sample, NULL, REPORT_TEXT));
    g_autofree char *first = drawn_page(sample);
    g_free(drawn_report(sample, NULL, REPORT_TEXT));
    g_autofree char *second = drawn_page(sample);
    g_assert_cmpstr(first, ==, second);

    g_autofree char *mine = sample_file(sample, "out/figures/mine.png", "mine");
    g_autofree char *notes = sample_file(sample, "out/notes.txt", "notes");
    const char *const files[] = {sample->run, NULL};
    g_free(drawn_report(sample, files, REPORT_TEXT));
    g_autofree char *folder = sample_path(sample, "out");
    g_autofree char *drawn = sample_path(sample, "out/figures");
    g_assert_cmpuint(sample_count(folder), ==, 3); /* page, figures, notes */
    g_assert_cmpuint(sample_count(drawn), ==, 16); /* bars, the loss and the times, and mine */
    g_assert_true(g_file_test(mine, G_FILE_TEST_EXISTS));
    g_assert_true(g_file_test(notes, G_FILE_TEST_EXISTS));
    sample_free(sample);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/alone/alone", test_alone);
    g_test_add_func("/report/alone/operators", test_operators);
    g_test_add_func("/report/alone/twice", test_twice);
    return g_test_run();
}
