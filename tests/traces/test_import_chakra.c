/* Imports Chakra execution traces and compares them with the profiler's file of the same run. */
#include "tests/traces/import_fixture.h"
#include "traces/trace_file.h"

#include <glib/gstdio.h>
#include <string.h>

#define DATA PROJECT_DIR "/tests/data/kineto/"

static struct trace *import(struct import_fixture *f, importer *read, const char *from)
{
    g_assert_true(read(from, f->to, f->unknown, &f->error));
    struct trace *trace = trace_read(f->to, &f->error);
    g_assert_no_error(f->error);
    return trace;
}

static void test_beside_the_profiler(struct import_fixture *f, gconstpointer data)
{
    (void)data;
    struct trace *found = import(f, import_chakra, DATA "gpt.et.json.gz");
    struct trace *profiled = import(f, import_kineto, DATA "gpt.json.gz");
    g_assert_cmpuint(found->operator_count, ==, profiled->operator_count);
    g_assert_cmpuint(found->access_count, ==, profiled->access_count);
    g_assert_cmpuint(found->tensor_count, ==, profiled->tensor_count);
    for (uint32_t t = 0; t < found->tensor_count; t++)
        g_assert_cmpstr(found->tensors[t].name, ==, profiled->tensors[t].name);
    for (uint32_t m = 0; m < found->operator_count; m++) {
        const struct trace_operator *a = &found->operators[m], *b = &profiled->operators[m];
        g_assert_cmpstr(a->name, ==, b->name);
        g_assert_cmpuint(a->access_count, ==, b->access_count);
        g_assert_cmpuint(a->duration_ns, ==, 0);
    }
    /* The allocator knows when Python releases a tensor. Storages only tell the operators that used
     * it last. */
    uint64_t most = 0, profiled_most = 0;
    for (uint32_t m = 0; m < found->operator_count; m++) {
        most = MAX(most, found->non_model_bytes[m]);
        profiled_most = MAX(profiled_most, profiled->non_model_bytes[m]);
    }
    g_assert_cmpuint(most * 100, >=, profiled_most * 99);
    g_assert_cmpuint(most * 100, <=, profiled_most * 101);
    trace_free(profiled);
    trace_free(found);
}

/* With the profiler's file of the same run, operators take the same times. */
static void test_timed(struct import_fixture *f, gconstpointer data)
{
    (void)data;
    struct trace *profiled = import(f, import_kineto, DATA "gpt.json.gz");
    struct trace *places = import(f, import_chakra, DATA "gpt.et.json.gz");
    g_assert_true(import_chakra_timed(DATA "gpt.et.json.gz", DATA "gpt.json.gz", f->to, f->unknown,
                                      &f->error));
    struct trace *timed = trace_read(f->to, &f->error);
    g_assert_no_error(f->error);
    g_assert_cmpuint(timed->operator_count, ==, profiled->operator_count);
    for (uint32_t m = 0; m < timed->operator_count; m++) {
        g_assert_cmpstr(timed->operators[m].name, ==, profiled->operators[m].name);
        g_assert_cmpuint(timed->operators[m].duration_ns, ==, profiled->operators[m].duration_ns);
        g_assert_cmpuint(timed->operators[m].duration_ns, >, 0);
        g_assert_cmpuint(timed->non_model_bytes[m], ==, places->non_model_bytes[m]);
    }
    trace_free(timed);
    trace_free(places);
    trace_free(profiled);
}

/* The profiler's file of this test is from another run. */
static void test_times_of_another_run(struct import_fixture *f, gconstpointer data)
{
    (void)data;
    g_assert_true(g_file_set_contents(f->from, "{\"traceEvents\": []}", -1, NULL));
    g_assert_false(
        import_chakra_timed(DATA "gpt.et.json.gz", f->from, f->to, f->unknown, &f->error));
    g_assert_nonnull(strstr(f->error->message, "must come from the same run"));
    g_assert_false(g_file_test(f->to, G_FILE_TEST_EXISTS));
}

static bool reads(const struct trace *trace, uint32_t moment, uint32_t tensor)
{
    const struct trace_operator *op = &trace->operators[moment];
    for (uint32_t i = op->first_access; i < op->first_access + op->access_count; i++)
        if (trace->accesses[i].tensor == tensor && trace->accesses[i].list == TRACE_PARAM)
            return true;
    return false;
}

#define EVALUATE   "autograd::engine::evaluate_function: "
#define ACCUMULATE "torch::autograd::AccumulateGrad"

/* Adds a node. Its number is also its position in the order. Storages have 24 bytes, and 16 from 50
 * to 52. */
struct node {
    unsigned number, parent;
    const char *name;
    int scope, sequence;
    unsigned inputs[2], output; /* storages; 0 if none */
};

static void add_tensor(GString *json, unsigned storage, bool comma)
{
    bool small = storage >= 50 && storage <= 52;
    g_string_append_printf(json, "%s[%u, %u, 0, %d, 4, \"cpu\"]", comma ? ", " : "", storage,
                           storage, small ? 4 : 6);
}

static void add_node(GString *json, const struct node *node)
{
    g_string_append_printf(json,
                           "{\"id\": %u, \"ctrl_deps\": %u, \"name\": \"%s\", \"inputs\": "
                           "{\"values\": [",
                           node->number, node->parent, node->name);
    for (int i = 0; i < 2 && node->inputs[i] > 0; i++)
        add_tensor(json, node->inputs[i], i > 0);
    g_string_append(json, "], \"shapes\": [[3, 2]], \"types\": [\"Tensor(float)\"]}, "
                          "\"outputs\": {\"values\": [");
    if (node->output > 0)
        add_tensor(json, node->output, false);
    g_string_append_printf(json,
                           "]}, \"attrs\": [{\"name\": \"rf_id\", \"value\": %u}, {\"name\": "
                           "\"scope\", \"value\": %d}, {\"name\": \"seq_id\", \"value\": %d}, "
                           "{\"name\": \"tid\", \"value\": 1}]}",
                           node->number, node->scope, node->sequence);
}

static void write_nodes(const struct import_fixture *f, const struct node *nodes, size_t count)
{
    g_autoptr(GString) json = g_string_new("{\"schema\": \"1.1.1-chakra.0.0.4\", \"nodes\": [");
    for (size_t i = 0; i < count; i++) {
        g_string_append(json, i > 0 ? ", " : "");
        add_node(json, &nodes[i]);
    }
    g_string_append(json, "]}");
    g_assert_true(g_file_set_contents(f->from, json->str, -1, NULL));
}

/* Storages, not sequence numbers, show the other uses of parameter 9. */
static void test_tied(struct import_fixture *f, gconstpointer data)
{
    static const struct node nodes[] = {
        {2, 1, "aten::embedding", 0, 4, {9, 0}, 50},
        {3, 1, "aten::linear", 0, 5, {50, 9}, 54},
        {4, 1, EVALUATE "LinearBackward0", 0, -1, {0, 0}, 0},
        {5, 4, "LinearBackward0", 1, 5, {54, 9}, 52},
        {6, 1, EVALUATE "EmbeddingBackward0", 0, -1, {0, 0}, 0},
        {7, 6, "EmbeddingBackward0", 1, 4, {52, 0}, 53},
        {8, 1, EVALUATE ACCUMULATE, 0, -1, {0, 0}, 0},
        {9, 8, ACCUMULATE, 1, -1, {53, 0}, 0},
        {10, 1, "aten::_fused_adamw_", 0, -1, {9, 53}, 0},
    };
    static const uint64_t non_model[] = {16, 16 + 24, 24 + 16, 16}; /* the gradient is model data */
    (void)data;
    write_nodes(f, nodes, G_N_ELEMENTS(nodes));
    struct trace *trace = import(f, import_chakra, f->from);
    g_assert_cmpuint(trace->operator_count, ==, 5);
    g_assert_cmpuint(trace->tensor_count, ==, 1);
    for (uint32_t m = 0; m < 3; m++)
        g_assert_true(reads(trace, m, 0));
    for (uint32_t m = 0; m < G_N_ELEMENTS(non_model); m++)
        g_assert_cmpuint(trace->non_model_bytes[m], ==, non_model[m]);
    trace_free(trace);
}

/* A checkpoint ends its recomputation early. PyTorch then writes operators whose parent is not in
 * the file, and all that follows as within the node that recomputes. The times of the same run
 * help, so the message must ask for them and not for another backward. */
static void test_lost_place(struct import_fixture *f, gconstpointer data)
{
    static const struct node nodes[] = {
        {2, 1, "aten::linear", 0, 4, {9, 50}, 54},
        {3, 1, EVALUATE "MulBackward0", 0, -1, {0, 0}, 0},
        {4, 3, "MulBackward0", 1, 5, {54, 0}, 52},
        {6, 5, "aten::mul", 0, -1, {54, 0}, 55},
        {7, 4, EVALUATE "LinearBackward0", 0, -1, {0, 0}, 0},
        {8, 7, "LinearBackward0", 1, 4, {52, 0}, 53},
        {9, 4, EVALUATE ACCUMULATE, 0, -1, {0, 0}, 0},
        {10, 9, ACCUMULATE, 1, -1, {53, 0}, 0},
        {11, 1, "aten::_fused_adamw_", 0, -1, {9, 53}, 0},
    };
    (void)data;
    write_nodes(f, nodes, G_N_ELEMENTS(nodes));
    g_assert_false(import_chakra(f->from, f->to, f->unknown, &f->error));
    g_assert_nonnull(strstr(f->error->message, "no gradient"));
    g_assert_nonnull(strstr(f->error->message, "--times"));
    g_assert_false(g_file_test(f->to, G_FILE_TEST_EXISTS));
}

static void test_refused(struct import_fixture *f, gconstpointer data)
{
    (void)data;
    g_assert_false(import_chakra(DATA "gpt.json.gz", f->to, f->unknown, &f->error));
    g_assert_nonnull(strstr(f->error->message, "no array \"nodes\""));
    g_assert_false(g_file_test(f->to, G_FILE_TEST_EXISTS));
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    IMPORT_TEST("/import_chakra/beside_the_profiler", test_beside_the_profiler);
    IMPORT_TEST("/import_chakra/timed", test_timed);
    IMPORT_TEST("/import_chakra/times_of_another_run", test_times_of_another_run);
    IMPORT_TEST("/import_chakra/tied", test_tied);
    IMPORT_TEST("/import_chakra/lost_place", test_lost_place);
    IMPORT_TEST("/import_chakra/refused", test_refused);
    return g_test_run();
}
