/* Tracks: read from timelines and recordings, summed, and joined. */
#include "report/inputs.h"
#include "report/report.h"
#include "report/tracks.h"
#include "tests/report/sample.h"
#include "traces/annotations.h"
#include "traces/records.h"

#include <string.h>

#define MS          1e-3
#define CLOSE(a, b) g_assert_cmpfloat_with_epsilon(a, b, 1e-9)

static struct report_inputs *read_one(const char *path)
{
    const char *const paths[] = {path, NULL};
    GError *error = NULL;
    struct report_inputs *inputs = inputs_read(paths, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(inputs->tracks->len, ==, 1);
    return inputs;
}

static void check_phase(const struct tracks *tracks, guint index, enum trace_phase phase,
                        double start, double end)
{
    const struct track_phase *part = &g_array_index(tracks->phases, struct track_phase, index);
    g_assert_cmpuint(part->phase, ==, phase);
    CLOSE(part->start, start);
    CLOSE(part->end, end);
}

/* The sample's step, as sample.h describes it. */
static void test_timeline(void)
{
    struct sample *sample = sample_new("");
    struct report_inputs *inputs = read_one(sample->timeline);
    const struct tracks *tracks = g_ptr_array_index(inputs->tracks, 0);
    CLOSE(tracks->seconds, SAMPLE_STEP_MS * MS);
    g_assert_cmpstr(tracks->configuration.maker, ==, "zero3-offload");
    g_assert_cmpuint(tracks->phases->len, ==, 3);
    check_phase(tracks, 0, TRACE_FORWARD, 0, 4 * MS);
    check_phase(tracks, 1, TRACE_BACKWARD, 4 * MS, 16 * MS);
    check_phase(tracks, 2, TRACE_UPDATE_PHASE, 16 * MS, 40 * MS);

    const struct track_sums all = tracks_sum_all(tracks);
    CLOSE(all.busy[TRACK_COMPUTE], 12 * MS);
    CLOSE(all.busy[TRACK_H2D], 4 * MS);
    CLOSE(all.busy[TRACK_D2H], 4 * MS);
    CLOSE(all.busy[TRACK_HOST], 20 * MS);
    CLOSE(all.busy[TRACK_WAIT], 28 * MS);
    CLOSE(all.bytes[TRACK_H2D], 4096);
    /* The last wait was for H2D, which itself waited for the host. */
    CLOSE(all.wait_for[TRACK_D2H], 4 * MS);
    CLOSE(all.wait_for[TRACK_HOST], 20 * MS);
    CLOSE(all.wait_for[TRACK_H2D], 4 * MS);

    const struct track_sums update = tracks_sum(tracks, TRACE_UPDATE_PHASE);
    CLOSE(update.seconds, 24 * MS);
    CLOSE(update.busy[TRACK_COMPUTE], 0);
    CLOSE(update.wait_for[TRACK_HOST], 20 * MS);
    CLOSE(tracks_peak_rate(tracks, TRACK_H2D), 1024 / MS);
    inputs_free(inputs);
    sample_free(sample);
}

static void check_refused(const struct sample *sample, const char *text, const char *message)
{
    g_autofree char *path = sample_file(sample, "bad", text);
    const char *const paths[] = {path, NULL};
    GError *error = NULL;
    g_assert_null(inputs_read(paths, &error));
    g_assert_error(error, REPORT_ERROR, REPORT_ERROR_INPUT);
    if (!strstr(error->message, message))
        g_error("\"%s\" does not say \"%s\"", error->message, message);
    g_error_free(error);
}

static void test_refused(void)
{
    struct sample *sample = sample_new("");
    check_refused(sample, "{\"traceEvents\": []}", "not written by pstar-sim --timeline");
    check_refused(sample,
                  "{\"traceEvents\": [{\"ph\": \"X\", \"ts\": 1, \"dur\": 2, \"name\": \"a\"}],"
                  " \"otherData\": {\"iteration_seconds\": 1}}",
                  "traceEvents[0]");
    sample_free(sample);
}

/* Random spans: sums by column equal sums of the whole, and busy seconds equal a slow count,
 * instant by instant. */
static void test_sums(void)
{
    const char *given = g_getenv("PSTAR_SEED");
    guint32 seed = given ? (guint32)g_ascii_strtoull(given, NULL, 10) : g_random_int();
    g_test_message("PSTAR_SEED=%u", seed);
    GRand *random = g_rand_new_with_seed(seed);
    struct tracks *tracks = tracks_new("random");
    enum { INSTANTS = 1000 };
    bool busy[INSTANTS] = {false};
    double bytes = 0;
    tracks->measured = tracks->known[TRACK_WAIT] = true;
    tracks->seconds = INSTANTS;
    for (int i = g_rand_int_range(random, 0, 60); i-- > 0;) {
        int start = g_rand_int_range(random, 0, INSTANTS - 1);
        int end = g_rand_int_range(random, start + 1, INSTANTS);
        end = MIN(end, start + 100);
        struct track_span *span = tracks_add(tracks, TRACK_H2D, start, end, "copy");
        span->bytes = (uint64_t)g_rand_int_range(random, 0, 1000);
        bytes += (double)span->bytes;
        for (int at = start; at < end; at++)
            busy[at] = true;
    }
    tracks_complete(tracks);
    int from = g_rand_int_range(random, 0, INSTANTS), to = g_rand_int_range(random, from, INSTANTS);
    double expected = 0, sum = 0, columns[7];
    for (int at = from; at < to; at++)
        expected += busy[at];
    g_assert_cmpfloat_with_epsilon(tracks_busy(tracks, TRACK_H2D, from, to), expected, 1e-6);
    tracks_busy_columns(tracks, TRACK_H2D, columns, G_N_ELEMENTS(columns));
    for (size_t c = 0; c < G_N_ELEMENTS(columns); c++)
        sum += columns[c];
    g_assert_cmpfloat_with_epsilon(sum, tracks_busy(tracks, TRACK_H2D, 0, INSTANTS), 1e-6);
    tracks_byte_columns(tracks, TRACK_H2D, columns, G_N_ELEMENTS(columns));
    sum = 0;
    for (size_t c = 0; c < G_N_ELEMENTS(columns); c++)
        sum += columns[c];
    g_assert_cmpfloat_with_epsilon(sum, bytes, 1e-6);
    g_assert_cmpfloat_with_epsilon(tracks_bytes(tracks, TRACK_H2D, 0, INSTANTS), bytes, 1e-6);
    tracks_free(tracks);
    g_rand_free(random);
}

static void add_event(GArray *events, uint8_t type, uint32_t domain, uint32_t category,
                      uint32_t text, uint64_t payload, uint64_t start_ns, uint64_t end_ns)
{
    const struct record event = {.type = type,
                                 .domain = domain,
                                 .category = category,
                                 .text = text,
                                 .payload = payload,
                                 .payload_type = RECORD_UINT64,
                                 .process = 1,
                                 .thread = 1,
                                 .start_ns = start_ns,
                                 .end_ns = end_ns};
    g_array_append_val(events, event);
}

static char *write_recording(const struct sample *sample, const struct trace *trace,
                             const struct records *records)
{
    GError *error = NULL;
    char *path = sample_path(sample, "recorded.pstar");
    struct record_file *file = record_file_new(path, trace, &error);
    g_assert_no_error(error);
    g_assert_true(record_file_add(file, records, &error));
    g_assert_no_error(error);
    record_file_free(file);
    return path;
}

/* Of two annotated iterations the one of median length is shown, and gaps are waits. */
static void test_ranges(void)
{
    struct sample *sample = sample_new("");
    struct trace *trace = sample_trace("");
    g_autoptr(GArray) events = g_array_new(FALSE, FALSE, sizeof(struct record));
    struct record_string strings[] = {{1, (char *)ANNOTATION_DOMAIN}, {2, (char *)"x"}};
    add_event(events, RECORD_DOMAIN, 1, 0, 1, 0, 1, 0);
    for (uint64_t step = 0; step < 2; step++) {
        uint64_t begin = (1 + 100 * step) * 1000000;
        add_event(events, RECORD_PUSH_POP, 1, ANNOTATION_ITERATION, 2, step, begin,
                  begin + (20 + step) * 1000000);
        for (uint64_t m = 0; m < trace->operator_count; m++)
            add_event(events, RECORD_PUSH_POP, 1, ANNOTATION_OPERATOR, 2, m,
                      begin + m * 1500000 + step, begin + m * 1500000 + 1000000);
    }
    const struct records records = {.events = (struct record *)events->data,
                                    .event_count = events->len,
                                    .strings = strings,
                                    .string_count = 2};
    g_autofree char *path = write_recording(sample, trace, &records);
    struct report_inputs *inputs = read_one(path);
    const struct tracks *tracks = g_ptr_array_index(inputs->tracks, 0);
    g_assert_true(tracks->measured);
    g_assert_false(tracks->known[TRACK_H2D]);
    CLOSE(tracks->seconds, 20 * MS);
    const struct track_sums all = tracks_sum_all(tracks);
    CLOSE(all.busy[TRACK_COMPUTE], 12 * MS);
    CLOSE(all.busy[TRACK_WAIT], 8 * MS);
    CLOSE(all.wait_for[TRACK_UNKNOWN], 8 * MS);
    check_phase(tracks, 1, TRACE_BACKWARD, 6 * MS, 12 * MS);
    inputs_free(inputs);
    trace_free(trace);
    sample_free(sample);
}

/* Without a profiler of the device, the program annotates its copies. The gap before each operator
 * is a wait for a copy from the host that ends when the operator begins. */
static void test_copies(void)
{
    struct sample *sample = sample_new("");
    struct trace *trace = sample_trace("");
    g_autoptr(GArray) events = g_array_new(FALSE, FALSE, sizeof(struct record));
    struct record_string strings[] = {{1, (char *)ANNOTATION_DOMAIN},
                                      {2, (char *)"x"},
                                      {3, (char *)ANNOTATION_H2D},
                                      {4, (char *)ANNOTATION_D2H}};
    const uint64_t ms = 1000000;
    uint64_t count = trace->operator_count;
    add_event(events, RECORD_DOMAIN, 1, 0, 1, 0, 1, 0);
    add_event(events, RECORD_PUSH_POP, 1, ANNOTATION_ITERATION, 2, 0, 1 * ms, (1 + 2 * count) * ms);
    for (uint64_t m = 0; m < count; m++) {
        uint64_t at = (1 + 2 * m) * ms;
        add_event(events, RECORD_PUSH_POP, 1, ANNOTATION_COPY, 3, 4 << 20, at, at + ms);
        add_event(events, RECORD_PUSH_POP, 1, ANNOTATION_COPY, 4, 1 << 20, at, at + ms / 4);
        add_event(events, RECORD_PUSH_POP, 1, ANNOTATION_OPERATOR, 2, m, at + ms, at + 2 * ms);
    }
    const struct records records = {.events = (struct record *)events->data,
                                    .event_count = events->len,
                                    .strings = strings,
                                    .string_count = G_N_ELEMENTS(strings)};
    g_autofree char *path = write_recording(sample, trace, &records);
    struct report_inputs *inputs = read_one(path);
    const struct tracks *tracks = g_ptr_array_index(inputs->tracks, 0);
    const struct track_sums all = tracks_sum_all(tracks);
    g_assert_true(tracks->known[TRACK_H2D] && tracks->known[TRACK_D2H] && !tracks->gpu);
    CLOSE(all.bytes[TRACK_H2D], (double)(count * (4 << 20)));
    CLOSE(all.bytes[TRACK_D2H], (double)(count * (1 << 20)));
    CLOSE(all.wait_for[TRACK_H2D], (double)count * MS);
    g_assert_cmpfloat_with_epsilon(tracks_peak_rate(tracks, TRACK_H2D), (4 << 20) / MS, 1);
    inputs_free(inputs);
    trace_free(trace);
    sample_free(sample);
}

/* Times in ms and values, alternating. */
static void check_curve(const struct tracks *tracks, enum curve curve, guint count,
                        const double *expected)
{
    const GArray *points = tracks->curves[curve];
    g_assert_cmpuint(points->len, ==, count);
    for (guint i = 0; i < count; i++) {
        const struct curve_point *point = &g_array_index(points, struct curve_point, i);
        CLOSE(point->time, expected[2 * i] * MS);
        g_assert_cmpfloat_with_epsilon(point->value, expected[2 * i + 1], 1e-3);
    }
}

/* A profiler recorded a program that names its phases in its own words and annotates no iteration.
 * The device runs 2 ms behind the host. Iterations come from PyTorch's marks or from the collector.
 */
static void check_device(bool marked_by_collector)
{
    struct sample *sample = sample_new("");
    struct record_string strings[] = {{1, (char *)"ProfilerStep#3"},
                                      {2, (char *)"Engine.forward"},
                                      {3, (char *)"Engine.backward"},
                                      {4, (char *)"CPUAdam.step"},
                                      {5, (char *)"gemm"},
                                      {6, (char *)"cudaLaunchKernel"},
                                      {7, (char *)ANNOTATION_DOMAIN}};
    g_autoptr(GArray) events = g_array_new(FALSE, FALSE, sizeof(struct record));
    const uint64_t ms = 1000000;
    if (marked_by_collector) {
        add_event(events, RECORD_DOMAIN, 1, 0, 7, 0, 1, 0);
        add_event(events, RECORD_PUSH_POP, 1, ANNOTATION_ITERATION, 5, 0, 1 * ms, 31 * ms);
    } else {
        add_event(events, RECORD_PUSH_POP, 0, 0, 1, 0, 1 * ms, 31 * ms);
    }
    add_event(events, RECORD_PUSH_POP, 0, 0, 2, 0, 1 * ms, 2 * ms);
    add_event(events, RECORD_PUSH_POP, 0, 0, 3, 0, 3 * ms, 4 * ms);
    add_event(events, RECORD_PUSH_POP, 0, 0, 4, 0, 17 * ms, 31 * ms);
    struct kernel_record kernels[] = {
        {.start_ns = 3 * ms, .end_ns = 7 * ms, .correlation = 1, .name = 5, .short_name = 5},
        {.start_ns = 8 * ms, .end_ns = 16 * ms, .correlation = 2, .name = 5, .short_name = 5}};
    struct call_record calls[] = {
        {.start_ns = 1 * ms, .end_ns = 2 * ms, .correlation = 1, .name = 6},
        {.start_ns = 3 * ms, .end_ns = 4 * ms, .correlation = 2, .name = 6}};
    struct copy_record copies[] = {{.start_ns = 7 * ms,
                                    .end_ns = 8 * ms,
                                    .bytes = 4 << 20,
                                    .kind = COPY_DEVICE_TO_HOST,
                                    .source = MEMORY_DEVICE,
                                    .destination = MEMORY_PINNED}};
    struct memory_record memory[] = {
        {.start_ns = 1 * ms, .address = 256, .bytes = 1 << 20, .kind = MEMORY_DEVICE},
        {.start_ns = 2 * ms, .address = 1 << 30, .bytes = 3000, .kind = MEMORY_PINNED},
        {.start_ns = 5 * ms, .address = 1 << 22, .bytes = 1 << 21, .kind = MEMORY_DEVICE},
        {.start_ns = 9 * ms, .address = 256, .kind = MEMORY_DEVICE, .operation = MEMORY_FREE}};
    struct record_sample samples[] = {{1 * ms, "device0_pcie_sent_bytes", 100},
                                      {1 * ms, "resident_bytes", 5000},
                                      {11 * ms, "device0_pcie_sent_bytes", 10100},
                                      {13 * ms, "device0_pcie_sent_bytes", 7}, /* wrapped */
                                      {15 * ms, "device0_pcie_sent_bytes", 2007}};
    const struct activity activity = {.memory = memory,
                                      .memory_count = G_N_ELEMENTS(memory),
                                      .kernels = kernels,
                                      .kernel_count = 2,
                                      .calls = calls,
                                      .call_count = 2,
                                      .copies = copies,
                                      .copy_count = 1};
    const struct records records = {.events = (struct record *)events->data,
                                    .event_count = events->len,
                                    .strings = strings,
                                    .string_count = G_N_ELEMENTS(strings),
                                    .samples = samples,
                                    .sample_count = G_N_ELEMENTS(samples),
                                    .activity = &activity};
    g_autofree char *path = write_recording(sample, NULL, &records);
    const char *const paths[] = {path, PROJECT_DIR "/platforms/a100-40gb.json", NULL};
    GError *error = NULL;
    struct report_inputs *inputs = inputs_read(paths, &error);
    g_assert_no_error(error);
    const struct tracks *tracks = g_ptr_array_index(inputs->tracks, 0);
    g_assert_cmpfloat_with_epsilon(tracks->link_rate[1], 25e9, 1);
    g_assert_true(g_str_has_suffix(tracks->link_said_by, "a100-40gb.json"));
    g_assert_true(tracks->gpu);
    CLOSE(tracks->seconds, 28 * MS); /* from the first kernel on */
    check_phase(tracks, 0, TRACE_FORWARD, 0, 5 * MS);
    check_phase(tracks, 1, TRACE_BACKWARD, 5 * MS, 14 * MS);
    check_phase(tracks, 2, TRACE_UPDATE_PHASE, 14 * MS, 28 * MS);
    const struct track_sums all = tracks_sum_all(tracks);
    CLOSE(all.busy[TRACK_COMPUTE], 12 * MS);
    CLOSE(all.bytes[TRACK_D2H], 4 << 20);
    CLOSE(all.wait_for[TRACK_D2H], 1 * MS);
    CLOSE(all.wait_for[TRACK_HOST], 15 * MS);
    /* The window begins at 3 ms, with what was allocated before. */
    check_curve(tracks, CURVE_ALLOCATED, 3, (const double[]){0, 1 << 20, 2, 3 << 20, 6, 2 << 20});
    check_curve(tracks, CURVE_PINNED, 1, (const double[]){0, 3000});
    check_curve(tracks, CURVE_RESIDENT, 1, (const double[]){0, 5000});
    check_curve(tracks, CURVE_D2H, 2, (const double[]){8, 1e6, 12, 1e6});
    check_curve(tracks, CURVE_MANAGED, 0, NULL);
    inputs_free(inputs);
    sample_free(sample);
}

static void test_device(void)
{
    check_device(false);
    check_device(true);
}

/* Only kernels with telling names in annotated iterations: a phase begins with its first kernel. */
static void test_names(void)
{
    struct sample *sample = sample_new("");
    static const char *const names[] = {"gemm", "gemm_backward", "multi_tensor_adam"};
    struct record_string strings[] = {{1, (char *)ANNOTATION_DOMAIN},
                                      {2, (char *)names[0]},
                                      {3, (char *)names[1]},
                                      {4, (char *)names[2]}};
    enum { KERNELS = 6, STEPS = 3 };
    const uint64_t ms = 1000000;
    g_autoptr(GArray) events = g_array_new(FALSE, FALSE, sizeof(struct record));
    struct kernel_record kernels[KERNELS * STEPS];
    struct call_record calls[KERNELS * STEPS];
    add_event(events, RECORD_DOMAIN, 1, 0, 1, 0, 1, 0);
    for (uint32_t i = 0; i < KERNELS * STEPS; i++) {
        uint32_t name = 2 + i % KERNELS / 2;
        calls[i] = (struct call_record){.start_ns = (10 + 4 * i) * ms,
                                        .end_ns = (11 + 4 * i) * ms,
                                        .correlation = i + 1,
                                        .name = 2};
        kernels[i] = (struct kernel_record){.start_ns = (12 + 4 * i) * ms,
                                            .end_ns = (15 + 4 * i) * ms,
                                            .correlation = i + 1,
                                            .name = name,
                                            .short_name = name};
        if (i % KERNELS == 0)
            add_event(events, RECORD_PUSH_POP, 1, ANNOTATION_ITERATION, 2, i / KERNELS,
                      (10 + 4 * i) * ms - 1, (10 + 4 * (i + KERNELS)) * ms - 1);
    }
    const struct activity activity = {.kernels = kernels,
                                      .kernel_count = KERNELS * STEPS,
                                      .calls = calls,
                                      .call_count = KERNELS * STEPS};
    const struct records records = {.events = (struct record *)events->data,
                                    .event_count = events->len,
                                    .strings = strings,
                                    .string_count = G_N_ELEMENTS(strings),
                                    .activity = &activity};
    g_autofree char *path = write_recording(sample, NULL, &records);
    struct report_inputs *inputs = read_one(path);
    const struct tracks *tracks = g_ptr_array_index(inputs->tracks, 0);
    g_assert_cmpuint(tracks->phases->len, ==, 3);
    check_phase(tracks, 0, TRACE_FORWARD, 0, 8 * MS);
    check_phase(tracks, 1, TRACE_BACKWARD, 8 * MS, 16 * MS);
    check_phase(tracks, 2, TRACE_UPDATE_PHASE, 16 * MS, 24 * MS);
    inputs_free(inputs);
    sample_free(sample);
}

enum { SPANS = 40, PARTS = 50 };

/* Slow and obvious: looks at every span. */
static double slow_bytes(const GArray *spans, double start, double end)
{
    double bytes = 0;
    for (guint i = 0; i < spans->len; i++) {
        const struct track_span *span = &g_array_index(spans, struct track_span, i);
        double from = MAX(span->start, start), to = MIN(span->end, end);
        if (to > from)
            bytes += (double)span->bytes * (to - from) / (span->end - span->start);
    }
    return bytes;
}

/* Spans of drawn lengths that overlap. Busy seconds and bytes of drawn parts are those that a look
 * at every span gives, and waits never add up to more than the step. */
static void test_parts(void)
{
    struct tracks *tracks = tracks_new("drawn");
    tracks->seconds = 100;
    tracks->known[TRACK_WAIT] = true;
    for (unsigned i = 0; i < SPANS; i++) {
        double start = g_test_rand_int_range(0, 100),
               length = g_test_rand_int_range(0, i % 7 ? 8 : 60);
        tracks_add(tracks, TRACK_H2D, start, start + length, "copy")->bytes = 1000;
        tracks_add(tracks, TRACK_WAIT, start, start + length, "wait")->cause = TRACK_H2D;
    }
    tracks_complete(tracks);
    for (unsigned i = 0; i < PARTS; i++) {
        double start = g_test_rand_double_range(0, 100), end = g_test_rand_double_range(start, 100);
        const GArray *spans = tracks->spans[TRACK_H2D];
        CLOSE(tracks_bytes(tracks, TRACK_H2D, start, end), slow_bytes(spans, start, end));
    }
    const struct track_sums all = tracks_sum_all(tracks);
    CLOSE(all.busy[TRACK_WAIT], all.busy[TRACK_H2D]);
    CLOSE(all.wait_for[TRACK_H2D], all.busy[TRACK_H2D]);
    tracks_free(tracks);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/tracks/timeline", test_timeline);
    g_test_add_func("/report/tracks/refused", test_refused);
    g_test_add_func("/report/tracks/sums", test_sums);
    g_test_add_func("/report/tracks/ranges", test_ranges);
    g_test_add_func("/report/tracks/copies", test_copies);
    g_test_add_func("/report/tracks/device", test_device);
    g_test_add_func("/report/tracks/names", test_names);
    g_test_add_func("/report/tracks/parts", test_parts);
    return g_test_run();
}
