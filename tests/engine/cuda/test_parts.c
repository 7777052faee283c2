/* The parts of decoders that GPT-2 does not have: RMS norms, gates, scaled embeddings. They have
 * the CPU's bits. */
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

static void check_rms(enum model_precision precision, uint32_t N, uint32_t H, float offset,
                      bool add)
{
    struct twins t = twins_new();
    uint64_t bytes = (uint64_t)N * H * twin_element_bytes(precision);
    struct twin *weight = matrix(&t, "weight", precision, 1, H);
    struct twin *x = matrix(&t, "x", precision, N, H), *dy = matrix(&t, "dy", precision, N, H);
    struct twin *y = twin_unset(&t, "y", bytes);
    struct twin *stats = twin_unset(&t, "stats", N * sizeof(float));
    struct twin *dx = add ? matrix(&t, "dx", precision, N, H) : twin_unset(&t, "dx", bytes);
    cpu_rms_forward(t.cpu, precision, N, H, 1e-5, offset, weight->cpu, x->cpu, y->cpu, stats->cpu);
    cuda_rms_forward(&t.cuda, precision, N, H, 1e-5, offset, weight->cuda, x->cuda, y->cuda,
                     stats->cuda);
    twins_assert_same(&t, "RMS norm forward");
    cpu_rms_backward_input(t.cpu, precision, N, H, offset, weight->cpu, dy->cpu, x->cpu, stats->cpu,
                           add, dx->cpu);
    cuda_rms_backward_input(&t.cuda, precision, N, H, offset, weight->cuda, dy->cuda, x->cuda,
                            stats->cuda, add, dx->cuda);
    twins_assert_same(&t, "RMS norm backward input");
    twins_free(&t);
}

static void check_rms_weight(enum model_precision precision, uint32_t N, uint32_t H,
                             enum kernel_gradient gradient)
{
    struct twins t = twins_new();
    struct twin *dy = matrix(&t, "dy", precision, N, H), *x = matrix(&t, "x", precision, N, H);
    struct twin *stats = twin_random(&t, "stats", MODEL_FP32, N, 1);
    struct twin *dweight = twin_gradient(&t, "dweight", gradient, H);
    cpu_rms_backward_weight(t.cpu, precision, N, H, dy->cpu, x->cpu, stats->cpu, gradient,
                            dweight->cpu);
    cuda_rms_backward_weight(&t.cuda, precision, N, H, dy->cuda, x->cuda, stats->cuda, gradient,
                             dweight->cuda);
    twins_assert_same(&t, "RMS norm backward weight");
    twins_free(&t);
}

static void rms_norms(enum model_precision precision)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++) {
        check_rms(precision, sizes[i][0], sizes[i][1], i % 2 ? 1 : 0, false);
        check_rms(precision, sizes[i][0], sizes[i][1], i % 2 ? 0 : 1, true);
        for (int gradient = KERNEL_GRADIENT_SET; gradient <= KERNEL_GRADIENT_ADD_BF16; gradient++)
            check_rms_weight(precision, sizes[i][0], sizes[i][1], (enum kernel_gradient)gradient);
    }
    /* More sums than the tests' scratch holds. */
    check_rms_weight(precision, 600, 1300, KERNEL_GRADIENT_ADD);
}

/* Both in one row: the elements of up begin wherever the gate's end. */
static void check_joined_gate(enum model_precision precision, enum model_activation activation,
                              uint32_t N, uint32_t F)
{
    struct twins t = twins_new();
    uint64_t element = twin_element_bytes(precision), elements = (uint64_t)N * F;
    struct twin *both = twin_random(&t, "gate and up", precision, 2 * elements, 1);
    struct twin *dy = twin_random(&t, "dy", precision, elements, 1);
    struct twin *y = twin_unset(&t, "y", dy->bytes);
    struct twin *dboth = twin_unset(&t, "their gradient", both->bytes);
    const struct kernel_gate on_cpu = {activation, N,         F,
                                       2 * F,      both->cpu, (char *)both->cpu + F * element};
    const struct kernel_gate on_cuda = {activation, N,          F,
                                        2 * F,      both->cuda, (char *)both->cuda + F * element};
    cpu_gate_forward(t.cpu, precision, &on_cpu, y->cpu);
    cuda_gate_forward(&t.cuda, precision, &on_cuda, y->cuda);
    twins_assert_same(&t, "joined gate forward");
    cpu_gate_backward(t.cpu, precision, &on_cpu, dy->cpu, dboth->cpu,
                      (char *)dboth->cpu + F * element);
    cuda_gate_backward(&t.cuda, precision, &on_cuda, dy->cuda, dboth->cuda,
                       (char *)dboth->cuda + F * element);
    twins_assert_same(&t, "joined gate backward");
    twins_free(&t);
}

static void check_gate(enum model_precision precision, enum model_activation activation,
                       uint32_t elements, double deviation)
{
    struct twins t = twins_new();
    struct twin *gate = twin_random(&t, "gate", precision, elements, deviation);
    struct twin *up = twin_random(&t, "up", precision, elements, 1);
    struct twin *dy = twin_random(&t, "dy", precision, elements, 1);
    struct twin *y = twin_unset(&t, "y", gate->bytes);
    struct twin *dgate = twin_unset(&t, "dgate", gate->bytes);
    const struct kernel_gate on_cpu = {activation, 1, elements, elements, gate->cpu, up->cpu};
    const struct kernel_gate on_cuda = {activation, 1, elements, elements, gate->cuda, up->cuda};
    cpu_gate_forward(t.cpu, precision, &on_cpu, y->cpu);
    cuda_gate_forward(&t.cuda, precision, &on_cuda, y->cuda);
    twins_assert_same(&t, "gate forward");
    cpu_gate_backward(t.cpu, precision, &on_cpu, dy->cpu, dgate->cpu, dy->cpu);
    cuda_gate_backward(&t.cuda, precision, &on_cuda, dy->cuda, dgate->cuda, dy->cuda);
    twins_assert_same(&t, "gate backward");
    twins_free(&t);
}

/* Among the gates are numbers whose exponentials overflow. */
static void gates(enum model_precision precision)
{
    static const uint32_t counts[] = {1, 7, 64, 2049, 5000};
    for (unsigned i = 0; i < G_N_ELEMENTS(counts); i++) {
        check_gate(precision, MODEL_SILU, counts[i], i % 2 ? 50 : 1);
        check_gate(precision, MODEL_GELU_TANH, counts[i], i % 2 ? 1 : 20);
        check_gate(precision, MODEL_GELU_EXACT, counts[i], i % 2 ? 1 : 20);
    }
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++)
        check_joined_gate(precision, i % 2 ? MODEL_SILU : MODEL_GELU_TANH, sizes[i][0],
                          sizes[i][1]);
}

/* An embedding without learned positions, and its scale. */
static void check_embedding(enum model_precision precision, uint32_t N, uint32_t H)
{
    struct twins t = twins_new();
    struct twin *tokens = twin_tokens(&t, "tokens", N, 9);
    struct twin *wte = matrix(&t, "wte", precision, 9, H);
    struct twin *x = twin_unset(&t, "x", (uint64_t)N * H * twin_element_bytes(precision));
    cpu_embed_forward(t.cpu, precision, N, N, H, tokens->cpu, wte->cpu, NULL, NULL, x->cpu);
    cuda_embed_forward(&t.cuda, precision, N, N, H, tokens->cuda, wte->cuda, NULL, NULL, x->cuda);
    twins_assert_same(&t, "embed forward");
    cpu_scale(t.cpu, precision, (uint64_t)N * H, 2.75f, x->cpu);
    cuda_scale(&t.cuda, precision, (uint64_t)N * H, 2.75f, x->cuda);
    twins_assert_same(&t, "scale");
    twins_free(&t);
}

static void embeddings(enum model_precision precision)
{
    for (unsigned i = 0; i < G_N_ELEMENTS(sizes); i++)
        check_embedding(precision, sizes[i][0], sizes[i][1]);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (!kernel_runs_can())
        return 77;
    add_precision_test("/parts/rms", rms_norms);
    add_precision_test("/parts/gates", gates);
    add_precision_test("/parts/embeddings", embeddings);
    return g_test_run();
}
