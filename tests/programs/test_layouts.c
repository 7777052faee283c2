/* Chosen chunks in all programs: a size for each list, a layout file, a plan's layout. What one
 * program predicts the other measures, and no layout changes a loss. */
#include "traces/trace_file.h"
#include "workshop.h"

#include <math.h>
#include <string.h>

enum { STEPS = 4, IN_A_CHUNK = 3 };

#define JOB "--batch 2 --seq 32 --precision bf16"

static const char *const ways[] = {"--chunk-size 48KiB,param=16KiB", "--layout layout.json",
                                   "--layout swept.json"};

/* Three tensors a chunk, from the last to the first. */
static void write_layout(const struct workshop *workshop)
{
    GError *error = NULL;
    char *path = workshop_path(workshop, "run.pstar");
    struct trace *trace = trace_read(path, &error);
    g_assert_no_error(error);
    g_free(path);
    json_t *chunks = json_array();
    for (uint32_t t = trace->tensor_count; t-- > 0;) {
        if ((trace->tensor_count - 1 - t) % IN_A_CHUNK == 0)
            json_array_append_new(chunks, json_array());
        json_array_append_new(json_array_get(chunks, json_array_size(chunks) - 1),
                              json_string(trace->tensors[t].name));
    }
    json_t *root = json_pack("{s:i, s:o}", "pstar_layout", 1, "chunks", chunks);
    char *text = json_dumps(root, 0);
    workshop_write(workshop, "layout.json", text);
    free(text);
    json_decref(root);
    trace_free(trace);
}

/* The losses of a log's steps, and its last line in *last. */
static void read_log(const struct workshop *workshop, const char *log, double losses[STEPS],
                     json_t **last)
{
    json_t *objects = workshop_read_json_lines(workshop, log);
    size_t i, step = 0;
    json_t *object;
    json_array_foreach (objects, i, object)
        if (json_object_get(object, "step")) {
            g_assert_cmpuint(step, <, STEPS);
            losses[step++] = json_real_value(json_object_get(object, "loss"));
            *last = object;
        }
    g_assert_cmpuint(step, ==, STEPS);
    json_incref(*last);
    json_decref(objects);
}

static void assert_losses(const double *losses, const double *expected)
{
    for (int step = 0; step < STEPS; step++) {
        g_assert_true(isfinite(expected[step]) && expected[step] > 0);
        g_assert_cmpfloat(losses[step], ==, expected[step]);
    }
}

static void assert_measured(const json_t *predicted, const json_t *step)
{
    static const char *const names[] = {"h2d_bytes",   "d2h_bytes",         "evictions",
                                        "moved_bytes", "peak_device_bytes", "peak_host_bytes"};
    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_test_message("%s", names[i]);
        g_assert_true(json_is_integer(json_object_get(predicted, names[i])));
        g_assert_true(
            json_equal(json_object_get(predicted, names[i]), json_object_get(step, names[i])));
    }
    g_assert_cmpint(json_integer_value(json_object_get(predicted, "evictions")), >, 0);
}

/* `member`: of the layouts. */
static void assert_same_layout(const struct workshop *workshop, const char *a, const char *b,
                               const char *member)
{
    json_t *first = workshop_read_json(workshop, a), *second = workshop_read_json(workshop, b);
    const json_t *of_first = json_object_get(json_object_get(first, "layout"), member);
    g_assert_nonnull(of_first);
    g_assert_true(json_equal(of_first, json_object_get(json_object_get(second, "layout"), member)));
    json_decref(first);
    json_decref(second);
}

static void check_way(const struct workshop *workshop, const char *way, const double *resident)
{
    double losses[STEPS];
    json_t *step;
    workshop_must_run_format(
        workshop,
        "pstar-sim run.pstar --device-memory 30%% --policy opt %s --json sim.json "
        "--emit-plan next.json",
        way);
    json_t *swept = workshop_read_json(workshop, "sim.json");
    const json_t *entry = json_array_get(json_object_get(swept, "results"), 0);
    long long budget = json_integer_value(json_object_get(entry, "device_memory_bytes"));
    const char *name = json_string_value(json_object_get(entry, "layout"));
    g_assert_nonnull(name);
    g_assert_true(g_str_has_suffix(way, name));

    workshop_must_run_format(workshop,
                             "pstar-run --model model --data text.txt " JOB
                             " --steps %d --policy opt "
                             "--device-memory %lld %s --log run.jsonl --emit-plan run.json",
                             STEPS, budget, way);
    read_log(workshop, "run.jsonl", losses, &step);
    assert_losses(losses, resident);
    assert_measured(entry, step);
    json_decref(step);
    assert_same_layout(workshop, "next.json", "run.json", "tensors");
    assert_same_layout(workshop, "next.json", "run.json", "chunks");

    workshop_must_run_format(
        workshop, "pstar-plan run.pstar --device-memory %lld %s --time-limit 5 -o plan.json",
        budget, way);
    workshop_must_run_format(workshop, "pstar-plan --verify plan.json run.pstar");
    assert_same_layout(workshop, "next.json", "plan.json", "tensors");
    workshop_must_run_format(workshop,
                             "pstar-run --model model --data text.txt " JOB
                             " --steps %d --plan plan.json "
                             "--log plan.jsonl",
                             STEPS);
    read_log(workshop, "plan.jsonl", losses, &step);
    assert_losses(losses, resident);
    json_decref(step);
    workshop_must_run_format(workshop, "cp next.json swept.json");
    json_decref(swept);
}

static void test_ways(void)
{
    struct workshop *workshop = workshop_new();
    double resident[STEPS];
    json_t *step;
    workshop_must_run_format(workshop, "pstar-trace synth --model model " JOB " -o run.pstar");
    write_layout(workshop);
    workshop_must_run_format(
        workshop, "pstar-run --model model --data text.txt " JOB " --steps %d --log resident.jsonl",
        STEPS);
    read_log(workshop, "resident.jsonl", resident, &step);
    json_decref(step);
    for (size_t i = 0; i < G_N_ELEMENTS(ways); i++)
        check_way(workshop, ways[i], resident);
    workshop_free(workshop);
}

static void expect_in(const char *text, const char *part)
{
    if (!strstr(text, part))
        g_error("'%s' is not in:\n%s", part, text);
}

/* The x of the first plan in the data of a plot, after a line of NaN. */
static double star_of(const struct workshop *workshop, const char *name)
{
    g_autofree char *path = workshop_path(workshop, name), *text = NULL;
    g_assert_true(g_file_get_contents(path, &text, NULL, NULL));
    const char *at = strstr(text, ", plans: chunk_bytes");
    g_assert_nonnull(at);
    at = strstr(at, "NaN NaN 1\n");
    g_assert_nonnull(at);
    return g_ascii_strtod(at + strlen("NaN NaN 1\n"), NULL);
}

/* The plan's chunks are the tensors: of 64 to 16384 elements of 2 bytes, aligned. Half of the bytes
 * of parameters lie in the products' weights of 32 KiB, and none is as small as the chunk size
 * would have it. */
static void test_one_chunk_a_tensor(void)
{
    struct workshop *workshop = workshop_new();
    workshop_must_run_format(workshop, "pstar-trace synth --model model " JOB " -o run.pstar");
    workshop_must_run_format(
        workshop, "pstar-sim run.pstar --device-memory 40%% --policy opt --json sweep.json");
    g_autofree char *found = workshop_must_print(workshop,
                                                 "pstar-plan run.pstar --device-memory 40% "
                                                 "--chunk-size 256B -o plan.json");
    expect_in(found, "chunks of 256 B to 32 KiB");
    g_autofree char *explained = workshop_must_print(workshop, "pstar-plan --explain plan.json");
    expect_in(explained, "smallest     typical     largest");
    expect_in(explained, "  param            28       256 B      32 KiB      32 KiB ");
    g_autofree char *swept = workshop_must_print(workshop,
                                                 "pstar-sim run.pstar --device-memory 40% "
                                                 "--layout plan.json --policy opt");
    expect_in(swept, "~32 KiB  opt");
    workshop_must_run_format(
        workshop, "pstar-sim run.pstar --device-memory 40%% --layout plan.json --policy opt "
                  "--json given.json");
    g_autofree char *table = workshop_must_print(workshop,
                                                 "pstar-report run.pstar given.json --text");
    expect_in(table, "policy opt *  256 B to 32 KiB  ");
    workshop_must_run_format(workshop,
                             "pstar-run --model model --data text.txt " JOB
                             " --steps %d --plan plan.json "
                             "--log plan.jsonl",
                             STEPS);
    g_autofree char *report = workshop_must_print(workshop,
                                                  "pstar-report run.pstar sweep.json plan.json "
                                                  "plan.jsonl --text");
    expect_in(report, "Predicted beside measured: planner, 256 B to 32 KiB chunks");
    g_assert_null(strstr(report, " 256 B chunks"));
    g_autofree char *gnuplot = g_find_program_in_path("gnuplot");
    if (gnuplot) {
        workshop_must_run_format(workshop, "pstar-report run.pstar sweep.json plan.json -o report");
        g_assert_cmpfloat(star_of(workshop, "report/figures/sweep.dat"), ==, 32768);
    }
    workshop_free(workshop);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/layouts/ways", test_ways);
    g_test_add_func("/layouts/one-chunk-a-tensor", test_one_chunk_a_tensor);
    return g_test_run();
}
