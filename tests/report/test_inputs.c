/* Files are recognised by their contents and matched with each other. Damaged files are refused
 * with the place and the reason. */
#include "chunks/figures.h"
#include "models/derive.h"
#include "report/analysis.h"
#include "report/report.h"
#include "tests/report/sample.h"
#include "traces/trace_file.h"

#include <glib/gstdio.h>
#include <math.h>
#include <string.h>

static struct report_inputs *read_all(const struct sample *sample)
{
    const char *const paths[] = {sample->run,  sample->trace,      sample->sweep,
                                 sample->plan, sample->policy_run, NULL};
    GError *error = NULL;
    struct report_inputs *inputs = inputs_read(paths, &error);
    g_assert_no_error(error);
    return inputs;
}

static void test_kinds(void)
{
    struct sample *sample = sample_new("");
    struct report_inputs *inputs = read_all(sample);
    g_assert_cmpuint(inputs->traces->len, ==, 1);
    g_assert_cmpuint(inputs->plans->len, ==, 1);
    g_assert_cmpuint(inputs->sweeps->len, ==, 1);
    g_assert_cmpuint(inputs->runs->len, ==, 2);
    const struct input_plan *plan = g_ptr_array_index(inputs->plans, 0);
    g_assert_true(plan->trace == g_ptr_array_index(inputs->traces, 0));
    const struct logged_run *run = g_ptr_array_index(inputs->runs, 0);
    g_assert_cmpuint(run->steps->len, ==, 6);
    g_assert_cmpfloat(run->unigram_entropy, ==, 3.0);
    g_assert_cmpfloat(g_array_index(run->steps, struct run_step, 1).loss, ==, 2.75);
    inputs_free(inputs);
    sample_free(sample);
}

/* A plan that moves the optimizer to the host needs another trace than the recorded one. It is
 * derived. */
static void test_derived(void)
{
    struct sample *sample = sample_new("");
    struct trace *trace = sample_trace("");
    static const uint8_t on_host[SAMPLE_TENSORS] = {1, 1, 0, 1};
    GError *error = NULL;
    struct trace *placed = model_place_updates(trace, on_host, NULL, &error);
    g_assert_no_error(error);
    struct plan *plan = sample_plan(placed, SAMPLE_DEVICE_BYTES);
    g_autofree char *path = sample_path(sample, "placed.json");
    plan_write(plan, path, &error);
    g_assert_no_error(error);
    const char *const paths[] = {path, sample->trace, NULL};
    struct report_inputs *inputs = inputs_read(paths, &error);
    g_assert_no_error(error);
    const struct input_plan *input = g_ptr_array_index(inputs->plans, 0);
    const struct input_trace *source = g_ptr_array_index(inputs->traces, 0);
    g_assert_nonnull(input->trace);
    g_assert_true(input->trace == input->derived);
    g_assert_cmpstr(input->derived->digest, !=, source->digest);
    g_assert_cmpint(input->trace->trace->operators[2 * SAMPLE_TENSORS].place, ==, TRACE_ON_HOST);
    inputs_free(inputs);
    plan_free(plan);
    trace_free(placed);
    trace_free(trace);
    sample_free(sample);
}

/* Medians and quantiles of the steady steps. */
static void test_range(void)
{
    struct sample *sample = sample_new("");
    struct report_inputs *inputs = read_all(sample);
    const struct logged_run *run = g_ptr_array_index(inputs->runs, 0);
    struct plan_figures measured, low, high;
    g_assert_true(run_log_measured(run, &measured, NULL));
    run_log_range(run, &low, &high);
    /* Steps 3 to 6 take 19 to 22 ms. */
    g_assert_cmpfloat_with_epsilon(measured.iteration_seconds, 0.0205, 1e-9);
    g_assert_cmpfloat_with_epsilon(low.iteration_seconds, 0.01915, 1e-9);
    g_assert_cmpfloat_with_epsilon(high.iteration_seconds, 0.02185, 1e-9);
    g_assert_cmpuint(low.h2d_bytes, ==, 0);
    inputs_free(inputs);
    sample_free(sample);
}

/* File names are misleading on purpose. */
static void test_names_do_not_matter(void)
{
    struct sample *sample = sample_new("");
    g_autofree char *trace = sample_path(sample, "a.jsonl");
    g_autofree char *plan = sample_path(sample, "b.pstar");
    g_autofree char *sweep = sample_path(sample, "c");
    g_autofree char *run = sample_path(sample, "d.json");
    g_rename(sample->trace, trace);
    g_rename(sample->plan, plan);
    g_rename(sample->sweep, sweep);
    g_rename(sample->run, run);
    const char *const paths[] = {trace, plan, sweep, run, NULL};
    GError *error = NULL;
    struct report_inputs *inputs = inputs_read(paths, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(inputs->traces->len, ==, 1);
    g_assert_cmpuint(inputs->plans->len, ==, 1);
    g_assert_cmpuint(inputs->sweeps->len, ==, 1);
    g_assert_cmpuint(inputs->runs->len, ==, 1);
    inputs_free(inputs);
    sample_free(sample);
}

static void test_pairs(void)
{
    struct sample *sample = sample_new("");
    struct report_inputs *inputs = read_all(sample);
    GArray *predictions = predictions_find(inputs);
    g_assert_cmpuint(predictions->len, ==, 2);
    const struct prediction *planned = &g_array_index(predictions, struct prediction, 0);
    const struct prediction *swept = &g_array_index(predictions, struct prediction, 1);
    g_assert_cmpstr(planned->predictor, ==, sample->plan);
    g_assert_false(planned->timed); /* a dry run predicts no time */
    g_assert_cmpstr(swept->predictor, ==, sample->sweep);
    g_assert_true(swept->timed);
    g_assert_true(swept->steady);
    unsigned of, equal = prediction_equal_counts(swept, &of);
    g_assert_cmpuint(equal, ==, 10);
    g_assert_cmpuint(of, ==, 10);
    /* The median of the third to the sixth step: 19, 20, 21, 22 ms. */
    g_assert_cmpfloat_with_epsilon(swept->measured.iteration_seconds, 0.0205, 1e-9);
    g_array_unref(predictions);
    inputs_free(inputs);
    sample_free(sample);
}

static void test_configurations(void)
{
    struct configuration a = {.maker = "policy opt",
                              .digest = "d1",
                              .chunk_bytes = 1024,
                              .device_budget = 9000},
                         b = a;
    g_assert_true(configuration_same(&a, &b));
    b.digest = NULL;
    b.look_ahead = -1;
    g_assert_true(configuration_same(&a, &b));
    b.look_ahead = 4;
    g_assert_false(configuration_same(&a, &b));
    b = a;
    b.digest = "d2";
    g_assert_false(configuration_same(&a, &b));
    b = a;
    b.device_budget = 9001;
    g_assert_false(configuration_same(&a, &b));
    b = a;
    b.maker = "planner";
    g_assert_false(configuration_same(&a, &b));
    a.device_budget = UINT64_MAX;
    b = a;
    g_assert_true(configuration_same(&a, &b));
    struct configuration unknown = {.look_ahead = -1}, other = unknown;
    g_assert_false(configuration_same(&unknown, &other));
}

/* A run without a budget has unlimited memory. */
static void test_unlimited(void)
{
    json_t *object = json_pack("{s:s, s:i}", "made_by", "policy opt", "chunk_bytes", 1024);
    struct configuration run = configuration_of_json(object);
    struct trace *trace = sample_trace("");
    struct plan *plan = sample_plan(trace, 1 << 20);
    plan->device_budget = UINT64_MAX;
    struct configuration planned = configuration_of_plan(plan);
    g_assert_true(configuration_same(&planned, &run));
    g_autofree char *label = configuration_label(&run);
    g_assert_cmpstr(label, ==, "policy opt, 1 KiB chunks");
    configuration_clear(&run);
    configuration_clear(&planned);
    plan_free(plan);
    trace_free(trace);
    json_decref(object);
}

/* Writes `text` to a file that must be refused with `message`. */
static void refuse(const char *text, const char *message)
{
    struct sample *sample = sample_new("");
    g_autofree char *path = sample_file(sample, "bad", text);
    const char *const paths[] = {sample->trace, path, NULL};
    GError *error = NULL;
    g_assert_null(inputs_read(paths, &error));
    g_assert_nonnull(error);
    g_assert_true(g_str_has_prefix(error->message, path));
    if (!strstr(error->message, message))
        g_error("\"%s\" does not say \"%s\"", error->message, message);
    g_assert_null(strchr(error->message, '\n'));
    g_error_free(error);
    sample_free(sample);
}

static void test_bad_files(void)
{
    refuse("", "empty");
    refuse("not one of ours", "neither a trace");
    refuse("{\"pstar_plan\": 1, ", "neither a trace");
    refuse("{\"some\": \"json\"}", "must be a plan, a sweep, a timeline, a run log");
    refuse("[1, 2]", "unknown JSON");
    refuse("SQLite format 3\0damaged", "");
    refuse("{\"pstar_plan\": 1}", "");
    refuse("{\"trace\": \"x\", \"results\": []}", "no results");
    refuse("{\"results\": [{\"policy\": \"opt\"}]}",
           "results[0] of the sweep has no valid \"fits\"");
    refuse("{\"results\": [{\"fits\": false, \"policy\": \"opt\", \"chunk_bytes\": -1}]}",
           "results[0] of the sweep has no valid \"chunk_bytes\"");
    refuse("{\"results\": [{\"fits\": true, \"policy\": \"opt\", \"chunk_bytes\": 1024, "
           "\"device_memory_bytes\": 9000, \"h2d_bytes\": 1}]}",
           "results[0] of the sweep has no valid \"d2h_bytes\"");
    refuse("{\"step\": 1, \"loss\": 2.0}\n{\"step\": 2, broken\n{\"step\": 3}\n", "bad:2: ");
    refuse("{\"step\": 1, \"loss\": \"low\"}\n", "bad:1: ");
    refuse("{\"step\": -1, \"loss\": 1.0}\n", "bad:1: ");
    refuse("{\"unigram_entropy\": 3.0}\n", "no step");
}

static void test_missing_file(void)
{
    const char *const paths[] = {"/nonexistent/run.pstar", NULL};
    const char *const folder[] = {"/tmp", NULL};
    GError *error = NULL;
    g_assert_null(inputs_read(paths, &error));
    g_assert_error(error, REPORT_ERROR, REPORT_ERROR_INPUT);
    g_assert_nonnull(strstr(error->message, "/nonexistent/run.pstar: No such file"));
    g_clear_error(&error);
    g_assert_null(inputs_read(folder, &error));
    g_assert_error(error, REPORT_ERROR, REPORT_ERROR_INPUT);
    g_clear_error(&error);
}

static void test_truncated(void)
{
    struct sample *sample = sample_new("");
    const char *const whole[] = {sample->trace, sample->plan, sample->sweep};
    for (size_t i = 0; i < G_N_ELEMENTS(whole); i++) {
        char *contents;
        gsize length;
        g_assert_true(g_file_get_contents(whole[i], &contents, &length, NULL));
        g_autofree char *path = sample_path(sample, "cut");
        for (gsize part = 1; part < 8; part++) {
            g_file_set_contents(path, contents, (gssize)(length * part / 8), NULL);
            const char *const paths[] = {path, NULL};
            GError *error = NULL;
            g_assert_null(inputs_read(paths, &error));
            g_assert_nonnull(error);
            g_assert_nonnull(strstr(error->message, path));
            g_error_free(error);
        }
        g_free(contents);
    }
    sample_free(sample);
}

/* A run that was killed while writing or is still going on, and one that diverged. */
static void test_unfinished_run(void)
{
    struct sample *sample = sample_new("");
    g_autofree char *path =
        sample_file(sample, "run",
                    "{\"step\": 1, \"loss\": 2.0}\n\n{\"step\": 2, \"loss\": null}\n"
                    "{\"step\": 3, \"lo");
    GError *error = NULL;
    struct logged_run *log = run_log_read(path, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(log->steps->len, ==, 2);
    g_assert_true(log->cut);
    g_assert_true(isnan(g_array_index(log->steps, struct run_step, 1).loss));
    struct plan_figures figures;
    g_assert_false(run_log_measured(log, &figures, NULL));
    run_log_free(log);
    sample_free(sample);
}

/* A run that went on in the log of another one: the losses are of both, and what is measured and
 * with what is the last one's. */
static void test_continued_run(void)
{
    static const char *const makers[] = {"policy lru", "policy opt"};
    struct sample *sample = sample_new("");
    g_autoptr(GString) text = g_string_new(NULL);
    struct plan_figures figures;
    bool steady;
    for (int step = 1; step <= 8; step++) {
        bool begins = step % 4 == 1, first = step <= 4;
        struct plan_figures counted = {.h2d_bytes = first ? 1000 : begins ? 5 : 2000};
        json_t *line = figures_to_json(&counted);
        json_object_set_new(line, "step", json_integer(step));
        json_object_set_new(line, "loss", json_real(10 - step));
        if (begins)
            json_object_set_new(line, "made_by", json_string(makers[!first]));
        char *written = json_dumps(line, JSON_COMPACT);
        g_string_append_printf(text, "%s\n", written);
        free(written);
        json_decref(line);
    }
    g_autofree char *path = sample_file(sample, "run", text->str);
    struct logged_run *log = run_log_read(path, NULL);
    g_assert_cmpuint(log->steps->len, ==, 8);
    g_assert_cmpstr(log->configuration.maker, ==, "policy opt");
    g_assert_true(run_log_measured(log, &figures, &steady));
    g_assert_cmpuint(figures.h2d_bytes, ==, 2000);
    g_assert_true(steady);
    run_log_free(log);
    sample_free(sample);
}

/* A plan with the trace's digest that cannot be executed over it is damaged. */
static void test_damaged_plan(void)
{
    struct sample *sample = sample_new("");
    g_autofree char *text = sample_read(sample->plan);
    char *fetch = strstr(text, "\"fetch\"");
    g_assert_nonnull(fetch);
    memcpy(fetch, "\"flush\"", strlen("\"flush\""));
    g_autofree char *path = sample_file(sample, "damaged.json", text);
    const char *const paths[] = {path, sample->trace, NULL};
    GError *error = NULL;
    g_assert_null(inputs_read(paths, &error));
    g_assert_nonnull(error);
    g_assert_nonnull(strstr(error->message, path));
    g_error_free(error);
    sample_free(sample);
}

/* Reads two files, which must be refused with `message`, or not if that is NULL. */
static void expect_pair(const char *first, const char *second, const char *message)
{
    const char *const paths[] = {first, second, NULL};
    GError *error = NULL;
    struct report_inputs *inputs = inputs_read(paths, &error);
    if (!message)
        g_assert_no_error(error);
    else {
        g_autofree char *whole = g_strdup_printf("%s and %s are not of the same step: %s", first,
                                                 second, message);
        g_assert_error(error, REPORT_ERROR, REPORT_ERROR_INPUT);
        g_assert_cmpstr(error->message, ==, whole);
        g_clear_error(&error);
    }
    inputs_free(inputs);
}

/* Writes the sample's trace as one of a larger batch. Free the path with g_free. */
static char *write_other_batch(const struct sample *sample)
{
    struct trace *trace = sample_trace("");
    GError *error = NULL;
    char *path = sample_path(sample, "batch.pstar");
    trace->batch += 3;
    trace_write(trace, path, &error);
    g_assert_no_error(error);
    trace_free(trace);
    return path;
}

/* A plan or a log of one model says nothing about the trace of another. */
static void test_other_model(void)
{
    static const char differs[] = "the model is sample in the one and sample2 in the other";
    static const char reversed[] = "the model is sample2 in the one and sample in the other";
    struct sample *sample = sample_new(""), *other = sample_new("2");
    g_autofree char *log = sample_file(sample, "log.jsonl",
                                       "{\"step\": 1, \"loss\": 2.0, \"model\": \"sample2\"}\n");
    g_autofree char *unnamed = sample_file(sample, "unnamed.jsonl", "{\"step\": 1, \"loss\": 2}\n");
    g_autofree char *batch = write_other_batch(sample);
    expect_pair(sample->plan, sample->trace, NULL);
    expect_pair(sample->plan, other->trace, differs);
    expect_pair(other->plan, sample->timeline, reversed);
    expect_pair(sample->plan, batch, "the batch is 1 in the one and 4 in the other");
    expect_pair(log, sample->trace, reversed);
    expect_pair(log, sample->plan, reversed);
    expect_pair(log, other->plan, NULL);
    expect_pair(unnamed, sample->plan, NULL);
    expect_pair(sample->trace, other->trace, NULL); /* two steps side by side */
    sample_free(other);
    sample_free(sample);
}

static void test_best_of_sweep(void)
{
    struct sample *sample = sample_new("");
    struct report_inputs *inputs = read_all(sample);
    const struct sweep_file *sweep = g_ptr_array_index(inputs->sweeps, 0);
    GArray *budgets = sweep_file_budgets(sweep);
    g_assert_cmpuint(budgets->len, ==, 2);
    g_assert_cmpuint(g_array_index(budgets, uint64_t, 1), ==, 20000);
    const struct sweep_file_entry *best = sweep_file_best(sweep, OBJECTIVE_TRAFFIC,
                                                          SAMPLE_DEVICE_BYTES, NULL);
    g_assert_cmpstr(best->configuration.maker, ==, "policy opt");
    g_assert_cmpuint(best->configuration.chunk_bytes, ==, SAMPLE_CHUNK_BYTES);
    best = sweep_file_best(sweep, OBJECTIVE_TRAFFIC, SAMPLE_DEVICE_BYTES, "policy fifo");
    g_assert_cmpstr(best->configuration.maker, ==, "policy fifo");
    g_assert_null(sweep_file_best(sweep, OBJECTIVE_TRAFFIC, 20000, "policy fifo"));
    g_array_unref(budgets);
    inputs_free(inputs);
    sample_free(sample);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/inputs/kinds", test_kinds);
    g_test_add_func("/report/inputs/derived", test_derived);
    g_test_add_func("/report/inputs/range", test_range);
    g_test_add_func("/report/inputs/names_do_not_matter", test_names_do_not_matter);
    g_test_add_func("/report/inputs/pairs", test_pairs);
    g_test_add_func("/report/inputs/configurations", test_configurations);
    g_test_add_func("/report/inputs/unlimited", test_unlimited);
    g_test_add_func("/report/inputs/bad_files", test_bad_files);
    g_test_add_func("/report/inputs/missing_file", test_missing_file);
    g_test_add_func("/report/inputs/truncated", test_truncated);
    g_test_add_func("/report/inputs/unfinished_run", test_unfinished_run);
    g_test_add_func("/report/inputs/continued-run", test_continued_run);
    g_test_add_func("/report/inputs/damaged_plan", test_damaged_plan);
    g_test_add_func("/report/inputs/other_model", test_other_model);
    g_test_add_func("/report/inputs/best_of_sweep", test_best_of_sweep);
    return g_test_run();
}
