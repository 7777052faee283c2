/* Replaces each number of a file by numbers that no profiler writes, and names devices that the
 * file does not describe. They must be refused or count as unknown, and never be converted wrongly.
 */
#include "tests/traces/import_fixture.h"
#include "traces/trace_file.h"

#include <glib/gstdio.h>
#include <string.h>

#define MOST_BYTES (UINT64_C(1) << 53)
#define MOST_NS    (UINT64_C(1) << 63)

/* One event of each kind with sizes or times. The kernel's device is 0. */
static const char profile[] =
    "{\"traceEvents\": ["
    "{\"ph\": \"X\", \"cat\": \"cpu_op\", \"name\": \"aten::mm\", \"pid\": 7, \"tid\": 8, \"ts\": "
    "1669783687000010.5, \"dur\": 8, \"args\": {\"Sequence number\": 3, \"Record function id\": 4, "
    "\"Input Dims\": [[64, 32]], \"Input type\": [\"float\"]}},"
    "{\"ph\": \"X\", \"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\", \"pid\": 7, "
    "\"tid\": 8, \"ts\": 1669783687000012, \"dur\": 2, \"args\": {\"correlation\": 1}},"
    "{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"mm\", \"ts\": 1669783687000020, \"dur\": 9, "
    "\"args\": {\"device\": 0, \"context\": 1, \"stream\": 7, \"correlation\": 1, "
    "\"registers per thread\": 32, \"shared memory\": 48, \"grid\": [4, 1, 1], "
    "\"block\": [128, 1, 1]}},"
    "{\"ph\": \"X\", \"cat\": \"gpu_memcpy\", \"name\": \"Memcpy HtoD (Pinned -> Device)\", "
    "\"ts\": "
    "1669783687000040, \"dur\": 5, \"args\": {\"device\": 0, \"context\": 1, \"stream\": 7, "
    "\"correlation\": 1, \"bytes\": 77}},"
    "{\"ph\": \"X\", \"cat\": \"gpu_memset\", \"name\": \"Memset (Device)\", \"ts\": "
    "1669783687000050, \"dur\": 5, \"args\": {\"device\": 0, \"context\": 1, \"stream\": 7, "
    "\"correlation\": 1, \"bytes\": 78}},"
    "{\"ph\": \"i\", \"name\": \"[memory]\", \"pid\": 7, \"ts\": 1669783687000060, \"args\": "
    "{\"Device Type\": 1, \"Device Id\": 0, \"Addr\": 4096, \"Bytes\": 512, "
    "\"Total Allocated\": 512}},"
    "{\"ph\": \"i\", \"name\": \"[memory]\", \"pid\": 7, \"ts\": 1669783687000070, \"args\": "
    "{\"Device Type\": 1, \"Device Id\": 0, \"Addr\": 4096, \"Bytes\": -512, "
    "\"Total Allocated\": 0}}],"
    "\"deviceProperties\": [{\"id\": 0, \"name\": \"Card\", \"totalGlobalMem\": 1000000, "
    "\"numSms\": 8}]}";

/* Forward, backward and update of a parameter, with the storages of the tensors. */
static const char nodes[] = "{\"schema\": \"1.1.1-chakra.0.0.4\", \"nodes\": ["
#define NODE(id, parent, name, inputs, outputs, scope, sequence)                                  \
    "{\"id\": " #id ", \"ctrl_deps\": " #parent ", \"name\": \"" name "\", \"inputs\": "          \
    "{\"values\": [" inputs "], \"shapes\": [[3, 2]], \"types\": [\"Tensor(float)\"]}, "          \
    "\"outputs\": {\"values\": [" outputs "]}, \"attrs\": [{\"name\": \"rf_id\", \"value\": " #id \
    "}, {\"name\": \"scope\", \"value\": " #scope                                                 \
    "}, {\"name\": \"seq_id\", \"value\": " #sequence "}, {\"name\": \"tid\", \"value\": 1}]}"
#define TENSOR(storage) "[" #storage ", " #storage ", 0, 6, 4, \"cpu\"]"
#define EVALUATE        "autograd::engine::evaluate_function: "
#define ACCUMULATE      "torch::autograd::AccumulateGrad"
    NODE(2, 1, "aten::linear", TENSOR(9), TENSOR(54), 0, 5) "," NODE(
        4, 1, EVALUATE "LinearBackward0", "", "", 0,
        -1) "," NODE(5, 4, "LinearBackward0", TENSOR(54) ", " TENSOR(9), TENSOR(53), 1,
                     5) "," NODE(8, 1, EVALUATE ACCUMULATE, "", "", 0,
                                 -1) "," NODE(9, 8, ACCUMULATE, TENSOR(53), "", 1,
                                              -1) "," NODE(10, 1, "aten::_fused_adamw_",
                                                           TENSOR(9) ", " TENSOR(53), "", 0,
                                                           -1) "]}";

static void check_activity(const char *path)
{
    g_autoptr(GError) error = NULL;
    struct activity *activity = activity_read(path, ACTIVITY_ALL, &error);
    g_assert_no_error(error);
    for (uint32_t i = 0; i < activity->kernel_count; i++)
        g_assert_cmpuint(activity->kernels[i].end_ns, <, MOST_NS);
    for (uint32_t i = 0; i < activity->copy_count; i++) {
        g_assert_cmpuint(activity->copies[i].bytes, <, MOST_BYTES);
        g_assert_cmpuint(activity->copies[i].end_ns, <, MOST_NS);
    }
    for (uint32_t i = 0; i < activity->set_count; i++)
        g_assert_cmpuint(activity->sets[i].bytes, <, MOST_BYTES);
    for (uint32_t i = 0; i < activity->memory_count; i++)
        g_assert_cmpuint(activity->memory[i].bytes, <, MOST_BYTES);
    activity_free(activity);
}

static void check_iteration(const char *path)
{
    g_autoptr(GError) error = NULL;
    struct records *records = records_read(path, &error);
    g_assert_no_error(error);
    struct trace *trace = records->has_iteration ? trace_read(path, &error) : NULL;
    g_assert_no_error(error);
    for (uint32_t m = 0; trace && m < trace->operator_count; m++)
        g_assert_cmpuint(trace->non_model_bytes[m], <, 8 * MOST_BYTES);
    for (uint32_t t = 0; trace && t < trace->tensor_count; t++)
        g_assert_cmpuint(trace->tensors[t].elements, <, MOST_BYTES);
    trace_free(trace);
    records_free(records);
}

/* Returns the text with another number in place of the one at `at`. */
static char *with_number(const char *text, const char *at, const char *number)
{
    return g_strdup_printf("%.*s%s%s", (int)(at - text), text, number,
                           at + strspn(at, "-.0123456789"));
}

static void check_number(struct import_fixture *f, importer *read, const char *text)
{
    g_assert_true(g_file_set_contents(f->from, text, -1, NULL));
    if (!read(f->from, f->to, f->unknown, &f->error)) {
        g_assert_nonnull(strstr(f->error->message, f->from));
        g_assert_null(strchr(f->error->message, '\n'));
        g_clear_error(&f->error);
        return;
    }
    g_assert_true(trace_verify(f->to, &f->error));
    check_activity(f->to);
    check_iteration(f->to);
    g_unlink(f->to);
}

static void check_numbers(struct import_fixture *f, importer *read, const char *text,
                          const char *const *numbers)
{
    check_number(f, read, text);
    for (const char *at = text + 1; *at != '\0'; at++)
        for (size_t i = 0; g_ascii_isdigit(*at) && strchr(" [-", at[-1]) && numbers[i]; i++) {
            g_autofree char *damaged = with_number(text, at[-1] == '-' ? at - 1 : at, numbers[i]);
            check_number(f, read, damaged);
        }
}

static void test_profile(struct import_fixture *f, gconstpointer data)
{
    static const char *const numbers[] = {"1e300", "-1e300", "8e15", NULL};
    (void)data;
    check_numbers(f, import_kineto, profile, numbers);
}

static void test_execution_trace(struct import_fixture *f, gconstpointer data)
{
    static const char *const numbers[] = {"1e300", "1e18", NULL};
    (void)data;
    check_numbers(f, import_chakra, nodes, numbers);
}

/* A size beyond all memory is unknown; frees still count. */
static void test_sizes(struct import_fixture *f, gconstpointer data)
{
    g_autoptr(GString) text = g_string_new(profile);
    (void)data;
    g_string_replace(text, "\"Bytes\": 512", "\"Bytes\": 1e300", 0);
    g_string_replace(text, "\"bytes\": 77", "\"bytes\": 1e300", 0);
    g_assert_true(g_file_set_contents(f->from, text->str, -1, NULL));
    g_assert_true(import_kineto(f->from, f->to, f->unknown, &f->error));
    struct activity *activity = activity_read(f->to, ACTIVITY_ALL, &f->error);
    g_assert_no_error(f->error);
    g_assert_cmpuint(activity->memory_count, ==, 2);
    g_assert_cmpuint(activity->memory[0].bytes, ==, 0);
    g_assert_cmpint(activity->memory[0].operation, ==, MEMORY_ALLOCATE);
    g_assert_cmpuint(activity->memory[1].bytes, ==, 512);
    g_assert_cmpint(activity->memory[1].operation, ==, MEMORY_FREE);
    g_assert_cmpuint(activity->copies[0].bytes, ==, 0);
    activity_free(activity);
}

/* If devices are described, all active ones must be. */
static void test_device(struct import_fixture *f, gconstpointer data)
{
    g_autoptr(GString) text = g_string_new(profile);
    (void)data;
    g_string_replace(text, "\"device\": 0", "\"device\": 5", 1);
    g_assert_true(g_file_set_contents(f->from, text->str, -1, NULL));
    import_check_refused(f, import_kineto, "names device 5, which does not exist");
    g_string_replace(text, "deviceProperties", "others", 1);
    g_assert_true(g_file_set_contents(f->from, text->str, -1, NULL));
    g_assert_true(import_kineto(f->from, f->to, f->unknown, &f->error));
    g_assert_no_error(f->error);
    g_assert_true(trace_verify(f->to, &f->error));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    IMPORT_TEST("/import_numbers/profile", test_profile);
    IMPORT_TEST("/import_numbers/execution_trace", test_execution_trace);
    IMPORT_TEST("/import_numbers/sizes", test_sizes);
    IMPORT_TEST("/import_numbers/device", test_device);
    return g_test_run();
}
