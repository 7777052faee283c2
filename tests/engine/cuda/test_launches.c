/* How many kernels a step of GPT-2 launches, which docs/devices.md tells: as it is; where updates
 * and squares do not wait for each other; and where GELU's derivative is not joined to a product,
 * as in traces from before that. Nothing runs: launches are counted (counted.h). */
#include "counted.h"
#include "cublaslt.h"
#include "engine/cuda/operators.h"
#include "engine/device.h"

#include <glib.h>

enum { SHARE = 64 /* operators whose event is one, in engine/cuda/streams.c */ };

static uint8_t *arena;
static double number;

/* Every operand that there is lies at the arena's start. */
static void set_tensor(const struct model_iteration *iteration, const struct model_operator *op,
                       int i, struct operation_tensor *tensor)
{
    bool there = op->t[i] != NO_INDEX;
    tensor->gradient = there ? 0 : NO_ADDRESS;
    for (int list = 0; list < TRACE_LISTS; list++)
        tensor->address[list] = there && list < TRACE_GATHERED &&
                                        iteration->trace->list_element_bytes[list] > 0
                                    ? 0
                                    : NO_ADDRESS;
    if (!there)
        return;
    tensor->elements = iteration->trace->tensors[op->t[i]].elements;
    tensor->norm = op->norms[i] ? &number : NULL;
}

static uint64_t address_of(uint32_t buffer)
{
    return buffer == NO_INDEX ? NO_ADDRESS : 0;
}

static struct operation describe(const struct model_iteration *iteration, uint32_t moment)
{
    const struct model_operator *op = &iteration->operators[moment];
    struct operation operation = {
        .op = op,
        .name = iteration->trace->operators[moment].name,
        .config = iteration->config,
        .job = &iteration->job,
        .workspace = address_of(op->workspace),
        .masked = address_of(op->masked),
        .training = true,
        .loss = &number,
        .gradient_scale = &number,
    };
    for (int i = 0; i < MODEL_INPUTS; i++)
        operation.in[i] = address_of(op->in[i]);
    for (int i = 0; i < MODEL_OUTPUTS; i++)
        operation.out[i] = address_of(op->out[i]);
    for (int i = 0; i < MODEL_TENSORS; i++)
        set_tensor(iteration, op, i, &operation.tensor[i]);
    return operation;
}

struct launches {
    uint64_t kernels, products;
};

static void flush(struct cuda_operators *operators)
{
    g_autofree char *why = cuda_operators_flush(operators);
    g_assert_null(why);
}

/* Runs the operators of a step, where updates and squares wait for each other or do not. Before
 * every event they are flushed. */
static struct launches count(const struct model_iteration *iteration, bool joined)
{
    GError *error = NULL;
    struct cuda_operators *operators = cuda_operators_new(arena, 0, NULL, &error);
    g_assert_no_error(error);
    if (joined)
        cuda_operators_join(operators);
    counted_begin();
    cublaslt_products = 0;
    for (uint32_t m = 0; m < iteration->trace->operator_count; m++) {
        const struct operation operation = describe(iteration, m);
        g_autofree char *why = cuda_operators_run(operators, &operation);
        g_assert_null(why);
        if (m % SHARE == SHARE - 1)
            flush(operators);
    }
    flush(operators);
    struct launches launches = {counted_launches(), cublaslt_products};
    cuda_operators_free(operators);
    return launches;
}

struct size {
    const char *name;
    uint32_t layers, width, heads;
    struct launches joined, apart, gelu_apart;
};

static void assert_launches(const struct model_config *config, bool gelu_apart, bool joined,
                            const struct launches *expected)
{
    const struct model_job job = {.choices = {.batch = 4, .micro_batches = 1},
                                  .sequence = 1024,
                                  .precision = MODEL_BF16,
                                  .gelu_apart = gelu_apart};
    GError *error = NULL;
    struct model_iteration *iteration = model_iteration_new(config, &job, &error);
    g_assert_no_error(error);
    struct launches found = count(iteration, joined);
    g_test_message(
        "%s: %u operators, %" G_GUINT64_FORMAT " products, %" G_GUINT64_FORMAT " kernels%s%s",
        config->name, iteration->trace->operator_count, found.products, found.kernels,
        joined ? "" : ", updates and squares apart", gelu_apart ? ", GELU's derivative apart" : "");
    g_assert_cmpuint(found.kernels, ==, expected->kernels);
    g_assert_cmpuint(found.products, ==, expected->products);
    model_iteration_free(iteration);
}

static void check_size(gconstpointer data)
{
    const struct size *size = data;
    struct model_config config = {
        .name = (char *)size->name,
        .layers = size->layers,
        .width = size->width,
        .heads = size->heads,
        .inner = 4 * size->width,
        .positions = 1024,
        .vocabulary = 50257,
        .tied = true,
        .norm_epsilon = 1e-5,
        .initializer_range = 0.02,
    };
    assert_launches(&config, false, true, &size->joined);
    assert_launches(&config, false, false, &size->apart);
    assert_launches(&config, true, true, &size->gelu_apart);
}

int main(int argc, char **argv)
{
    static const struct size sizes[] = {
        {"124M", 12, 768, 12, {307, 147}, {545, 147}, {307, 147}},
        {"1.5B", 48, 1600, 25, {1191, 579}, {2129, 579}, {1191, 579}},
    };
    g_test_init(&argc, &argv, NULL);
    arena = g_aligned_alloc0(1, 4096, 256);
    for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++) {
        g_autofree char *path = g_strdup_printf("/launches/%s", sizes[i].name);
        g_test_add_data_func(path, &sizes[i], check_size);
    }
    int failed = g_test_run();
    g_aligned_free(arena);
    return failed;
}
