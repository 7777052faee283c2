/* Printed output: figures as characters, and two steps side by side. */
#include "report/analysis.h"
#include "report/contents.h"
#include "report/plot.h"
#include "tests/report/drawn.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

/* A number stands alone at the end of each bar: nothing is drawn over it. */
static void check_numbers(const char *text)
{
    g_autoptr(GRegex) bar = g_regex_new("^ (f*b*u*c*>*<*h*n*\\.*) ([0-9.]+ (s|ms|µs))$",
                                        G_REGEX_MULTILINE, 0, NULL);
    g_autoptr(GMatchInfo) match = NULL;
    guint bars = 0;
    for (g_regex_match(bar, text, 0, &match); g_match_info_matches(match);
         g_match_info_next(match, NULL))
        bars++;
    g_assert_cmpuint(bars, ==, 4); /* the run, the timeline, the policies opt and fifo */
}

static void test_text(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new(SAMPLE_EVIL);
    const char *const files[] = {sample->trace,    sample->plan, sample->sweep,
                                 sample->timeline, sample->run,  NULL};
    unsigned before = sample_count(sample->folder);
    GError *error = NULL;
    g_autofree char *text = report_text(files, NULL, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(sample_count(sample->folder), ==, before);
    static const char *const shown[] = {
        "Where the time of a step goes\n",
        "How busy each resource is: simulated (timeline.json)\n",
        "What the link carries, and its peak: simulated (timeline.json)\n",
        "Device memory over one iteration\n",
        "Traffic by chunk size and policy, in ",
        "Predicted beside measured\n",
        "Loss, in nats a token\n",
        "How busy each resource is, by phase: ",
        "Best of the sweep",
        ". The device waits for 5.00 ms",
    };
    const char *at = text;
    for (size_t i = 0; i < G_N_ELEMENTS(shown); i++) {
        at = strstr(at, shown[i]);
        if (!at)
            g_error("no \"%s\", or not in order, in %s", shown[i], text);
    }
    g_assert_nonnull(strstr(text, " device waits      70 % |"));
    g_assert_nonnull(strstr(text, " H2D of 1.02 MB/s       |   "));
    g_assert_nonnull(strstr(text, "|██████████"));                       /* an area */
    g_assert_nonnull(strstr(text, "  ▒ non-model data  = budget, "));    /* its key */
    g_assert_null(strstr(text, "XXXX"));                                 /* of gnuplot */
    g_assert_nonnull(strstr(text, "\n policy opt, 1 KiB chunks\n ccc")); /* a bar */
    g_assert_nonnull(strstr(text, "c......... 16.0 ms\n"));              /* and its number */
    check_numbers(text);
    g_assert_null(strchr(text, '\x1b'));
    g_assert_null(strchr(text, '\f'));
    sample_free(sample);
}

/* No caption speaks of what only pictures have. */
static void check_captions(const char *text, const char *const *captions)
{
    g_autoptr(GRegex) picture = g_regex_new("\\b(blue|red|gr[ae]y|colou?r(ed)?|dark(er)?|dashed|"
                                            "dotted|stars?|thin lines|height of|boxe?s?)"
                                            "\\b",
                                            G_REGEX_CASELESS, 0, NULL);
    g_autoptr(GMatchInfo) found = NULL;
    if (g_regex_match(picture, text, 0, &found)) {
        g_autofree char *word = g_match_info_fetch(found, 0);
        g_error("\"%s\" in %s", word, text);
    }
    for (; *captions; captions++)
        if (!strstr(text, *captions))
            g_error("no \"%s\" in %s", *captions, text);
}

static void test_captions(void)
{
    static const char *const captions[] = {
        "\nf, b, u and c are compute on the device. The other characters are waiting, ",
        ". The denser a character, the busier the resource is. ",
        ". The rate beside each direction is the rate of its fastest copy ",
        "while each operator runs: chunks by list, ",
        " The point \"plan\" is the plan, at the typical size ",
        " Below the unigram entropy of the text the model has learned ",
        "\nThe time of each step, and in the lines that end in \"waits\" how long ",
        "\nOne iteration in the steady state: counts of the last step, ",
        NULL};
    static const char *const host[] = {
        " Areas with the name of a list are chunks that are only in host memory. ", NULL};
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    const char *const files[] = {sample->trace, sample->plan,       sample->sweep, sample->timeline,
                                 sample->run,   sample->policy_run, NULL};
    const char *const planned[] = {sample->trace, sample->plan, NULL};
    GError *error = NULL;
    g_autofree char *text = report_text(files, NULL, &error);
    g_assert_no_error(error);
    check_captions(text, captions);

    struct trace *trace = sample_trace("");
    struct plan *plan = sample_plan(trace, SAMPLE_LITTLE_BYTES);
    g_assert_true(plan_write(plan, sample->plan, NULL));
    g_autofree char *little = report_text(planned, NULL, &error);
    g_assert_no_error(error);
    check_captions(little, host);
    plan_free(plan);
    trace_free(trace);
    sample_free(sample);
}

/* Writes a sweep of 13 sizes, each half an octave larger, with two budgets. */
static char *write_wide_sweep(const struct sample *sample)
{
    char *path = g_build_filename(sample->folder, "wide.json", NULL);
    json_t *sweep = json_load_file(sample->sweep, 0, NULL), *results = json_array();
    const json_t *first = json_array_get(json_object_get(sweep, "results"), 0);
    for (int i = 0; i < 26; i++) {
        json_t *entry = json_deep_copy(first);
        double bytes = 4864 * pow(2, 0.5 * (i % 13));
        json_object_set_new(entry, "chunk_bytes", json_integer((json_int_t)bytes / 256 * 256));
        json_object_set_new(entry, "device_memory_bytes", json_integer(i < 13 ? 1 << 20 : 2 << 20));
        json_array_append_new(results, entry);
    }
    json_object_set_new(sweep, "results", results);
    g_assert_cmpint(json_dump_file(sweep, path, 0), ==, 0);
    json_decref(sweep);
    return path;
}

/* The sizes below the panels of a sweep do not run into each other. */
static void test_sizes_apart(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_autofree char *sweep = write_wide_sweep(sample);
    const char *const files[] = {sweep, NULL};
    g_autofree char *text = report_text(files, NULL, NULL);
    g_autoptr(GRegex) clash = g_regex_new("[KMG]i?B?[0-9]", 0, 0, NULL);
    g_autoptr(GRegex)
        sizes = g_regex_new("\\n +[0-9.]+ [KM]iB[^|=\\n]*\\n +chunk size", 0, 0, NULL);
    g_autoptr(GMatchInfo) found = NULL;
    g_assert_nonnull(text);
    if (!g_regex_match(sizes, text, 0, &found))
        g_error("no sizes below a panel in %s", text);
    g_autofree char *line = g_match_info_fetch(found, 0);
    if (g_regex_match(clash, line, 0, NULL))
        g_error("sizes run into each other: %s", line);
    sample_free(sample);
}

/* Of the times that share a column the fullest is drawn, and an area where none before it reaches.
 */
static void test_areas(void)
{
    struct areas *areas = areas_new(2, 1, 160 << 10);
    const double low[] = {40 << 10, 50 << 10}, high[] = {20 << 10, 100 << 10};
    g_autoptr(GArray) phases = g_array_new(FALSE, FALSE, sizeof(struct track_phase));
    const struct track_phase all[] = {{TRACE_FORWARD, 0, 0.5}, {TRACE_BACKWARD, 0.5, 1}};
    g_array_append_vals(phases, all, 2);
    areas->names[0] = "chunks";
    areas->names[1] = "rest";
    areas->glyphs[0] = "█";
    areas->glyphs[1] = "▒";
    areas->line = 145 << 10;
    areas->line_name = "budget";
    areas->mark = "the peak";
    areas->mark_at = 0.75;
    areas_add(areas, 0, 0.5, low);
    areas_add(areas, 0.5, 1, high);
    areas_add(areas, 0.6, 0.6001, low);
    g_autoptr(GString) text = g_string_new(NULL);
    areas_append_text(text, areas, phases, true);
    areas_free(areas);
    g_auto(GStrv) lines = g_strsplit(text->str, "\n", -1);
    g_autofree char *half = g_strnfill(44, ' '), *line = g_strnfill(88, '=');
    g_autoptr(GString) full = g_string_new(NULL), shaded = g_string_new(NULL);
    for (int c = 0; c < 44; c++) {
        g_string_append(full, "█");
        g_string_append(shaded, "▒");
    }
    g_assert_cmpstr(lines[0], ==,
                    "           |forward                                    |backward");
    g_assert_true(g_str_has_suffix(lines[1], " the peak v"));
    g_assert_cmpint(g_utf8_strlen(lines[1], -1), ==, 11 + 66 + 1);
    g_assert_cmpstr(lines[2], ==, "  160 KiB |");
    g_autofree char *budget = g_strconcat("          |", line, NULL);
    g_assert_cmpstr(lines[3], ==, budget); /* the middle of the row is 145 KiB */
    g_autofree char *above = g_strconcat("          |", half, shaded->str, NULL);
    g_assert_cmpstr(lines[8], ==, above);
    g_autofree char *middle = g_strconcat("          |", shaded->str, shaded->str, NULL);
    g_assert_cmpstr(lines[13], ==, middle);
    g_autofree char *low_row = g_strconcat("   40 KiB |", full->str, shaded->str, NULL);
    g_assert_cmpstr(lines[14], ==, low_row);
    g_autofree char *bottom = g_strconcat("          |", full->str, full->str, NULL);
    g_assert_cmpstr(lines[17], ==, bottom);
    g_assert_true(g_str_has_suffix(lines[18], " 1 s") || g_str_has_suffix(lines[18], " 1.00 s"));
    g_assert_cmpint(g_utf8_strlen(lines[18], -1), ==, PLOT_COLUMNS - 1);
    g_assert_cmpstr(lines[19], ==, "           █ chunks  ▒ rest  = budget, 145 KiB");
}

static void append_result(GString *sweep, unsigned chunk, unsigned budget, unsigned ms)
{
    g_string_append_printf(
        sweep,
        "%s{\"policy\": \"opt\", \"chunk_bytes\": %u, \"device_memory_bytes\": %u, \"fits\": "
        "%s, \"h2d_bytes\": 1, \"d2h_bytes\": 1, \"h2d_copies\": 1, \"d2h_copies\": 1, "
        "\"evictions\": 1, \"moves\": 0, \"moved_bytes\": 0, \"peak_device_bytes\": 1, "
        "\"peak_live_device_bytes\": 1, \"peak_host_bytes\": 1, \"stall_seconds\": 0.01, "
        "\"iteration_seconds\": %g}",
        g_str_has_suffix(sweep->str, "[") ? "" : ", ", chunk, budget, ms ? "true" : "false",
        ms * 1e-3);
}

#define SCALE "              @ 100 ms  % 110 ms  # 120 ms  * 130 ms  + 140 ms  = 150 ms  - 160 ms"

/* The map is shaded by characters, has its numbers, and a scale. The largest chunks do not fit the
 * smallest memory. */
static void test_heat(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_autoptr(GString) sweep = g_string_new("{\"results\": [");
    append_result(sweep, 1024, 10240, 180);
    append_result(sweep, 2048, 10240, 0);
    append_result(sweep, 1024, 20480, 140);
    append_result(sweep, 2048, 20480, 100);
    g_string_append(sweep, "]}");
    g_autofree char *path = sample_file(sample, "map.json", sweep->str);
    const char *const files[] = {path, NULL};
    g_autofree char *text = report_text(files, NULL, NULL);
    static const char *const shown[] = {"\n       20 KiB +++++",
                                        "+ 140 ms +++++",
                                        "@@@@@ 100 ms @@@@@",
                                        "\n       10 KiB ....",
                                        ".... 180 ms .....",
                                        "1 KiB                ",
                                        SCALE};
    for (size_t i = 0; i < G_N_ELEMENTS(shown); i++)
        if (!strstr(text, shown[i]))
            g_error("no \"%s\" in %s", shown[i], text);
    static const char *const captions[] = {
        ". The denser the characters, the less. Cells are empty where nothing fits.\n", NULL};
    check_captions(text, captions);
    g_free(drawn_report(sample, files, REPORT_TEXT));
    g_autofree char *drawn = drawn_path(sample, "heat", ".svg"), *svg = sample_read(drawn);
    g_assert_nonnull(strstr(svg, "<text>step time, ms</text>")); /* of the scale */
    sample_free(sample);
}

/* The same step, except that each update on the host takes 2 ms and nothing waits for it. */
static char *write_faster(const struct sample *sample)
{
    g_autofree char *timeline = sample_read(sample->timeline);
    GString *text = g_string_new(timeline);
    g_string_replace(text, "\"iteration_seconds\": 0.04", "\"iteration_seconds\": 0.03", 0);
    g_string_replace(text, "\"dur\": 5000", "\"dur\": 2000", 0);
    g_string_replace(text, "\"ts\": -24000, \"dur\": 24000", "\"ts\": -14000, \"dur\": 14000", 0);
    char *path = sample_file(sample, "faster.json", text->str);
    g_string_free(text, TRUE);
    return path;
}

static void test_compare(void)
{
    struct sample *sample = sample_new("");
    g_autofree char *other = write_faster(sample);
    const char *const files[] = {sample->timeline, other, NULL};
    GError *error = NULL;
    struct report_inputs *inputs = inputs_read(files, &error);
    g_assert_no_error(error);
    const struct tracks *a, *b;
    g_assert_true(compare_steps(inputs, &a, &b));
    g_assert_cmpstr(a->origin, ==, sample->timeline);
    g_autoptr(GArray) changes = compare_names(a, b);
    /* The differences by name sum to the difference of the steps, because the sums cover both. */
    double differ = 0,
           whole = tracks_sum_all(b).busy[TRACK_COMPUTE] + tracks_sum_all(b).busy[TRACK_HOST] -
                   tracks_sum_all(a).busy[TRACK_COMPUTE] - tracks_sum_all(a).busy[TRACK_HOST];
    for (guint i = 0; i < changes->len; i++) {
        const struct compare_change *change = &g_array_index(changes, struct compare_change, i);
        differ += change->seconds[1] - change->seconds[0];
    }
    g_assert_cmpuint(changes->len, ==, 3 * SAMPLE_TENSORS);
    g_assert_cmpfloat_with_epsilon(differ, whole, 1e-9);

    struct contents *contents = contents_new(inputs);
    g_assert_nonnull(contents->comparison);
    g_autofree char *expected =
        g_strdup_printf("%s is 10.0 ms (25 %%) faster than %s; the device waits for 10.0 ms less.",
                        other, sample->timeline);
    g_assert_cmpstr(contents->comparison, ==, expected);
    contents_free(contents);
    inputs_free(inputs);
    sample_free(sample);
}

/* A single step is compared with nothing. */
static void test_alone(void)
{
    struct sample *sample = sample_new("");
    const char *const files[] = {sample->timeline, sample->trace, NULL};
    struct report_inputs *inputs = inputs_read(files, NULL);
    struct contents *contents = contents_new(inputs);
    g_assert_null(contents->comparison);
    contents_free(contents);
    inputs_free(inputs);
    sample_free(sample);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/terminal/areas", test_areas);
    g_test_add_func("/report/terminal/text", test_text);
    g_test_add_func("/report/terminal/captions", test_captions);
    g_test_add_func("/report/terminal/sizes-apart", test_sizes_apart);
    g_test_add_func("/report/terminal/heat", test_heat);
    g_test_add_func("/report/terminal/compare", test_compare);
    g_test_add_func("/report/terminal/alone", test_alone);
    return g_test_run();
}
