/* Kernels by rows: embedding, norm, sums of columns, residual, GELU. They have the CPU's bits. */
#include "kernel_runs.h"
#include "tests/engine/kernels/fixture.h"
#include "twins.h"

/* Rows and columns: one, odd numbers, whole tiles, many rows. */
static const uint32_t sizes[][2] = {{1, 1},   {3, 60},  {2, 64},  {5, 66}, {7, 127},
                                    {65, 70}, {130, 8}, {300, 3}, {9, 768}};

static struct twin *matrix(struct twins *twins, const char *name, enum model_precision precision,
                           uint64_t rows, uint32_t columns)
{
    return twin_random(twins, name, precision, rows * columns, 1);
}

static void check_norm(enum model_precision precision, uint32_t N, uint32_t H, bool add)
{
    struct twins t = twins_new();
    uint64_t bytes = (uint64_t)N * H * twin_element_bytes(precision);
    struct twin *weight = matrix(&t, "weight", precision, 1, H);
    struct twin *bias = matrix(&t, "bias", precision, 1, H);
    struct twin *x = matrix(&t, "x", precision, N, H), *dy = matrix(&t, "dy", precision, N, H);
    struct twin *y = twin_unset(&t, "y", bytes);
    struct twin *stats = twin_unset(&t, "stats", 2 * N * sizeof(float));
    struct twin *dx = add ? matrix(&t, "dx", precision, N, H) : twin_unset(&t, "dx", bytes);
    cpu_norm_forward(t.cpu, precision, N, H, 1e-5, weight->cpu, bias->cpu, x->cpu, y->cpu,
                     stats->cpu);
    cuda_norm_forward(&t.cuda, precision, N, H, 1e-5, weight->cuda, bias->cuda, x->cuda, y->cuda,
                      stats->cuda);
    twins_assert_same(&t, "norm forward");
    cpu_norm_backward_input(t.cpu, precision, N, H, weight->cpu, dy->cpu, x->cpu, stats->cpu, add,
                            dx->cpu);
    cuda_norm_backward_input(&t.cuda, precision, N, H, weight->cuda, dy->cuda, x->cuda, stats->cuda,
                             add, dx->cuda);
    twins_assert_same(&t, "norm backward input");
    twins_free(&t);
}

static void norms(enum model_precision precision)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        check_norm(precision, sizes[i][0], sizes[i][1], false);
        check_norm(precision, sizes[i][0], sizes[i][1], true);
    }
}

static void check_columns(enum model_precision precision, uint32_t N, uint32_t H,
                          enum kernel_gradient gradient)
{
    struct twins t = twins_new();
    uint32_t row = model_logits_row(H);
    struct twin *dy = matrix(&t, "dy", precision, N, H), *x = matrix(&t, "x", precision, N, H);
    struct twin *stats = twin_random(&t, "stats", MODEL_FP32, 2 * N, 1);
    struct twin *dweight = twin_gradient(&t, "dweight", gradient, H);
    struct twin *dbias = twin_gradient(&t, "dbias", gradient, H);
    cpu_norm_backward_parameters(t.cpu, precision, N, H, dy->cpu, x->cpu, stats->cpu, gradient,
                                 dweight->cpu, dbias->cpu);
    cuda_norm_backward_parameters(&t.cuda, precision, N, H, dy->cuda, x->cuda, stats->cuda,
                                  gradient, dweight->cuda, dbias->cuda);
    twins_assert_same(&t, "norm backward parameters");
    cpu_linear_backward_bias(t.cpu, precision, N, H, H, dy->cpu, gradient, dbias->cpu);
    cuda_linear_backward_bias(&t.cuda, precision, N, H, H, dy->cuda, gradient, dbias->cuda);
    twins_assert_same(&t, "linear backward bias");
    struct twin *logits = matrix(&t, "logits", precision, N, row);
    cpu_linear_backward_bias(t.cpu, precision, N, H, row, logits->cpu, gradient, dbias->cpu);
    cuda_linear_backward_bias(&t.cuda, precision, N, H, row, logits->cuda, gradient, dbias->cuda);
    twins_assert_same(&t, "classifier backward bias");
    twins_free(&t);
}

static void columns(enum model_precision precision)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++)
        for (int gradient = KERNEL_GRADIENT_SET; gradient <= KERNEL_GRADIENT_ADD_BF16; gradient++)
            check_columns(precision, sizes[i][0], sizes[i][1], (enum kernel_gradient)gradient);
}

/* More sums than the tests' scratch holds, so that several rounds are needed. */
static void columns_in_rounds(enum model_precision precision)
{
    check_columns(precision, 300, 650, KERNEL_GRADIENT_ADD);
}

static void check_embedding(enum model_precision precision, uint32_t B, uint32_t T, uint32_t H,
                            uint32_t V, enum kernel_gradient gradient,
                            const struct kernel_dropout *dropout)
{
    struct twins t = twins_new();
    uint32_t N = B * T, P = T + 3;
    struct twin *tokens = twin_tokens(&t, "tokens", N, V);
    struct twin *wte = matrix(&t, "wte", precision, V, H),
                *wpe = matrix(&t, "wpe", precision, P, H);
    struct twin *x = twin_unset(&t, "x", (uint64_t)N * H * twin_element_bytes(precision));
    struct twin *order = twin_unset(&t, "order", N * sizeof(uint64_t));
    struct twin *dx = matrix(&t, "dx", precision, N, H);
    struct twin *dwte = twin_gradient(&t, "dwte", gradient, (uint64_t)V * H);
    struct twin *dwpe = twin_gradient(&t, "dwpe", gradient, (uint64_t)P * H);
    cpu_embed_forward(t.cpu, precision, N, T, H, tokens->cpu, wte->cpu, wpe->cpu, dropout, x->cpu);
    cuda_embed_forward(&t.cuda, precision, N, T, H, tokens->cuda, wte->cuda, wpe->cuda, dropout,
                       x->cuda);
    cpu_embed_order(t.cpu, N, tokens->cpu, order->cpu);
    cuda_embed_order(&t.cuda, N, tokens->cuda, order->cuda);
    twins_assert_same(&t, "embed forward, order");
    cpu_embed_tokens(t.cpu, precision, N, H, V, order->cpu, dx->cpu, dropout, gradient, dwte->cpu);
    cuda_embed_tokens(&t.cuda, precision, N, H, V, order->cuda, dx->cuda, dropout, gradient,
                      dwte->cuda);
    cpu_embed_positions(t.cpu, precision, B, T, H, P, dx->cpu, dropout, gradient, dwpe->cpu);
    cuda_embed_positions(&t.cuda, precision, B, T, H, P, dx->cuda, dropout, gradient, dwpe->cuda);
    twins_assert_same(&t, "embed backward");
    twins_free(&t);
}

static void embeddings(enum model_precision precision)
{
    /* B, T, H, V */
    static const uint32_t shapes[][4] = {
        {1, 1, 1, 1}, {2, 17, 60, 5}, {3, 100, 64, 40}, {1, 9, 65, 300}};
    for (unsigned i = 0; i < G_N_ELEMENTS(shapes); i++)
        for (int gradient = KERNEL_GRADIENT_SET; gradient <= KERNEL_GRADIENT_ADD_BF16; gradient++) {
            const uint32_t *s = shapes[i];
            struct kernel_dropout dropout = random_dropout();
            check_embedding(precision, s[0], s[1], s[2], s[3], (enum kernel_gradient)gradient,
                            NULL);
            check_embedding(precision, s[0], s[1], s[2], s[3], (enum kernel_gradient)gradient,
                            &dropout);
        }
}

static void check_residual(enum model_precision precision, uint32_t N, uint32_t H,
                           const struct kernel_dropout *dropout)
{
    struct twins t = twins_new();
    struct twin *residual = matrix(&t, "residual", precision, N, H);
    struct twin *y = matrix(&t, "y", precision, N, H), *dy = matrix(&t, "dy", precision, N, H);
    struct twin *masked = twin_unset(&t, "masked", y->bytes);
    cpu_residual_forward(t.cpu, precision, N, H, residual->cpu, dropout, y->cpu);
    cuda_residual_forward(&t.cuda, precision, N, H, residual->cuda, dropout, y->cuda);
    cpu_dropout_backward(t.cpu, precision, N, H, dropout, dy->cpu, masked->cpu);
    cuda_dropout_backward(&t.cuda, precision, N, H, dropout, dy->cuda, masked->cuda);
    twins_assert_same(&t, "residual and dropout");
    twins_free(&t);
}

static void residuals(enum model_precision precision)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        struct kernel_dropout dropout = random_dropout();
        check_residual(precision, sizes[i][0], sizes[i][1], NULL);
        check_residual(precision, sizes[i][0], sizes[i][1], &dropout);
    }
}

/* The gradient of the bias may not be wanted. */
static void check_gelu(enum model_activation of, enum model_precision precision, uint32_t N,
                       uint32_t O, enum kernel_gradient gradient, bool wanted)
{
    struct twins t = twins_new();
    uint64_t elements = (uint64_t)N * O;
    struct twin *pre = twin_random(&t, "pre", precision, elements, 3);
    struct twin *dy = twin_random(&t, "dy", precision, elements, 1);
    struct twin *y = twin_unset(&t, "y", pre->bytes);
    struct twin *dbias = twin_gradient(&t, "dbias", gradient, O);
    cpu_gelu_forward(t.cpu, precision, of, elements, pre->cpu, y->cpu);
    cuda_gelu_forward(&t.cuda, precision, of, elements, pre->cuda, y->cuda);
    cpu_gelu_backward_bias(t.cpu, precision, of, N, O, pre->cpu, dy->cpu, gradient,
                           wanted ? dbias->cpu : NULL);
    cuda_gelu_backward_bias(&t.cuda, precision, of, N, O, pre->cuda, dy->cuda, gradient,
                            wanted ? dbias->cuda : NULL);
    twins_assert_same(&t, "gelu");
    twins_free(&t);
}

static void gelus(enum model_precision precision)
{
    static const enum model_activation forms[] = {MODEL_GELU_TANH, MODEL_GELU_EXACT};
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++)
        for (unsigned f = 0; f < G_N_ELEMENTS(forms); f++) {
            for (int kind = KERNEL_GRADIENT_SET; kind <= KERNEL_GRADIENT_ADD_BF16; kind++)
                check_gelu(forms[f], precision, sizes[i][0], sizes[i][1],
                           (enum kernel_gradient)kind, true);
            check_gelu(forms[f], precision, sizes[i][0], sizes[i][1], KERNEL_GRADIENT_SET, false);
        }
    check_gelu(MODEL_GELU_TANH, precision, 300, 650, KERNEL_GRADIENT_ADD, true);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (!kernel_runs_can())
        return 77;
    add_precision_test("/rows/norm", norms);
    add_precision_test("/rows/columns", columns);
    add_precision_test("/rows/columns/rounds", columns_in_rounds);
    add_precision_test("/rows/embedding", embeddings);
    add_precision_test("/rows/residual", residuals);
    add_precision_test("/rows/gelu", gelus);
    return g_test_run();
}
