/* Whole reports: every figure in every form, and a page that needs no other file. */
#include "tests/report/drawn.h"

#include <glib/gstdio.h>
#include <jansson.h>
#include <string.h>

static const char *const figures[] = {"bars",        "busy",  "link",       "memory",
                                      "sensitivity", "sweep", "sweep-time", "heat",
                                      "predicted",   "loss",  "run-time"};

/* The page has the section once, and its contents have a link to it. */
static void check_section(const char *page, const char *name)
{
    g_autofree char *section = g_strdup_printf("<section id=\"%s\">", name);
    g_autofree char *link = g_strdup_printf("<li><a href=\"#%s\">", name);
    const char *contents = strstr(page, "<nav "), *first = strstr(page, section);
    g_assert_nonnull(contents);
    g_assert_nonnull(strstr(contents, link));
    g_assert_true(first && contents < first && !strstr(first + 1, section));
}

static unsigned count(const char *text, const char *part)
{
    unsigned found = 0;
    for (const char *at = text; (at = strstr(at, part)); at++)
        found++;
    return found;
}

/* The rows of a step stand in the page once, with their shares and a field to find names. */
static void check_rows(const char *page)
{
    g_assert_cmpuint(count(page, ">device waits"), ==, 1);
    g_assert_nonnull(strstr(page, "\">device waits 70 %</span>"));
    g_assert_null(strstr(page, "<section id=\"busy\">"));
    g_assert_nonnull(strstr(page, "<a href=\"figures/busy.png\">PNG</a>"));
    g_assert_nonnull(strstr(page, "<input type=\"search\""));
}

static void test_all_figures(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_autofree char *summary = drawn_report(sample, NULL, REPORT_TEXT);
    g_autofree char *page = drawn_page(sample);
    for (size_t i = 0; i < G_N_ELEMENTS(figures); i++) {
        drawn_check(sample, figures[i]);
        check_section(page, strcmp(figures[i], "busy") ? figures[i] : "timeline");
    }
    check_rows(page);
    static const char *const shown[] = {"Best of the sweep",
                                        "Phases",
                                        "Host memory by kind",
                                        "Peaks by memory",
                                        "Traffic per iteration",
                                        "Configuration",
                                        "Predicted beside measured: policy opt, 1 KiB chunks"};
    for (size_t i = 0; i < G_N_ELEMENTS(shown); i++) {
        g_assert_nonnull(strstr(page, shown[i]));
        g_assert_nonnull(strstr(summary, shown[i]));
    }
    g_assert_nonnull(strstr(page, "20 of 20 counts and peaks are equal"));
    g_assert_nonnull(strstr(page, "below the text&#39;s unigram entropy (3) since step 2"));
    g_assert_null(strstr(page, "id=\"missing\""));
    sample_free(sample);
}

/* Host memory is drawn if it changes over the step, and memory over the time of the step. */
static void test_host(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    struct trace *trace = sample_trace("");
    struct plan *plan = sample_plan(trace, SAMPLE_LITTLE_BYTES);
    GError *error = NULL;
    plan->predicted.iteration_seconds = 0.040;
    plan_write(plan, sample->plan, &error);
    g_assert_no_error(error);
    const char *const files[] = {sample->trace, sample->plan, NULL};
    g_free(drawn_report(sample, files, REPORT_TEXT));
    drawn_check(sample, "host");
    g_autofree char *path = drawn_path(sample, "memory", ".svg"), *svg = sample_read(path);
    g_assert_nonnull(strstr(svg, "<text>time in the step, ms</text>"));
    plan_free(plan);
    trace_free(trace);
    sample_free(sample);
}

static void test_page(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_free(drawn_report(sample, NULL, REPORT_TEXT));
    g_autofree char *page = drawn_page(sample);
    drawn_check_page(page);
    /* The timeline stands for the picture of the same rows. */
    g_assert_cmpuint(count(page, "<svg "), ==, 2 * (G_N_ELEMENTS(figures) - 1) + 1);
    g_assert_cmpuint(count(page, "role=\"img\" aria-label=\""), ==, count(page, "<svg "));
    g_assert_nonnull(strstr(page, "prefers-color-scheme: dark"));
    g_assert_nonnull(strstr(page, "width=device-width"));
    /* Every link leads to a file of the report or to a part of the page. */
    for (const char *at = page; (at = strstr(at, "href=\"")); at++) {
        const char *start = at + strlen("href=\"");
        g_autofree char *target = g_strndup(start, (gsize)(strchr(start, '"') - start));
        g_autofree char *part = g_strdup_printf("id=\"%s\"", target + 1);
        if (*target == '#') {
            g_assert_nonnull(strstr(page, part));
            continue;
        }
        g_autofree char *file = g_build_filename("out", target, NULL);
        g_autofree char *path = sample_path(sample, file);
        g_assert_true(g_file_test(path, G_FILE_TEST_IS_REGULAR));
    }
    sample_free(sample);
}

/* Hostile names are shown as text. */
static void test_hostile_names(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new(SAMPLE_EVIL);
    g_autofree char *twin = sample_path(sample, "a'b<i>\"`touch pwned`$(touch pwned).jsonl");
    g_rename(sample->policy_run, twin);
    const char *const files[] = {sample->trace,    sample->plan, sample->sweep,
                                 sample->timeline, twin,         NULL};
    g_autofree char *summary = drawn_report(sample, files, REPORT_TEXT);
    g_autofree char *page = drawn_page(sample);
    drawn_check_page(page);
    g_assert_nonnull(strstr(page, "&lt;script&gt;alert(&#39;1&#39;)"));
    g_assert_null(strchr(page, '\x1b'));
    g_assert_null(strchr(summary, '\x1b'));
    g_assert_null(strstr(page, "<i>"));
    for (size_t i = 0; i < G_N_ELEMENTS(figures); i++)
        drawn_check(sample, figures[i]);
    g_autofree char *pwned = sample_path(sample, "out/figures/pwned");
    g_assert_false(g_file_test(pwned, G_FILE_TEST_EXISTS));
    sample_free(sample);
}

static char *write_renamed(const struct sample *sample, const char *path, const char *name)
{
    g_autofree char *text = sample_read(path);
    return sample_file(sample, name, text);
}

/* Names of files are shown as text, in the page and by gnuplot. */
static void test_hostile_files(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_autofree char *markup = write_renamed(sample, sample->timeline,
                                            "<form action=x><button>Click<h1>");
    g_autofree char *attribute = write_renamed(sample, sample->timeline, "\"><img src=x>.json");
    g_autofree char *quotes = write_renamed(sample, sample->timeline, "'tl''x'.json");
    g_autofree char *run = write_renamed(sample, sample->run, "''run''.jsonl");
    g_autofree char *text = sample_read(sample->sweep);
    GString *sweep = g_string_new(text);
    g_string_replace(sweep, "\"fifo\"", "\"'mine'\"", 0);
    g_autofree char *mine = sample_file(sample, "mine.json", sweep->str);
    g_string_free(sweep, TRUE);
    const char *const files[] = {sample->trace, markup, attribute, quotes, run, mine, NULL};
    g_free(drawn_report(sample, files, REPORT_TEXT));
    g_autofree char *page = drawn_page(sample), *path = drawn_path(sample, "sweep", ".svg");
    g_autofree char *svg = sample_read(path);
    static const char *const absent[] = {"<form", "<img", "<button>Click"};
    for (size_t i = 0; i < G_N_ELEMENTS(absent); i++)
        g_assert_null(strstr(page, absent[i]));
    g_assert_nonnull(strstr(page, "&lt;form action=x&gt;"));
    g_assert_nonnull(strstr(svg, "'mine'"));
    sample_free(sample);
}

/* Each script draws the same picture again. */
static void test_redraw(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_free(drawn_report(sample, NULL, REPORT_TEXT));
    g_autofree char *folder = sample_path(sample, "out/figures");
    for (size_t i = 0; i < G_N_ELEMENTS(figures); i++) {
        g_autofree char *path = drawn_path(sample, figures[i], ".svg");
        g_autofree char *before = sample_read(path);
        g_unlink(path);
        g_autofree char *script = g_strconcat(figures[i], ".gp", NULL);
        char *command[] = {(char *)"gnuplot", script, NULL};
        int status;
        GError *error = NULL;
        g_spawn_sync(folder, command, NULL, G_SPAWN_SEARCH_PATH, NULL, NULL, NULL, NULL, &status,
                     &error);
        g_assert_no_error(error);
        g_assert_true(g_spawn_check_wait_status(status, NULL));
        g_autofree char *after = sample_read(path);
        g_assert_cmpstr(before, ==, after);
    }
    sample_free(sample);
}

static void test_json(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_autofree char *summary = drawn_report(sample, NULL, REPORT_JSON);
    json_t *root = json_loads(summary, 0, NULL);
    g_assert_nonnull(root);
    g_assert_cmpuint(json_array_size(json_object_get(root, "figures")), ==, G_N_ELEMENTS(figures));
    g_assert_cmpuint(json_array_size(json_object_get(root, "missing")), ==, 0);
    const json_t *memory = json_array_get(json_object_get(root, "memory"), 0);
    struct trace *trace = sample_trace("");
    struct plan *plan = sample_plan(trace, SAMPLE_DEVICE_BYTES);
    g_assert_cmpuint(
        (uint64_t)json_integer_value(json_object_get(memory, "peak_live_device_bytes")), ==,
        plan->predicted.peak_live_device_bytes);
    const json_t *predictions = json_object_get(root, "predicted_beside_measured");
    g_assert_cmpuint(json_array_size(predictions), ==, 2);
    const json_t *measured = json_object_get(json_array_get(predictions, 0), "measured");
    g_assert_cmpuint((uint64_t)json_integer_value(json_object_get(measured, "h2d_bytes")), ==,
                     plan->predicted.h2d_bytes);
    json_decref(root);
    plan_free(plan);
    trace_free(trace);
    sample_free(sample);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/report/all_figures", test_all_figures);
    g_test_add_func("/report/report/host", test_host);
    g_test_add_func("/report/report/page", test_page);
    g_test_add_func("/report/report/hostile_names", test_hostile_names);
    g_test_add_func("/report/report/hostile_files", test_hostile_files);
    g_test_add_func("/report/report/redraw", test_redraw);
    g_test_add_func("/report/report/json", test_json);
    return g_test_run();
}
