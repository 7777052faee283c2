/* Who was busy when: read from timelines and recordings, summed, and joined. */
#include "report/inputs.h"
#include "report/report.h"
#include "report/timeline.h"
#include "tests/report/sample.h"
#include "traces/annotations.h"
#include "traces/records.h"

#include <string.h>

#define MS          1e-3
#define CLOSE(a, b) g_assert_cmpfloat_with_epsilon(a, b, 1e-9)

static struct inputs *read_one(const char *path)
{
    const char *const paths[] = {path, NULL};
    GError *error = NULL;
    struct inputs *inputs = inputs_read(paths, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(inputs->strips->len, ==, 1);
    return inputs;
}

static void check_phase(const struct strips *strips, guint index, enum trace_phase phase,
                        double start, double end)
{
    const struct strip_phase *part = &g_array_index(strips->phases, struct strip_phase, index);
    g_assert_cmpuint(part->phase, ==, phase);
    CLOSE(part->start, start);
    CLOSE(part->end, end);
}

/* The sample's step, as its header describes it. */
static void test_timeline(void)
{
    struct sample *sample = sample_new("");
    struct inputs *inputs = read_one(sample->timeline);
    const struct strips *strips = g_ptr_array_index(inputs->strips, 0);
    CLOSE(strips->seconds, SAMPLE_STEP_MS * MS);
    g_assert_cmpstr(strips->configuration.maker, ==, "zero3-offload");
    g_assert_cmpuint(strips->phases->len, ==, 3);
    check_phase(strips, 0, TRACE_FORWARD, 0, 4 * MS);
    check_phase(strips, 1, TRACE_BACKWARD, 4 * MS, 16 * MS);
    check_phase(strips, 2, TRACE_UPDATE_PHASE, 16 * MS, 40 * MS);

    const struct strip_sums all = strips_sum_all(strips);
    CLOSE(all.busy[STRIP_COMPUTE], 12 * MS);
    CLOSE(all.busy[STRIP_H2D], 4 * MS);
    CLOSE(all.busy[STRIP_D2H], 4 * MS);
    CLOSE(all.busy[STRIP_HOST], 20 * MS);
    CLOSE(all.busy[STRIP_WAIT], 28 * MS);
    CLOSE(all.bytes[STRIP_H2D], 4096);
    /* The last wait was for H2D, which itself waited for the host. */
    CLOSE(all.wait_for[STRIP_D2H], 4 * MS);
    CLOSE(all.wait_for[STRIP_HOST], 20 * MS);
    CLOSE(all.wait_for[STRIP_H2D], 4 * MS);

    const struct strip_sums update = strips_sum(strips, TRACE_UPDATE_PHASE);
    CLOSE(update.seconds, 24 * MS);
    CLOSE(update.busy[STRIP_COMPUTE], 0);
    CLOSE(update.wait_for[STRIP_HOST], 20 * MS);
    CLOSE(strips_peak_rate(strips, STRIP_H2D), 1024 / MS);
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
    check_refused(sample, "{\"traceEvents\": []}", "not of pstar-sim --timeline");
    check_refused(sample,
                  "{\"traceEvents\": [{\"ph\": \"X\", \"ts\": 1, \"dur\": 2, \"name\": \"a\"}],"
                  " \"otherData\": {\"iteration_seconds\": 1}}",
                  "traceEvents[0]");
    sample_free(sample);
}

/* Spans at random: sums by column are sums of the whole, and busy seconds are those of a slow
 * count, instant by instant. */
static void test_sums(void)
{
    const char *given = g_getenv("PSTAR_SEED");
    guint32 seed = given ? (guint32)g_ascii_strtoull(given, NULL, 10) : g_random_int();
    g_test_message("PSTAR_SEED=%u", seed);
    GRand *random = g_rand_new_with_seed(seed);
    struct strips *strips = strips_new("random");
    enum { INSTANTS = 1000 };
    bool busy[INSTANTS] = {false};
    double bytes = 0;
    strips->measured = strips->known[STRIP_WAIT] = true;
    strips->seconds = INSTANTS;
    for (int i = g_rand_int_range(random, 0, 60); i-- > 0;) {
        int start = g_rand_int_range(random, 0, INSTANTS - 1);
        int end = g_rand_int_range(random, start + 1, INSTANTS);
        end = MIN(end, start + 100);
        struct strip_span *span = strips_add(strips, STRIP_H2D, start, end, "copy");
        span->bytes = (uint64_t)g_rand_int_range(random, 0, 1000);
        bytes += (double)span->bytes;
        for (int at = start; at < end; at++)
            busy[at] = true;
    }
    strips_complete(strips);
    int from = g_rand_int_range(random, 0, INSTANTS), to = g_rand_int_range(random, from, INSTANTS);
    double expected = 0, sum = 0, columns[7];
    for (int at = from; at < to; at++)
        expected += busy[at];
    g_assert_cmpfloat_with_epsilon(strips_busy(strips, STRIP_H2D, from, to), expected, 1e-6);
    strips_busy_columns(strips, STRIP_H2D, columns, G_N_ELEMENTS(columns));
    for (size_t c = 0; c < G_N_ELEMENTS(columns); c++)
        sum += columns[c];
    g_assert_cmpfloat_with_epsilon(sum, strips_busy(strips, STRIP_H2D, 0, INSTANTS), 1e-6);
    strips_byte_columns(strips, STRIP_H2D, columns, G_N_ELEMENTS(columns));
    sum = 0;
    for (size_t c = 0; c < G_N_ELEMENTS(columns); c++)
        sum += columns[c];
    g_assert_cmpfloat_with_epsilon(sum, bytes, 1e-6);
    g_assert_cmpfloat_with_epsilon(strips_bytes(strips, STRIP_H2D, 0, INSTANTS), bytes, 1e-6);
    strips_free(strips);
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

/* Two iterations of ranges: the one of median length is shown, and gaps are waits. */
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
    struct inputs *inputs = read_one(path);
    const struct strips *strips = g_ptr_array_index(inputs->strips, 0);
    g_assert_true(strips->measured);
    g_assert_false(strips->known[STRIP_H2D]);
    CLOSE(strips->seconds, 20 * MS);
    const struct strip_sums all = strips_sum_all(strips);
    CLOSE(all.busy[STRIP_COMPUTE], 12 * MS);
    CLOSE(all.busy[STRIP_WAIT], 8 * MS);
    CLOSE(all.wait_for[STRIP_UNKNOWN], 8 * MS);
    check_phase(strips, 1, TRACE_BACKWARD, 6 * MS, 12 * MS);
    inputs_free(inputs);
    trace_free(trace);
    sample_free(sample);
}

/* A device that no profiler watches annotates its copies: the gap before each operator is for one
 * from the host, which ends when the operator begins. */
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
    struct inputs *inputs = read_one(path);
    const struct strips *strips = g_ptr_array_index(inputs->strips, 0);
    const struct strip_sums all = strips_sum_all(strips);
    g_assert_true(strips->known[STRIP_H2D] && strips->known[STRIP_D2H] && !strips->gpu);
    CLOSE(all.bytes[STRIP_H2D], (double)(count * (4 << 20)));
    CLOSE(all.bytes[STRIP_D2H], (double)(count * (1 << 20)));
    CLOSE(all.wait_for[STRIP_H2D], (double)count * MS);
    g_assert_cmpfloat_with_epsilon(strips_peak_rate(strips, STRIP_H2D), (4 << 20) / MS, 1);
    inputs_free(inputs);
    trace_free(trace);
    sample_free(sample);
}

/* Times in ms, and values, in turn. */
static void check_curve(const struct strips *strips, enum curve curve, guint count,
                        const double *expected)
{
    const GArray *points = strips->curves[curve];
    g_assert_cmpuint(points->len, ==, count);
    for (guint i = 0; i < count; i++) {
        const struct curve_point *point = &g_array_index(points, struct curve_point, i);
        CLOSE(point->time, expected[2 * i] * MS);
        g_assert_cmpfloat_with_epsilon(point->value, expected[2 * i + 1], 1e-3);
    }
}

/* What a profiler saw of a program that marks its phases in its own words and annotates no
 * iteration: the device runs 2 ms behind the host. Iterations are PyTorch's marks, or the ones that
 * the collector has written. */
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
    struct inputs *inputs = inputs_read(paths, &error);
    g_assert_no_error(error);
    const struct strips *strips = g_ptr_array_index(inputs->strips, 0);
    g_assert_cmpfloat_with_epsilon(strips->link_rate[1], 25e9, 1);
    g_assert_true(g_str_has_suffix(strips->link_said_by, "a100-40gb.json"));
    g_assert_true(strips->gpu);
    CLOSE(strips->seconds, 28 * MS); /* from the first kernel on */
    check_phase(strips, 0, TRACE_FORWARD, 0, 5 * MS);
    check_phase(strips, 1, TRACE_BACKWARD, 5 * MS, 14 * MS);
    check_phase(strips, 2, TRACE_UPDATE_PHASE, 14 * MS, 28 * MS);
    const struct strip_sums all = strips_sum_all(strips);
    CLOSE(all.busy[STRIP_COMPUTE], 12 * MS);
    CLOSE(all.bytes[STRIP_D2H], 4 << 20);
    CLOSE(all.wait_for[STRIP_D2H], 1 * MS);
    CLOSE(all.wait_for[STRIP_HOST], 15 * MS);
    /* The window begins at 3 ms, with what was allocated until then. */
    check_curve(strips, CURVE_ALLOCATED, 3, (const double[]){0, 1 << 20, 2, 3 << 20, 6, 2 << 20});
    check_curve(strips, CURVE_PINNED, 1, (const double[]){0, 3000});
    check_curve(strips, CURVE_RESIDENT, 1, (const double[]){0, 5000});
    check_curve(strips, CURVE_D2H, 2, (const double[]){8, 1e6, 12, 1e6});
    check_curve(strips, CURVE_MANAGED, 0, NULL);
    inputs_free(inputs);
    sample_free(sample);
}

static void test_device(void)
{
    check_device(false);
    check_device(true);
}

/* Nothing but kernels with telling names in marked iterations: a phase begins with its first. */
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
    struct inputs *inputs = read_one(path);
    const struct strips *strips = g_ptr_array_index(inputs->strips, 0);
    g_assert_cmpuint(strips->phases->len, ==, 3);
    check_phase(strips, 0, TRACE_FORWARD, 0, 8 * MS);
    check_phase(strips, 1, TRACE_BACKWARD, 8 * MS, 16 * MS);
    check_phase(strips, 2, TRACE_UPDATE_PHASE, 16 * MS, 24 * MS);
    inputs_free(inputs);
    sample_free(sample);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/strips/timeline", test_timeline);
    g_test_add_func("/report/strips/refused", test_refused);
    g_test_add_func("/report/strips/sums", test_sums);
    g_test_add_func("/report/strips/ranges", test_ranges);
    g_test_add_func("/report/strips/copies", test_copies);
    g_test_add_func("/report/strips/device", test_device);
    g_test_add_func("/report/strips/names", test_names);
    return g_test_run();
}
