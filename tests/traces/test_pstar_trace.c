/* The program pstar-trace. */
#include "tests/traces/random_activity.h"
#include "tests/traces/random_trace.h"
#include "traces/annotations.h"
#include "traces/records.h"
#include "traces/trace_file.h"

#include <glib/gstdio.h>
#include <jansson.h>
#include <sys/wait.h>

#define PROGRAM PROGRAM_DIR "/pstar-trace"
#define CONFIGS PROJECT_DIR "/models/configs/"

struct fixture {
    char *folder, *path, *other;
    char *output, *errors; /* of the last run */
    int code;              /* its exit status */
    GRand *random;
};

static void set_up(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    fixture->folder = g_dir_make_tmp("pstar-trace-XXXXXX", NULL);
    fixture->path = g_build_filename(fixture->folder, "run.pstar", NULL);
    fixture->other = g_build_filename(fixture->folder, "out", NULL);
    fixture->random = g_rand_new_with_seed((guint32)g_test_rand_int());
}

static void tear_down(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    g_unlink(fixture->path);
    g_unlink(fixture->other);
    g_assert_cmpint(g_rmdir(fixture->folder), ==, 0);
    g_free(fixture->folder);
    g_free(fixture->path);
    g_free(fixture->other);
    g_free(fixture->output);
    g_free(fixture->errors);
    g_rand_free(fixture->random);
}

G_GNUC_PRINTF(2, 3)
static void run(struct fixture *fixture, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    char *arguments = g_strdup_vprintf(format, list);
    va_end(list);
    char *line = g_strconcat(PROGRAM " ", arguments, NULL);
    char **command;
    g_clear_pointer(&fixture->output, g_free);
    g_clear_pointer(&fixture->errors, g_free);
    g_assert_true(g_shell_parse_argv(line, NULL, &command, NULL));
    int status;
    g_assert_true(g_spawn_sync(fixture->folder, command, NULL, G_SPAWN_DEFAULT, NULL, NULL,
                               &fixture->output, &fixture->errors, &status, NULL));
    g_assert_true(WIFEXITED(status));
    fixture->code = WEXITSTATUS(status);
    g_strfreev(command);
    g_free(line);
    g_free(arguments);
}

static void assert_done(const struct fixture *fixture)
{
    g_assert_cmpstr(fixture->errors, ==, "");
    g_assert_cmpint(fixture->code, ==, 0);
}

/* Checks that the command is refused with one line that contains `reason`. */
static void assert_refused(const struct fixture *fixture, const char *reason)
{
    g_assert_cmpint(fixture->code, ==, 2);
    if (!strstr(fixture->errors, reason))
        g_error("'%s' does not say '%s'", fixture->errors, reason);
    g_assert_true(strchr(fixture->errors, '\n') == fixture->errors + strlen(fixture->errors) - 1);
    g_assert_cmpstr(fixture->output, ==, "");
}

static struct trace *write_random(const struct fixture *fixture)
{
    struct trace *trace = random_trace(fixture->random, 40);
    GError *error = NULL;
    trace_write(trace, fixture->path, &error);
    g_assert_no_error(error);
    return trace;
}

static uint64_t integer(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    g_assert_true(json_is_integer(value));
    return (uint64_t)json_integer_value(value);
}

static void test_info(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    for (int round = 0; round < 10; round++) {
        struct trace *trace = write_random(fixture);
        uint64_t peak = 0, duration_ns = 0;
        for (uint32_t m = 0; m < trace->operator_count; m++) {
            peak = MAX(peak, trace->non_model_bytes[m]);
            duration_ns += trace->operators[m].duration_ns;
        }
        run(fixture, "info %s", fixture->path);
        assert_done(fixture);
        char *digest = trace_digest(trace);
        g_assert_nonnull(strstr(fixture->output, digest));
        run(fixture, "info --json %s", fixture->path);
        assert_done(fixture);
        json_t *json = json_loads(fixture->output, 0, NULL);
        g_assert_nonnull(json);
        g_assert_cmpstr(json_string_value(json_object_get(json, "structure")), ==, digest);
        g_assert_cmpuint(integer(json, "operators"), ==, trace->operator_count);
        g_assert_cmpuint(integer(json, "model_bytes"), ==, trace_model_bytes(trace));
        g_assert_cmpuint(integer(json, "non_model_peak_bytes"), ==, peak);
        g_assert_cmpuint(trace->non_model_bytes[integer(json, "non_model_peak_moment")], ==, peak);
        double seconds = json_real_value(json_object_get(json, "operator_seconds"));
        g_assert_cmpfloat_with_epsilon(seconds, (double)duration_ns / 1e9, 1e-6);
        const json_t *longest = json_object_get(json, "longest");
        for (size_t i = 1; i < json_array_size(longest); i++) {
            uint64_t a = integer(json_array_get(longest, i - 1), "moment");
            uint64_t b = integer(json_array_get(longest, i), "moment");
            g_assert_cmpuint(trace->operators[a].duration_ns, >=, trace->operators[b].duration_ns);
        }
        json_decref(json);
        g_free(digest);
        trace_free(trace);
    }
}

static void test_json_lines(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    struct trace *trace = write_random(fixture);
    run(fixture, "export %s", fixture->path);
    assert_done(fixture);
    uint32_t tensors = 0, operators = 0, buffers = 0, accesses = 0;
    char **lines = g_strsplit(fixture->output, "\n", -1);
    for (char **line = lines; **line != '\0'; line++) {
        json_t *json = json_loads(*line, 0, NULL);
        g_assert_nonnull(json);
        const char *kind = json_string_value(json_object_get(json, "kind"));
        const char *name = json_string_value(json_object_get(json, "name"));
        if (strcmp(kind, "tensor") == 0) {
            g_assert_cmpstr(name, ==, trace->tensors[tensors].name);
            g_assert_cmpuint(integer(json, "elements"), ==, trace->tensors[tensors].elements);
            tensors++;
        } else if (strcmp(kind, "operator") == 0) {
            g_assert_cmpstr(name, ==, trace->operators[operators].name);
            g_assert_cmpuint(integer(json, "non_model_bytes"), ==,
                             trace->non_model_bytes[operators]);
            accesses += (uint32_t)json_array_size(json_object_get(json, "accesses"));
            g_assert_cmpuint(integer(json, "flops"), ==, trace->operators[operators].flops);
            operators++;
        } else if (strcmp(kind, "buffer") == 0) {
            g_assert_cmpuint(integer(json, "bytes"), ==, trace->buffers[buffers].bytes);
            buffers++;
        } else {
            g_assert_cmpstr(kind, ==, "meta");
        }
        json_decref(json);
    }
    g_assert_cmpuint(tensors, ==, trace->tensor_count);
    g_assert_cmpuint(operators, ==, trace->operator_count);
    g_assert_cmpuint(accesses, ==, trace->access_count);
    g_assert_cmpuint(buffers, ==, trace->buffer_count);
    g_strfreev(lines);
    trace_free(trace);
}

/* Writes a recorded iteration of one operator, with or without declarations. */
static void write_recorded(const struct fixture *fixture, bool with_iteration)
{
    struct trace *trace = with_iteration ? random_trace(fixture->random, 10) : NULL;
    uint32_t operator_count = with_iteration ? trace->operator_count : 0;
    GError *error = NULL;
    struct record_file *file = record_file_new(fixture->path, trace, &error);
    g_assert_no_error(error);
    struct record_string strings[] = {{1, (char *)"pstar"}, {2, (char *)"iteration"}};
    struct record events[] = {
        {.type = RECORD_DOMAIN, .start_ns = 1, .domain = 1, .text = 1},
        {.type = RECORD_PUSH_POP,
         .start_ns = 5000,
         .end_ns = 9000,
         .process = 7,
         .thread = 8,
         .domain = 1,
         .category = ANNOTATION_ITERATION,
         .text = 2,
         .payload_type = RECORD_UINT64,
         .payload = 3},
        {.type = RECORD_PUSH_POP,
         .start_ns = 6000,
         .end_ns = 7000,
         .process = 7,
         .thread = 8,
         .domain = 1,
         .category = ANNOTATION_OPERATOR,
         .text = 2,
         .payload_type = RECORD_UINT64,
         .payload = 0},
    };
    struct record_sample samples[] = {{5000, "resident_bytes", 77}};
    const struct records more = {
        .events = events,
        .event_count = G_N_ELEMENTS(events),
        .strings = strings,
        .string_count = G_N_ELEMENTS(strings),
        .samples = samples,
        .sample_count = 1,
    };
    g_assert_true(record_file_add(file, &more, NULL));
    uint64_t *durations = g_new0(uint64_t, operator_count + 1);
    durations[0] = 1000;
    g_assert_true(record_file_complete(file, durations, operator_count, false, NULL));
    record_file_free(file);
    g_free(durations);
    trace_free(trace);
}

static void test_chrome(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    write_recorded(fixture, true);
    struct trace *trace = trace_read(fixture->path, NULL);
    run(fixture, "export --format chrome -o %s %s", fixture->other, fixture->path);
    assert_done(fixture);
    json_t *json = json_load_file(fixture->other, 0, NULL);
    g_assert_nonnull(json);
    size_t index;
    json_t *event;
    uint32_t operators = 0, counters = 0, recorded = 0;
    double end = 0;
    json_array_foreach (json_object_get(json, "traceEvents"), index, event) {
        const char *kind = json_string_value(json_object_get(event, "ph"));
        double start = json_real_value(json_object_get(event, "ts"));
        double duration = json_real_value(json_object_get(event, "dur"));
        if (strcmp(kind, "C") == 0) {
            g_assert_cmpuint(integer(json_object_get(event, "args"), "bytes"), ==,
                             trace->non_model_bytes[counters]);
            counters++;
        } else if (strcmp(kind, "X") == 0 && integer(event, "pid") == 0) {
            g_assert_cmpstr(json_string_value(json_object_get(event, "name")), ==,
                            trace->operators[operators].name);
            g_assert_cmpuint(integer(event, "tid"), ==, 1U + trace->operators[operators].phase);
            operators++;
            g_assert_cmpfloat_with_epsilon(start, end, 1e-6);
            end = start + duration;
        } else if (strcmp(kind, "X") == 0) {
            g_assert_cmpuint(integer(event, "pid"), ==, 7);
            g_assert_cmpuint(integer(event, "tid"), ==, 8);
            g_assert_cmpfloat(start, ==, recorded == 0 ? 0 : 1);
            g_assert_cmpfloat(duration, ==, recorded == 0 ? 4 : 1);
            recorded++;
        }
    }
    g_assert_cmpuint(operators, ==, trace->operator_count);
    g_assert_cmpuint(counters, ==, trace->operator_count);
    g_assert_cmpuint(recorded, ==, 2);
    json_decref(json);
    trace_free(trace);
}

static void test_recorded(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    write_recorded(fixture, true);
    run(fixture, "info --json %s", fixture->path);
    assert_done(fixture);
    json_t *json = json_loads(fixture->output, 0, NULL);
    const json_t *iteration = json_array_get(json_object_get(json, "iterations"), 0);
    g_assert_cmpuint(integer(iteration, "step"), ==, 3);
    g_assert_cmpfloat_with_epsilon(json_real_value(json_object_get(iteration, "seconds")), 4e-6,
                                   1e-12);
    g_assert_cmpuint(integer(json, "nvtx_events"), ==, 3);
    g_assert_cmpuint(integer(json, "samples"), ==, 1);
    json_decref(json);
    run(fixture, "check %s", fixture->path);
    assert_done(fixture);
}

/* Device activity with and without an iteration. */
static void test_activity(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    for (int annotated = 0; annotated < 2; annotated++) {
        write_recorded(fixture, annotated);
        run(fixture, "info --json %s", fixture->path);
        json_t *json = json_loads(fixture->output, 0, NULL);
        g_assert_true(json_is_null(json_object_get(json, "activity")));
        json_decref(json);

        struct activity *activity = random_activity(fixture->random, 50);
        struct record_string *strings = random_activity_strings();
        const struct records more = {
            .activity = activity, .strings = strings, .string_count = RANDOM_ACTIVITY_STRINGS};
        struct trace *trace = annotated ? random_trace(fixture->random, 5) : NULL;
        struct record_file *file = record_file_new(fixture->path, trace, NULL);
        g_assert_true(record_file_add(file, &more, NULL));
        record_file_free(file);
        run(fixture, "info --json %s", fixture->path);
        assert_done(fixture);
        json = json_loads(fixture->output, 0, NULL);
        const json_t *did = json_object_get(json, "activity");
        uint64_t kernels = 0, copies = 0;
        size_t index;
        json_t *entry;
        json_array_foreach (json_object_get(did, "devices"), index, entry)
            kernels += integer(entry, "kernels");
        json_array_foreach (json_object_get(did, "traffic"), index, entry)
            copies += integer(entry, "copies");
        g_assert_cmpuint(kernels, ==, activity->kernel_count);
        g_assert_cmpuint(copies, ==, activity->copy_count);
        g_assert_cmpuint(integer(did, "dropped_records"), ==, activity->dropped);
        json_decref(json);
        run(fixture, "info %s", fixture->path);
        assert_done(fixture);
        g_assert_nonnull(strstr(fixture->output, "busiest kernels"));
        g_assert_nonnull(strstr(fixture->output, "Gerät '0'"));
        trace_free(trace);
        random_activity_strings_free(strings);
        activity_free(activity);
    }
}

static void test_no_iteration(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    write_recorded(fixture, false);
    run(fixture, "info %s", fixture->path);
    assert_done(fixture);
    g_assert_nonnull(strstr(fixture->output, "did not annotate"));
    run(fixture, "info --json %s", fixture->path);
    assert_done(fixture);
    json_t *json = json_loads(fixture->output, 0, NULL);
    g_assert_cmpuint(integer(json, "nvtx_events"), ==, 3);
    json_decref(json);
    run(fixture, "check %s", fixture->path);
    assert_done(fixture);
    g_assert_nonnull(strstr(fixture->output, "without an iteration: 3 NVTX events"));
    run(fixture, "export %s", fixture->path);
    assert_done(fixture);
    char **lines = g_strsplit(fixture->output, "\n", -1);
    g_assert_cmpuint(g_strv_length(lines), ==, 5);
    json = json_loads(lines[1], 0, NULL);
    g_assert_cmpstr(json_string_value(json_object_get(json, "text")), ==, "iteration");
    g_assert_cmpuint(integer(json, "payload"), ==, 3);
    json_decref(json);
    g_strfreev(lines);
    run(fixture, "export --format chrome %s", fixture->path);
    assert_done(fixture);
    json = json_loads(fixture->output, 0, NULL);
    g_assert_cmpuint(json_array_size(json_object_get(json, "traceEvents")), ==, 3);
    json_decref(json);
}

static void test_check(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    trace_free(write_random(fixture));
    run(fixture, "check %s", fixture->path);
    assert_done(fixture);
    g_assert_nonnull(strstr(fixture->output, "a valid"));
    char *contents;
    gsize length;
    g_assert_true(g_file_get_contents(fixture->path, &contents, &length, NULL));
    g_assert_true(g_file_set_contents(fixture->path, contents, (gssize)length / 2, NULL));
    g_free(contents);
    static const char *const commands[] = {"info", "check", "export", "export --format chrome"};
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        run(fixture, "%s %s", commands[i], fixture->path);
        assert_refused(fixture, "truncated");
        run(fixture, "%s %s/none.pstar", commands[i], fixture->folder);
        assert_refused(fixture, "none.pstar: No such file");
    }
}

static void test_synth(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    static const char job[] = "--batch 2 --seq 64 --precision bf16";
    gint64 start = g_get_monotonic_time();
    run(fixture, "synth --model " CONFIGS "patrickstar-175b.json %s -o %s", job, fixture->path);
    assert_done(fixture);
    struct trace *trace = trace_read(fixture->path, NULL);
    g_test_message("a trace of 175B parameters in %.3f s",
                   (double)(g_get_monotonic_time() - start) / 1e6);
    /* bf16 with one micro-batch takes 14 bytes per parameter, for 175 billion of them. */
    double parameters = (double)trace_model_bytes(trace) / 14;
    g_assert_cmpfloat(parameters, >, 174e9);
    g_assert_cmpfloat(parameters, <, 176e9);
    g_assert_true(trace->estimated == (trace->operators[0].duration_ns > 0));
    trace_free(trace);

    run(fixture, "synth --model " CONFIGS "gpt2.json %s --recompute 0,2-3 -o %s", job,
        fixture->path);
    assert_done(fixture);
    trace = trace_read(fixture->path, NULL);
    bool recomputed[12] = {false};
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (g_str_has_prefix(trace->operators[m].name, "recompute"))
            recomputed[trace->operators[m].layer] = true;
    for (int layer = 0; layer < 12; layer++)
        g_assert_true(recomputed[layer] == (layer == 0 || layer == 2 || layer == 3));
    trace_free(trace);
}

/* The format of a file, damaged or not, decides how it is read. */
/* The trace of one of several ranks: it holds shards, and says what it exchanges. */
static void test_ranks(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    static const char job[] = "--batch 1 --seq 8 --precision bf16 --model " CONFIGS "gpt2.json";
    run(fixture, "synth %s --ranks 4 --stage 2 --micro-batches 8 -o %s", job, fixture->path);
    assert_done(fixture);
    struct trace *trace = trace_read(fixture->path, NULL);
    g_assert_cmpuint(trace->ranks, ==, 4);
    g_assert_cmpuint(trace->micro_batches, ==, 8);
    g_assert_false(trace->shared_parameters);
    uint64_t elements = 0, reduced = trace_exchanged(trace, TRACE_REDUCE).sent_bytes;
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        elements += trace->tensors[t].elements;
    elements += trace->tensors[0].elements; /* the tied embedding's gradient has two parts */
    g_assert_cmpfloat_with_epsilon((double)reduced, 0.75 * 2 * 4 * (double)elements,
                                   1e-3 * (double)reduced);
    run(fixture, "info %s", fixture->path);
    assert_done(fixture);
    g_assert_nonnull(strstr(fixture->output, "4, which share gradients and optimizer states\n"));
    g_assert_nonnull(strstr(fixture->output, "reduce, sent"));
    uint64_t shards = trace_model_bytes(trace);
    trace_free(trace);

    run(fixture, "synth %s --ranks 4 --stage 3 -o %s", job, fixture->path);
    assert_done(fixture);
    trace = trace_read(fixture->path, NULL);
    g_assert_true(trace->shared_parameters);
    g_assert_cmpuint(trace->micro_batches, ==, 4);
    g_assert_cmpuint(trace_model_bytes(trace), <, shards);
    trace_free(trace);

    /* As in other systems, gradients take no list and half of the network. */
    run(fixture, "synth %s --ranks 4 --stage 3 --reduction fast -o %s", job, fixture->path);
    assert_done(fixture);
    trace = trace_read(fixture->path, NULL);
    g_assert_cmpuint(trace->list_element_bytes[TRACE_GRAD], ==, 0);
    g_assert_cmpuint(trace_exchanged(trace, TRACE_REDUCE).sent_bytes, ==, reduced / 4);
    trace_free(trace);
    static const char *const fast[] = {"--ranks 4 --stage 0", "--ranks 4 --stage 1",
                                       "--ranks 4 --stage 2",
                                       "--ranks 4 --stage 3 --micro-batches 8"};
    for (size_t i = 0; i < G_N_ELEMENTS(fast); i++) {
        run(fixture, "synth %s %s --reduction fast -o %s", job, fast[i], fixture->other);
        assert_done(fixture);
    }
    run(fixture, "synth %s --ranks 1 --reduction fast -o %s", job, fixture->other);
    assert_refused(fixture, "one rank sums nothing");
    run(fixture, "synth %s --ranks 4 --stage 3 --bytes-per-parameter 12 --reduction fast -o %s",
        job, fixture->other);
    assert_refused(fixture, "bytes");

    run(fixture, "synth %s --ranks 4 --micro-batches 6 -o %s", job, fixture->other);
    assert_refused(fixture, "multiple of the number of ranks");
    run(fixture, "synth %s --ranks 4 --stage 1 -o %s", job, fixture->other);
    assert_refused(fixture, "--stage");
    run(fixture, "synth %s --stage 3 -o %s", job, fixture->other);
    assert_refused(fixture, "--ranks");
}

static void test_import(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    run(fixture, "import " PROJECT_DIR "/tests/data/kineto/gpt.json.gz -o %s", fixture->path);
    assert_done(fixture);
    g_assert_nonnull(strstr(fixture->output, "17 tensors, 80 operators"));
    g_assert_nonnull(strstr(fixture->output, "names of parameters"));
    run(fixture, "check %s", fixture->path);
    assert_done(fixture);
    run(fixture, "info %s", fixture->path);
    assert_done(fixture);
    g_assert_nonnull(strstr(fixture->output, "names of parameters"));
    run(fixture, "import %s -o %s", fixture->path, fixture->other);
    assert_refused(fixture, "a trace of pstar already");
}

static void test_bad_usage(struct fixture *fixture, gconstpointer data)
{
    (void)data;
    static const char good[] = "--model " CONFIGS "gpt2.json --batch 1 --seq 8 --precision fp32";
    run(fixture, "%s", "");
    g_assert_cmpint(fixture->code, ==, 2);
    run(fixture, "bring x");
    assert_refused(fixture, "bring");
    run(fixture, "import x");
    assert_refused(fixture, "-o TRACE");
    run(fixture, "import -o out x y");
    assert_refused(fixture, "one FILE");
    run(fixture, "import -o out --format pdf x");
    assert_refused(fixture, "pdf");
    run(fixture, "import -o out not-there");
    assert_refused(fixture, "not-there: No such file");
    run(fixture, "import -o out --format nsys " CONFIGS "gpt2.json");
    assert_refused(fixture, "not an SQLite database");
    run(fixture, "info");
    assert_refused(fixture, "one TRACE");
    run(fixture, "info a b");
    assert_refused(fixture, "one TRACE");
    run(fixture, "export --format pdf a");
    assert_refused(fixture, "pdf");
    run(fixture, "synth %s", good);
    assert_refused(fixture, "-o FILE");
    run(fixture, "synth %s --batch 0 -o %s", good, fixture->other);
    assert_refused(fixture, "--batch");
    run(fixture, "synth %s --precision fp8 -o %s", good, fixture->other);
    assert_refused(fixture, "--precision");
    static const char *const lists[] = {"", "12", "3-1", "1-", "-1", "a", "1,,2", "0-12"};
    for (size_t i = 0; i < G_N_ELEMENTS(lists); i++) {
        run(fixture, "synth %s --recompute '%s' -o %s", good, lists[i], fixture->other);
        assert_refused(fixture, "--recompute");
    }
    run(fixture, "synth %s --seq 4096 -o %s", good, fixture->other);
    assert_refused(fixture, "4096");
    run(fixture, "synth %s --platform %s/none.json -o %s", good, fixture->folder, fixture->other);
    assert_refused(fixture, "none.json");
    g_assert_false(g_file_test(fixture->other, G_FILE_TEST_EXISTS));
    run(fixture, "synth %s -o %s/none/out", good, fixture->folder);
    g_assert_cmpint(fixture->code, ==, 1);
    static const char *const commands[] = {"", "info ", "check ", "export ", "synth "};
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        run(fixture, "%s--help", commands[i]);
        assert_done(fixture);
        g_autofree char *usage = g_strconcat("pstar-trace ", commands[i], NULL);
        g_assert_nonnull(strstr(fixture->output, usage));
    }
}

#define ADD(name, function) g_test_add(name, struct fixture, NULL, set_up, function, tear_down)

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    ADD("/pstar-trace/activity", test_activity);
    ADD("/pstar-trace/info", test_info);
    ADD("/pstar-trace/json-lines", test_json_lines);
    ADD("/pstar-trace/chrome", test_chrome);
    ADD("/pstar-trace/recorded", test_recorded);
    ADD("/pstar-trace/no-iteration", test_no_iteration);
    ADD("/pstar-trace/check", test_check);
    ADD("/pstar-trace/synth", test_synth);
    ADD("/pstar-trace/ranks", test_ranks);
    ADD("/pstar-trace/import", test_import);
    ADD("/pstar-trace/bad-usage", test_bad_usage);
    return g_test_run();
}
