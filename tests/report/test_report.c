/* Whole reports: every figure in every form, a page that needs nothing but itself, and nothing left
 * behind where something is wrong. */
#include "report/report.h"
#include "tests/report/sample.h"

#include <glib/gstdio.h>
#include <jansson.h>
#include <string.h>

static bool has_gnuplot(void)
{
    g_autofree char *path = g_find_program_in_path("gnuplot");
    if (!path)
        g_test_skip("no gnuplot");
    return path != NULL;
}

/* Writes the report of `files` (NULL: all of the sample) into its folder "out". */
static char *write_report(const struct sample *sample, const char *const *files,
                          enum report_format format)
{
    const char *const all[] = {sample->trace, sample->plan,       sample->sweep,
                               sample->run,   sample->policy_run, NULL};
    g_autofree char *folder = sample_path(sample, "out");
    GError *error = NULL;
    char *summary = report_write(files ? files : all, folder, format, &error);
    g_assert_no_error(error);
    g_assert_nonnull(summary);
    return summary;
}

static char *read_page(const struct sample *sample)
{
    g_autofree char *path = sample_path(sample, "out/index.html");
    return sample_read(path);
}

static char *figure_path(const struct sample *sample, const char *name, const char *suffix)
{
    g_autofree char *file = g_strconcat("out/figures/", name, suffix, NULL);
    return sample_path(sample, file);
}

/* Eight magic bytes, then a chunk IHDR of 13 bytes that begins with the size, big endian. */
static void check_png(const struct sample *sample, const char *name)
{
    g_autofree char *path = figure_path(sample, name, ".png");
    char *bytes;
    gsize length;
    g_assert_true(g_file_get_contents(path, &bytes, &length, NULL));
    g_assert_cmpuint(length, >, 1000);
    g_assert_cmpmem(bytes, 16, "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16);
    const guint8 *size = (const guint8 *)bytes + 16;
    g_assert_cmpuint(size[2] << 8 | size[3], ==, 1920);
    g_assert_cmpuint(size[6] << 8 | size[7], >, 400);
    g_free(bytes);
}

/* Well-formed XML with something drawn. */
static void check_svg(const struct sample *sample, const char *name, const char *suffix)
{
    g_autofree char *path = figure_path(sample, name, suffix);
    g_autofree char *text = sample_read(path);
    GMarkupParser nothing = {0};
    GMarkupParseContext *context = g_markup_parse_context_new(&nothing, 0, NULL, NULL);
    GError *error = NULL;
    g_markup_parse_context_parse(context, text, -1, &error);
    g_assert_no_error(error);
    g_markup_parse_context_end_parse(context, &error);
    g_assert_no_error(error);
    g_markup_parse_context_free(context);
    g_assert_nonnull(strstr(text, "<svg"));
    g_assert_true(strstr(text, "<path") || strstr(text, "<polygon"));
}

static void check_figure(const struct sample *sample, const char *name)
{
    check_png(sample, name);
    check_svg(sample, name, ".svg");
    check_svg(sample, name, "-phone.svg");
    g_autofree char *script = figure_path(sample, name, ".gp");
    g_autofree char *data = figure_path(sample, name, ".dat");
    g_autofree char *script_text = sample_read(script), *data_text = sample_read(data);
    g_assert_cmpuint(strlen(script_text), >, 100);
    g_assert_cmpuint(strlen(data_text), >, 20);
}

static const char *const figures[] = {"memory", "sweep", "predicted", "loss"};

static void test_all_figures(void)
{
    if (!has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_autofree char *summary = write_report(sample, NULL, REPORT_TEXT);
    g_autofree char *page = read_page(sample);
    for (size_t i = 0; i < G_N_ELEMENTS(figures); i++) {
        check_figure(sample, figures[i]);
        g_autofree char *section = g_strdup_printf("<section id=\"%s\">", figures[i]);
        g_assert_nonnull(strstr(page, section));
    }
    static const char *const shown[] = {
        "Best of the sweep", "Phases",
        "Peaks by memory",   "Traffic an iteration",
        "Configuration",     "Predicted beside measured: policy opt, 1 KiB chunks"};
    for (size_t i = 0; i < G_N_ELEMENTS(shown); i++) {
        g_assert_nonnull(strstr(page, shown[i]));
        g_assert_nonnull(strstr(summary, shown[i]));
    }
    g_assert_nonnull(strstr(page, "20 of 20 counts and peaks are equal"));
    g_assert_nonnull(strstr(page, "below the text&#39;s unigram entropy (3) since step 2"));
    g_assert_null(strstr(page, "id=\"missing\""));
    sample_free(sample);
}

/* What a browser would fetch by itself. */
static void check_self_contained(const char *page)
{
    static const char *const absent[] = {"http:",   "https:",  "src=",    "<script", "<link",
                                         "@import", "<iframe", "<object", "<embed",  "<base",
                                         "url(//",  "xlink:",  "onload",  "file:"};
    for (size_t i = 0; i < G_N_ELEMENTS(absent); i++)
        if (strstr(page, absent[i]))
            g_error("the page has \"%s\"", absent[i]);
}

static void test_page(void)
{
    if (!has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_free(write_report(sample, NULL, REPORT_TEXT));
    g_autofree char *page = read_page(sample);
    check_self_contained(page);
    unsigned pictures = 0, alternatives = 0;
    for (const char *at = page; (at = strstr(at, "<svg ")); at++)
        pictures++;
    for (const char *at = page; (at = strstr(at, "role=\"img\" aria-label=\"")); at++)
        alternatives++;
    g_assert_cmpuint(pictures, ==, 2 * G_N_ELEMENTS(figures));
    g_assert_cmpuint(alternatives, ==, pictures);
    g_assert_nonnull(strstr(page, "prefers-color-scheme: dark"));
    g_assert_nonnull(strstr(page, "width=device-width"));
    /* Every link leads to a file of the report. */
    for (const char *at = page; (at = strstr(at, "href=\"")); at++) {
        const char *start = at + strlen("href=\"");
        g_autofree char *target = g_strndup(start, (gsize)(strchr(start, '"') - start));
        g_autofree char *file = g_build_filename("out", target, NULL);
        g_autofree char *path = sample_path(sample, file);
        g_assert_true(g_file_test(path, G_FILE_TEST_IS_REGULAR));
    }
    sample_free(sample);
}

/* Names that anyone may have chosen stay text. */
static void test_hostile_names(void)
{
    if (!has_gnuplot())
        return;
    struct sample *sample = sample_new(SAMPLE_EVIL);
    g_autofree char *twin = sample_path(sample, "a'b<i>\"`touch pwned`$(touch pwned).jsonl");
    g_rename(sample->policy_run, twin);
    const char *const files[] = {sample->trace, sample->plan, sample->sweep, twin, NULL};
    g_autofree char *summary = write_report(sample, files, REPORT_TEXT);
    g_autofree char *page = read_page(sample);
    check_self_contained(page);
    g_assert_nonnull(strstr(page, "&lt;script&gt;alert(&#39;1&#39;)"));
    g_assert_null(strchr(page, '\x1b'));
    g_assert_null(strchr(summary, '\x1b'));
    g_assert_null(strstr(page, "<i>"));
    for (size_t i = 0; i < G_N_ELEMENTS(figures); i++)
        check_figure(sample, figures[i]);
    g_autofree char *pwned = sample_path(sample, "out/figures/pwned");
    g_assert_false(g_file_test(pwned, G_FILE_TEST_EXISTS));
    sample_free(sample);
}

/* Each kind alone: its figure, and for the others the command that makes what is missing. */
static void check_alone(const char *file, const struct sample *sample, const char *figure,
                        const char *command)
{
    const char *const files[] = {file, NULL};
    g_free(write_report(sample, files, REPORT_TEXT));
    g_autofree char *page = read_page(sample);
    check_self_contained(page);
    g_assert_nonnull(strstr(page, "id=\"missing\""));
    if (!strstr(page, command))
        g_error("%s alone: the page does not name %s", file, command);
    g_autofree char *folder = sample_path(sample, "out/figures");
    g_assert_cmpuint(sample_count(folder), ==, figure ? 5 : 0);
    if (figure)
        check_figure(sample, figure);
}

static void test_alone(void)
{
    if (!has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_autofree char *plan_trace = g_strdup_printf("pstar-plan %s --device", sample->trace);
    check_alone(sample->trace, sample, NULL, plan_trace);
    check_alone(sample->plan, sample, NULL, "pstar-collect -o run.pstar");
    check_alone(sample->sweep, sample, "sweep", "--log run.jsonl");
    check_alone(sample->run, sample, "loss", "pstar-sim run.pstar");
    sample_free(sample);
}

/* A second report takes the place of the first, and leaves what is not a figure of its own. */
static void test_twice(void)
{
    if (!has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_free(write_report(sample, NULL, REPORT_TEXT));
    g_autofree char *first = read_page(sample);
    g_free(write_report(sample, NULL, REPORT_TEXT));
    g_autofree char *second = read_page(sample);
    g_assert_cmpstr(first, ==, second);

    g_autofree char *mine = sample_file(sample, "out/figures/mine.png", "mine");
    g_autofree char *notes = sample_file(sample, "out/notes.txt", "notes");
    const char *const files[] = {sample->run, NULL};
    g_free(write_report(sample, files, REPORT_TEXT));
    g_autofree char *folder = sample_path(sample, "out");
    g_autofree char *drawn = sample_path(sample, "out/figures");
    g_assert_cmpuint(sample_count(folder), ==, 3); /* page, figures, notes */
    g_assert_cmpuint(sample_count(drawn), ==, 6);  /* loss in five files, mine */
    g_assert_true(g_file_test(mine, G_FILE_TEST_EXISTS));
    g_assert_true(g_file_test(notes, G_FILE_TEST_EXISTS));
    sample_free(sample);
}

/* The scripts draw the same picture again by themselves. */
static void test_redraw(void)
{
    if (!has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_free(write_report(sample, NULL, REPORT_TEXT));
    g_autofree char *folder = sample_path(sample, "out/figures");
    for (size_t i = 0; i < G_N_ELEMENTS(figures); i++) {
        g_autofree char *path = figure_path(sample, figures[i], ".svg");
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
    if (!has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_autofree char *summary = write_report(sample, NULL, REPORT_JSON);
    json_t *root = json_loads(summary, 0, NULL);
    g_assert_nonnull(root);
    g_assert_cmpuint(json_array_size(json_object_get(root, "figures")), ==, 4);
    g_assert_cmpuint(json_array_size(json_object_get(root, "missing")), ==, 0);
    const json_t *memory = json_array_get(json_object_get(root, "memory"), 0);
    struct trace *trace = sample_trace("");
    struct plan *plan = sample_plan(trace, SAMPLE_DEVICE_BYTES);
    g_assert_cmpuint(
        (uint64_t)json_integer_value(json_object_get(memory, "peak_live_device_bytes")), ==,
        plan->predicted.peak_live_device_bytes);
    const json_t *pairs = json_object_get(root, "predicted_beside_measured");
    g_assert_cmpuint(json_array_size(pairs), ==, 2);
    const json_t *measured = json_object_get(json_array_get(pairs, 0), "measured");
    g_assert_cmpuint((uint64_t)json_integer_value(json_object_get(measured, "h2d_bytes")), ==,
                     plan->predicted.h2d_bytes);
    json_decref(root);
    plan_free(plan);
    trace_free(trace);
    sample_free(sample);
}

/* Files that hold little, or nothing that can be drawn to scale. */
static void test_extremes(void)
{
    if (!has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    static const char *const logs[] = {
        "{\"step\": 7, \"loss\": 3.5, \"eval_loss\": 3.4}\n",
        "{\"step\": 0, \"loss\": null}\n{\"step\": 1, \"loss\": null}\n",
        "{\"step\": 1, \"loss\": 1e300}\n{\"step\": 2, \"loss\": -1e300}\n",
    };
    for (size_t i = 0; i < G_N_ELEMENTS(logs); i++) {
        g_autofree char *log = sample_file(sample, "extreme", logs[i]);
        const char *const files[] = {log, NULL};
        g_free(write_report(sample, files, REPORT_TEXT));
        check_figure(sample, "loss");
    }
    g_autofree char *misfit = sample_file(
        sample, "misfit",
        "{\"trace\": null, \"results\": [{\"chunk_bytes\": 1024, \"policy\": \"opt\", "
        "\"strategy\": null, \"device_memory_bytes\": 10, \"look_ahead\": 0, \"fits\": false}]}");
    const char *const files[] = {misfit, misfit, NULL};
    g_free(write_report(sample, files, REPORT_TEXT));
    check_figure(sample, "sweep");
    check_figure(sample, "sweep-2");
    g_autofree char *page = read_page(sample);
    g_assert_nonnull(strstr(page, "Nothing fits."));
    sample_free(sample);
}

/* Many budgets, policies and sizes, and a long run. */
static void test_many(void)
{
    if (!has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    GString *sweep = g_string_new("{\"results\": [");
    for (unsigned i = 0; i < 7 * 9 * 20; i++)
        g_string_append_printf(sweep,
                               "%s{\"chunk_bytes\": %u, \"policy\": \"p%u\", "
                               "\"device_memory_bytes\": %u, \"look_ahead\": 0, \"fits\": false}",
                               i ? ", " : "", 1024 * (1 + i % 20), i / 20 % 9,
                               100000 * (1 + i / 180));
    g_string_append(sweep, "]}");
    GString *log = g_string_new(NULL);
    for (unsigned step = 1; step <= 20000; step++)
        g_string_append_printf(log, "{\"step\": %u, \"loss\": %u.5}\n", step, step % 7);
    g_autofree char *sweep_path = sample_file(sample, "many", sweep->str);
    g_autofree char *log_path = sample_file(sample, "long", log->str);
    const char *const files[] = {sweep_path, log_path, NULL};
    g_free(write_report(sample, files, REPORT_TEXT));
    check_figure(sample, "sweep");
    check_figure(sample, "loss");
    g_autofree char *page = read_page(sample);
    g_assert_cmpuint(strlen(page), <, 2000000);
    g_string_free(sweep, TRUE);
    g_string_free(log, TRUE);
    sample_free(sample);
}

/* A bad file among good ones: no folder, and nothing in an existing one changes. */
static void test_bad_input_writes_nothing(void)
{
    struct sample *sample = sample_new("");
    g_autofree char *bad = sample_file(sample, "bad.json", "{\"results\": [3]}");
    g_autofree char *out = sample_path(sample, "out");
    unsigned before = sample_count(sample->folder);
    const char *const files[] = {sample->trace, bad, NULL};
    GError *error = NULL;
    g_assert_null(report_write(files, out, REPORT_TEXT, &error));
    g_assert_error(error, REPORT_ERROR, REPORT_ERROR_INPUT);
    g_clear_error(&error);
    g_assert_cmpuint(sample_count(sample->folder), ==, before);

    g_assert_cmpint(g_mkdir(out, 0755), ==, 0);
    g_assert_null(report_write(files, out, REPORT_TEXT, &error));
    g_clear_error(&error);
    g_assert_cmpuint(sample_count(out), ==, 0);
    sample_free(sample);
}

/* Runs with a PATH of one folder, in which gnuplot may be a script of ours. */
static void write_without(const struct sample *sample, const char *path, const char *message)
{
    g_autofree char *saved = g_strdup(g_getenv("PATH"));
    g_autofree char *out = sample_path(sample, "out");
    const char *const files[] = {sample->run, NULL};
    unsigned before = sample_count(sample->folder);
    GError *error = NULL;
    g_setenv("PATH", path, TRUE);
    g_assert_null(report_write(files, out, REPORT_TEXT, &error));
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
    write_without(sample, empty, "gnuplot wrote no loss.svg");
    sample_free(sample);
}

/* A folder that cannot be: its parent is a file. */
static void test_bad_folder(void)
{
    if (!has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_autofree char *out = g_build_filename(sample->run, "out", NULL);
    const char *const files[] = {sample->run, NULL}, *const same[] = {sample->policy_run, NULL};
    GError *error = NULL;
    g_assert_null(report_write(files, out, REPORT_TEXT, &error));
    g_assert_error(error, REPORT_ERROR, REPORT_ERROR_FAILED);
    g_assert_nonnull(strstr(error->message, out));
    g_clear_error(&error);
    /* DIR is a file. */
    g_autofree char *before = sample_read(sample->run);
    g_assert_null(report_write(same, sample->run, REPORT_TEXT, &error));
    g_assert_error(error, REPORT_ERROR, REPORT_ERROR_FAILED);
    g_clear_error(&error);
    g_autofree char *after = sample_read(sample->run);
    g_assert_cmpstr(before, ==, after);
    sample_free(sample);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/report/all_figures", test_all_figures);
    g_test_add_func("/report/report/page", test_page);
    g_test_add_func("/report/report/hostile_names", test_hostile_names);
    g_test_add_func("/report/report/alone", test_alone);
    g_test_add_func("/report/report/twice", test_twice);
    g_test_add_func("/report/report/redraw", test_redraw);
    g_test_add_func("/report/report/json", test_json);
    g_test_add_func("/report/report/extremes", test_extremes);
    g_test_add_func("/report/report/many", test_many);
    g_test_add_func("/report/report/bad_input_writes_nothing", test_bad_input_writes_nothing);
    g_test_add_func("/report/report/without_gnuplot", test_without_gnuplot);
    g_test_add_func("/report/report/bad_folder", test_bad_folder);
    return g_test_run();
}
