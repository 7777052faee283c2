/* A step of one of several ranks, as PyTorch's profiler writes it. Collectives are kernels in a
 * stream of their own, recognised by name only. Compute that overlaps them is no wait. */
#include "report/contents.h"
#include "tests/report/drawn.h"
#include "traces/annotations.h"
#include "traces/import/import.h"

#include <string.h>

#define US          1e-6
#define CLOSE(a, b) g_assert_cmpfloat_with_epsilon(a, b, 1e-9)

enum { STEPS = 3, STEP_US = 1000 };

/* Times in us from the start of a step. Parameters are gathered before forward while nothing is
 * computed. Half of the gradients' reduction overlaps backward. The update waits for it. */
static const struct kernel {
    const char *name;
    unsigned stream, start, us;
} kernels[] = {
    {"ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", 20, 20, 180},
    {"ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn", 7, 200, 200},
    {"ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_64x3_nn", 7, 400, 300},
    {"ncclKernel_ReduceScatter_RING_LL_Sum___nv_bfloat16(ncclDevComm*, unsigned long, ncclWork*)",
     20, 600, 300},
    {"void at::native::multi_tensor_apply_kernel<FusedAdam>(at::native::Adam)", 7, 900, 100},
};

static void append_event(GString *json, const char *category, const char *name, double start,
                         double us, const char *args)
{
    g_string_append_printf(json,
                           "%s{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":1,\"tid\":1,"
                           "\"ts\":%.3f,\"dur\":%.3f,\"args\":{%s}}",
                           json->len ? ",\n" : "", category, name, start, us, args);
}

static void append_step(GString *json, unsigned step)
{
    double at = 1669783687000000.0 + STEP_US * step;
    g_autofree char *mark = g_strdup_printf("ProfilerStep#%u", step);
    append_event(json, "user_annotation", mark, at, STEP_US - 1, "");
    for (size_t k = 0; k < G_N_ELEMENTS(kernels); k++) {
        unsigned correlation = step * G_N_ELEMENTS(kernels) + (unsigned)k + 1;
        g_autofree char *call = g_strdup_printf("\"correlation\":%u", correlation);
        g_autofree char *args = g_strdup_printf(
            "\"device\":0,\"context\":1,\"stream\":%u,\"correlation\":%u,\"grid\":[8,1,1],"
            "\"block\":[128,1,1]",
            kernels[k].stream, correlation);
        append_event(json, "cuda_runtime", "cudaLaunchKernel", at + 1 + (double)k, 0.5, call);
        append_event(json, "kernel", kernels[k].name, at + kernels[k].start, kernels[k].us, args);
    }
}

/* Returns the path of the trace. Free with g_free. */
static char *import_profile(const struct sample *sample)
{
    g_autoptr(GString) events = g_string_new(NULL);
    g_autoptr(GPtrArray) unknown = g_ptr_array_new_with_free_func(g_free);
    GError *error = NULL;
    for (unsigned step = 0; step < STEPS; step++)
        append_step(events, step);
    g_autofree char *json = g_strdup_printf(
        "{\"schemaVersion\":1,\"traceEvents\":[%s],\"distributedInfo\":{\"backend\":\"nccl\","
        "\"rank\":0,\"world_size\":2},\"deviceProperties\":[{\"id\":0,\"name\":\"A100\","
        "\"totalGlobalMem\":42949672960,\"numSms\":108}]}",
        events->str);
    g_autofree char *profile = sample_file(sample, "profile.json", json);
    char *path = sample_path(sample, "rank0.pstar");
    g_assert_true(import_kineto(profile, path, unknown, &error));
    g_assert_no_error(error);
    return path;
}

static void check_tracks(const struct tracks *tracks)
{
    const struct track_sums all = tracks_sum_all(tracks);
    g_assert_true(tracks->known[TRACK_NETWORK]);
    CLOSE(tracks->seconds, STEP_US * US);
    CLOSE(all.busy[TRACK_NETWORK], 480 * US);
    CLOSE(all.busy[TRACK_COMPUTE], 600 * US);
    CLOSE(all.busy[TRACK_WAIT],
          400 * US); /* including the gap before the collective of the next step */
    CLOSE(all.wait_for[TRACK_NETWORK], 380 * US);
    CLOSE(all.wait_for[TRACK_UNKNOWN], 20 * US);
}

static void check_advice(const struct contents *contents)
{
    g_assert_true(g_str_has_suffix(contents->verdict, "mostly for other devices"));
    const struct advice *first = g_ptr_array_index(contents->advice, 0);
    g_assert_true(
        g_str_has_prefix(first->claim, "The device waits for collectives and other ranks"));
    g_assert_nonnull(strstr(first->detail, "48 % of the step"));
}

static void test_collectives(void)
{
    struct sample *sample = sample_new("");
    g_autofree char *path = import_profile(sample);
    const char *const files[] = {path, NULL};
    GError *error = NULL;
    struct report_inputs *inputs = inputs_read(files, &error);
    g_assert_no_error(error);
    g_assert_cmpuint(inputs->tracks->len, ==, 1);
    struct contents *contents = contents_new(inputs);
    check_tracks(g_ptr_array_index(inputs->tracks, 0));
    check_advice(contents);
    contents_free(contents);
    inputs_free(inputs);
    sample_free(sample);
}

/* A simulated rank that gathers 100 MB in 1 ms of a step of 4 ms, for which its device waits half a
 * millisecond. */
static const char simulated[] =
    "{\"traceEvents\":["
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"tid\":0,\"args\":{\"name\":\"compute\"}},"
    "{\"ph\":\"X\",\"name\":\"forward\",\"tid\":0,\"ts\":1000,\"dur\":3000,"
    "\"args\":{\"phase\":\"forward\"}},"
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"tid\":4,\"args\":{\"name\":\"network\"}},"
    "{\"ph\":\"X\",\"name\":\"fetch\",\"tid\":4,\"ts\":0,\"dur\":1000,"
    "\"args\":{\"bytes\":100000000}},"
    "{\"ph\":\"M\",\"name\":\"thread_name\",\"tid\":6,\"args\":{\"name\":\"stalls\"}},"
    "{\"ph\":\"X\",\"name\":\"wait\",\"tid\":6,\"ts\":500,\"dur\":500,"
    "\"args\":{\"waits_for\":\"network\"}}],"
    "\"otherData\":{\"iteration_seconds\":0.004,\"h2d_rate\":1e9,\"d2h_rate\":1e9%s}}";

static struct text_table *simulated_table(const char *rate, struct tracks **tracks)
{
    g_autofree char *text = g_strdup_printf(simulated, rate);
    json_t *root = json_loads(text, 0, NULL);
    GError *error = NULL;
    *tracks = tracks_of_timeline(root, "timeline.json", &error);
    g_assert_no_error(error);
    json_decref(root);
    return table_busy(*tracks);
}

static void test_simulated(void)
{
    struct tracks *tracks;
    struct text_table *table = simulated_table(",\"network_rate\":2e11", &tracks);
    const struct track_sums sums = tracks_sum_all(tracks);
    g_assert_true(tracks->known[TRACK_NETWORK]);
    CLOSE(sums.busy[TRACK_NETWORK], 1e-3);
    CLOSE(sums.wait_for[TRACK_NETWORK], 5e-4);
    CLOSE(sums.bytes[TRACK_NETWORK], 1e8);
    g_assert_nonnull(strstr(table->note, "receives 100 GB/s from the others while the network is "
                                         "busy, and 25 GB/s over the step; the platform's peak is "
                                         "200 GB/s"));
    table_free(table);
    tracks_free(tracks);
    table = simulated_table("", &tracks);
    g_assert_null(strstr(table->note, "peak"));
    table_free(table);
    tracks_free(tracks);
}

static void test_drawn(void)
{
    if (!drawn_has_gnuplot())
        return;
    struct sample *sample = sample_new("");
    g_autofree char *path = import_profile(sample);
    const char *const files[] = {path, NULL};
    g_autofree char *summary = drawn_report(sample, files, REPORT_TEXT);
    g_assert_nonnull(strstr(summary, "Network"));
    drawn_check(sample, "busy");
    drawn_check(sample, "bars");
    g_autofree char *busy_path = drawn_path(sample, "busy", ".svg");
    g_autofree char *busy = sample_read(busy_path), *page = drawn_page(sample);
    g_assert_nonnull(strstr(busy, "network  48 %"));
    drawn_check_page(page);
    g_assert_nonnull(strstr(page, "ncclDevKernel_AllGather_RING_LL"));
    sample_free(sample);
}

static char *write_recording(const struct sample *sample, const char *name,
                             const struct trace *trace, const struct records *records)
{
    char *path = sample_path(sample, name);
    GError *error = NULL;
    struct record_file *file = record_file_new(path, trace, &error);
    g_assert_no_error(error);
    g_assert_true(record_file_add(file, records, &error));
    record_file_free(file);
    return path;
}

/* A domain, the range of a step, and two ranges within it. */
enum { STEP_EVENTS = 4 };

/* Writes the recording of a step, whose operators take 1 ms, and frees the trace. */
static char *write_step(const struct sample *sample, const char *name, struct trace *trace,
                        struct record events[STEP_EVENTS], struct record_string *strings,
                        uint32_t string_count)
{
    for (int i = 1; i < STEP_EVENTS; i++) {
        events[i].type = RECORD_PUSH_POP;
        events[i].domain = 1;
        events[i].payload_type = RECORD_UINT64;
    }
    for (uint32_t m = 0; m < trace->operator_count; m++)
        trace->operators[m].duration_ns = 1000000;
    const struct records records = {.events = events,
                                    .event_count = STEP_EVENTS,
                                    .strings = strings,
                                    .string_count = string_count};
    char *path = write_recording(sample, name, trace, &records);
    trace_free(trace);
    return path;
}

/* Writes the recording of a step of one of two ranks that gathers 40 MB for so many ms. */
static char *write_rank(const struct sample *sample, uint32_t rank, uint64_t gather_ms)
{
    const uint64_t ms = 1000000;
    struct trace *trace = sample_trace("");
    struct record_string strings[] = {
        {1, (char *)ANNOTATION_DOMAIN}, {2, (char *)"step"}, {3, (char *)ANNOTATION_GATHER}};
    struct record events[STEP_EVENTS] = {
        {.type = RECORD_DOMAIN, .domain = 1, .text = 1, .start_ns = 1},
        {.category = ANNOTATION_ITERATION, .text = 2, .start_ns = ms, .end_ns = 41 * ms},
        {.category = ANNOTATION_EXCHANGE, .text = 3, .start_ns = 2 * ms},
        {.category = ANNOTATION_OPERATOR, .text = 2, .start_ns = 20 * ms, .end_ns = 30 * ms}};
    trace->ranks = trace->micro_batches = 2;
    events[2].end_ns = (2 + gather_ms) * ms;
    events[2].payload = 40000000;
    g_autofree char *name = g_strdup_printf("rank%u.pstar", rank);
    return write_step(sample, name, trace, events, strings, G_N_ELEMENTS(strings));
}

/* A step of 40 ms, in which the first operator computes for 10 ms and the second exchanges with
 * others, and waits for them, for 28 ms. */
static char *write_waiting(const struct sample *sample, enum trace_collective collective)
{
    const uint64_t ms = 1000000;
    struct trace *trace = sample_trace("");
    struct record_string strings[] = {{1, (char *)ANNOTATION_DOMAIN}, {2, (char *)"step"}};
    struct record events[STEP_EVENTS] = {
        {.type = RECORD_DOMAIN, .domain = 1, .text = 1, .start_ns = 1},
        {.category = ANNOTATION_ITERATION, .text = 2, .start_ns = ms, .end_ns = 41 * ms},
        {.category = ANNOTATION_OPERATOR, .text = 2, .start_ns = ms, .end_ns = 11 * ms},
        {.category = ANNOTATION_OPERATOR,
         .text = 2,
         .start_ns = 12 * ms,
         .end_ns = 40 * ms,
         .payload = 1}};
    if (collective == TRACE_PASS)
        trace->stages = 2;
    else
        trace->ranks = trace->micro_batches = 2;
    trace->operators[1].place = TRACE_ON_DEVICE;
    trace->operators[1].exchange[collective] = (struct trace_exchange){1000, 1000};
    return write_step(sample, "waiting.pstar", trace, events, strings, G_N_ELEMENTS(strings));
}

/* An operator that waits for other ranks, or for another stage, does not compute. */
static void test_waiting(gconstpointer data)
{
    struct sample *sample = sample_new("");
    g_autofree char *path = write_waiting(sample, (enum trace_collective)GPOINTER_TO_INT(data));
    const char *const files[] = {path, NULL};
    GError *error = NULL;
    struct report_inputs *inputs = inputs_read(files, &error);
    g_assert_no_error(error);
    const struct track_sums all = tracks_sum_all(g_ptr_array_index(inputs->tracks, 0));
    CLOSE(all.busy[TRACK_COMPUTE], 10e-3);
    CLOSE(all.busy[TRACK_NETWORK], 28e-3);
    g_assert_cmpfloat(all.wait_for[TRACK_NETWORK], >=, 28e-3);
    struct contents *contents = contents_new(inputs);
    g_assert_true(g_str_has_suffix(contents->verdict, "mostly for other devices"));
    contents_free(contents);
    inputs_free(inputs);
    sample_free(sample);
}

/* The second rank comes last to the gather, and the first waits 6 ms for it. 40 MB in 4 ms are half
 * of what the platform's ranks can receive. */
static void test_ranks(void)
{
    struct sample *sample = sample_new("");
    g_autofree char *first = write_rank(sample, 0, 10), *second = write_rank(sample, 1, 4);
    g_autofree char *platform = sample_path(sample, "machine.json");
    json_t *machine = json_load_file(PROJECT_DIR "/platforms/dgx-a100.json", 0, NULL);
    json_t *node = json_object_get(machine, "node");
    json_object_set_new(node, "bytes_per_second", json_real(2e10));
    json_object_set_new(node, "latency_seconds", json_real(0));
    g_assert_cmpint(json_dump_file(machine, platform, 0), ==, 0);
    json_decref(machine);
    for (int known = 0; known < 2; known++) {
        const char *const files[] = {first, second, known ? platform : NULL, NULL};
        const char *const alone[] = {first, known ? platform : NULL, NULL};
        GError *error = NULL;
        struct report_inputs *inputs = inputs_read(files, &error);
        g_assert_no_error(error);
        struct text_table *table = table_ranks(inputs);
        const GPtrArray *row = g_ptr_array_index(table->rows, 0);
        g_assert_cmpstr(g_ptr_array_index(row, 2), ==, "4.00 ms");
        g_assert_cmpstr(g_ptr_array_index(row, 3), ==, "6.00 ms");
        g_assert_cmpstr(g_ptr_array_index(row, 4), ==, "0 of 1");
        row = g_ptr_array_index(table->rows, 1);
        g_assert_cmpstr(g_ptr_array_index(row, 4), ==, "1 of 1");
        g_assert_nonnull(strstr(table->note, "a rank receives 10 GB/s without waiting"));
        g_assert_true(
            (strstr(table->note, "receive 20 GB/s, so this is 50 % of the peak") != NULL) == known);
        table_free(table);
        inputs_free(inputs);
        inputs = inputs_read(alone, &error);
        g_assert_no_error(error);
        g_assert_null(table_ranks(inputs)); /* a rank is missing */
        inputs_free(inputs);
    }
    if (drawn_has_gnuplot()) {
        const char *const files[] = {first, second, platform, NULL};
        g_autofree char *summary = drawn_report(sample, files, REPORT_TEXT);
        g_autofree char *page = drawn_page(sample);
        g_assert_nonnull(strstr(summary, "Who waits for whom"));
        g_assert_nonnull(strstr(page, "Who waits for whom"));
        g_assert_nonnull(strstr(page, "50 % of the peak"));
        drawn_check_page(page);
    }
    sample_free(sample);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/report/network/collectives", test_collectives);
    g_test_add_func("/report/network/simulated", test_simulated);
    g_test_add_func("/report/network/ranks", test_ranks);
    g_test_add_data_func("/report/network/reduction", GINT_TO_POINTER(TRACE_REDUCE), test_waiting);
    g_test_add_data_func("/report/network/message", GINT_TO_POINTER(TRACE_PASS), test_waiting);
    g_test_add_func("/report/network/drawn", test_drawn);
    return g_test_run();
}
