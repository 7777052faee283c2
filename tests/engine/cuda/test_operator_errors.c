/* What a CUDA operator says when a library or the device fails. */
#include "engine/cuda/operators.h"
#include "tests/engine/cuda/cublaslt.h"

#include <glib.h>
#include <string.h>

static const struct model_config config = {.name = "small",
                                           .layers = 1,
                                           .width = 8,
                                           .heads = 1,
                                           .inner = 32,
                                           .positions = 4,
                                           .vocabulary = 8};
static const struct model_job job = {
    .choices = {.batch = 2, .micro_batches = 1}, .sequence = 4, .precision = MODEL_BF16};

static struct operation operation_of(const struct model_operator *op)
{
    struct operation operation = {
        .op = op, .name = "h.0.mlp.c_fc", .config = &config, .job = &job, .workspace = NO_ADDRESS};
    for (int i = 0; i < 2; i++) {
        for (int list = 0; list < TRACE_LISTS; list++)
            operation.tensor[i].address[list] = NO_ADDRESS;
        operation.tensor[i].address[TRACE_PARAM] = (uint64_t)(i + 1) * 4096;
    }
    operation.in[0] = 3 * 4096;
    operation.out[0] = 4 * 4096;
    return operation;
}

static char *run(const char *wait)
{
    static _Alignas(256) uint8_t arena[8 * 4096];
    const struct model_operator op = {.kind = MODEL_LINEAR_FORWARD,
                                      .inputs = 8,
                                      .outputs = 32,
                                      .t = {0, 1, NO_INDEX},
                                      .expert = NO_INDEX,
                                      .dropout_site = NO_INDEX};
    struct operation operation = operation_of(&op);
    GError *error = NULL;
    if (wait)
        g_setenv("PSTAR_CUDA_SYNC", wait, TRUE);
    else
        g_unsetenv("PSTAR_CUDA_SYNC");
    struct cuda_operators *operators = cuda_operators_new(arena, 0, NULL, &error);
    g_assert_no_error(error);
    char *why = cuda_operators_run(operators, &operation);
    cuda_operators_free(operators);
    return why;
}

static void assert_says(const char *message, const char *text)
{
    g_assert_nonnull(message);
    if (!strstr(message, text))
        g_error("'%s' does not say '%s'", message, text);
}

static void names_product(void)
{
    cublaslt_refuses = true;
    g_autofree char *why = run(NULL);
    cublaslt_refuses = false;
    assert_says(why, "cublasLtMatmul: CUBLAS_STATUS_EXECUTION_FAILED");
    assert_says(why, "product [8,8] [8,32] in bf16 to bf16, bias");
    assert_says(why, "operator h.0.mlp.c_fc, linear forward: 8 rows of 8, 8 to 32 columns, bf16");
}

/* Only with PSTAR_CUDA_SYNC=1 is each operator waited for. */
static void waits(void)
{
    static const char *const no[] = {NULL, "0", ""};
    for (size_t i = 0; i < G_N_ELEMENTS(no); i++) {
        cublaslt_synchronised = 0;
        g_assert_null(run(no[i]));
        g_assert_cmpuint(cublaslt_synchronised, ==, 0);
    }
    g_assert_null(run("1"));
    g_assert_cmpuint(cublaslt_synchronised, ==, 1);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    g_test_add_func("/operator-errors/names-product", names_product);
    g_test_add_func("/operator-errors/waits", waits);
    return g_test_run();
}
