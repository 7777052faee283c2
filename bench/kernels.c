/* Measures the CPU kernels at the shapes of GPT-2 124M: matrix products (dnnl_sgemm in fp32,
 * oneDNN primitives in bf16) and loops over memory. Rival: none; a triad shows the rate of this
 * machine's memory. There is no goal. The best of many runs counts, because other work may disturb
 * any of them. Each bf16 product also has its error: the greatest difference from the fp32
 * product, relative to its greatest element.
 *
 *   bench_kernels [--batch B] [--seq T] [--threads N] [--repeat R] */
#include "engine/cpu/kernels.h"
#include "engine/bf16.h"
#include "engine/cpu/context.h"

#include <math.h>
#include <stdio.h>

static gint batch = 4, sequence = 64, threads, repeat = 10;

static const GOptionEntry options[] = {
    {"batch", 0, 0, G_OPTION_ARG_INT, &batch, "Sequences (4)", "B"},
    {"seq", 0, 0, G_OPTION_ARG_INT, &sequence, "Tokens per sequence (64)", "T"},
    {"threads", 0, 0, G_OPTION_ARG_INT, &threads, "Threads (all cores)", "N"},
    {"repeat", 0, 0, G_OPTION_ARG_INT, &repeat, "Runs of each; the best counts (10)", "R"},
    {0},
};

enum { WIDTH = 768, HEADS = 12, INNER = 3072, VOCABULARY = 50257, LAYERS = 12 };

struct loop_memory {
    float *fp32;
    uint16_t *bf16;
    uint64_t elements;
};

static struct loop_memory memory_new(struct cpu_context *cpu, uint64_t elements)
{
    static uint32_t site;
    struct loop_memory m = {aligned_alloc(256, (elements * 4 + 255) / 256 * 256),
                            aligned_alloc(256, (elements * 2 + 255) / 256 * 256), elements};
    struct random_stream stream = {1, 0, site++};
    uint64_t drawn = MIN(elements, 1 << 20);
    random_normal(&stream, 0, drawn, 1, m.fp32);
    for (uint64_t i = drawn; i < elements; i++)
        m.fp32[i] = m.fp32[i - drawn];
    cpu_round(cpu, elements, m.fp32, m.bf16);
    return m;
}

static void memory_free(struct loop_memory m)
{
    free(m.fp32);
    free(m.bf16);
}

typedef void task(struct cpu_context *cpu, void *argument);

static double best_seconds(struct cpu_context *cpu, task *run, void *argument)
{
    double best = INFINITY;
    for (int i = 0; i <= repeat; i++) {
        gint64 before = g_get_monotonic_time();
        run(cpu, argument);
        double seconds = (double)(g_get_monotonic_time() - before) * 1e-6;
        if (i > 0)
            best = fmin(best, seconds);
    }
    return best;
}

struct timed_product {
    const char *name;
    struct matmul_shape shape;
    int count; /* in one step */
    struct loop_memory a, b, c;
};

static void run_product(struct cpu_context *cpu, void *argument)
{
    const struct timed_product *p = argument;
    bool half = p->shape.in == MODEL_BF16;
    matmul_run(cpu->matmul, &p->shape, half ? (void *)p->a.bf16 : p->a.fp32,
               half ? (void *)p->b.bf16 : p->b.fp32, NULL,
               p->shape.out == MODEL_BF16 ? (void *)p->c.bf16 : p->c.fp32);
}

static double relative_error(const struct loop_memory *c, bool half, const float *expected)
{
    double error = 0, greatest = 0;
    for (uint64_t i = 0; i < c->elements; i++) {
        float value = half ? bf16_widen(c->bf16[i]) : c->fp32[i];
        error = fmax(error, fabs((double)value - (double)expected[i]));
        greatest = fmax(greatest, fabs((double)expected[i]));
    }
    return error / greatest;
}

/* Adds the time of all products of this shape in a step, by precision. */
static void bench_product(struct cpu_context *cpu, struct timed_product p, double seconds[2])
{
    double flops = 2.0 * p.shape.M * p.shape.N * p.shape.K;
    uint64_t a_rows = p.shape.transposed_a ? p.shape.K : p.shape.M;
    uint64_t a_row = p.shape.transposed_a ? p.shape.M : p.shape.K;
    p.a = memory_new(cpu, a_rows * MAX(a_row, p.shape.a_row));
    p.b = memory_new(cpu, (uint64_t)p.shape.K * p.shape.N);
    p.c = memory_new(cpu, (uint64_t)p.shape.M * MAX(p.shape.N, p.shape.c_row));
    double fp32 = best_seconds(cpu, run_product, &p);
    float *expected = g_memdup2(p.c.fp32, p.c.elements * sizeof(float));
    p.shape.in = MODEL_BF16;
    if (p.shape.M == (uint32_t)(batch * sequence))
        p.shape.out = MODEL_BF16;
    double bf16 = best_seconds(cpu, run_product, &p);
    double error = relative_error(&p.c, p.shape.out == MODEL_BF16, expected);
    printf("%-18s %6u %6u %6u %9.1f %9.1f %8.0e\n", p.name, p.shape.M, p.shape.N, p.shape.K,
           flops / fp32 * 1e-9, flops / bf16 * 1e-9, error);
    seconds[0] += p.count * fp32;
    seconds[1] += p.count * bf16;
    g_free(expected);
    memory_free(p.a);
    memory_free(p.b);
    memory_free(p.c);
}

static struct matmul_shape forward_of(uint32_t N, uint32_t I, uint32_t O, bool classifier)
{
    return (struct matmul_shape){.M = N,
                                 .N = O,
                                 .K = I,
                                 .c_row = classifier ? model_logits_row(O) : 0,
                                 .transposed_b = classifier};
}

static struct matmul_shape input_of(uint32_t N, uint32_t I, uint32_t O, bool classifier)
{
    return (struct matmul_shape){.M = N,
                                 .N = I,
                                 .K = O,
                                 .a_row = classifier ? model_logits_row(O) : 0,
                                 .transposed_b = !classifier};
}

static struct matmul_shape weight_of(uint32_t N, uint32_t I, uint32_t O, bool classifier)
{
    return (struct matmul_shape){.M = classifier ? O : I,
                                 .N = classifier ? I : O,
                                 .K = N,
                                 .a_row = classifier ? model_logits_row(O) : 0,
                                 .transposed_a = true};
}

static void bench_products(struct cpu_context *cpu)
{
    static const struct {
        const char *name;
        uint32_t I, O;
        int count;
    } layers[] = {{"qkv", WIDTH, 3 * WIDTH, LAYERS},
                  {"attention out", WIDTH, WIDTH, LAYERS},
                  {"inner", WIDTH, INNER, LAYERS},
                  {"outer", INNER, WIDTH, LAYERS},
                  {"classifier", WIDTH, VOCABULARY, 1}};
    struct matmul_shape (*const passes[])(uint32_t, uint32_t, uint32_t,
                                          bool) = {forward_of, input_of, weight_of};
    static const char *const suffixes[] = {"y", "dx", "dW"};
    double seconds[2] = {0};
    uint32_t N = (uint32_t)(batch * sequence);
    printf("matrix products, GFLOP/s\n%-18s %6s %6s %6s %9s %9s %8s\n", "", "M", "N", "K", "fp32",
           "bf16", "error");
    for (unsigned l = 0; l < G_N_ELEMENTS(layers); l++)
        for (unsigned pass = 0; pass < G_N_ELEMENTS(passes); pass++) {
            char *name = g_strdup_printf("%s %s", layers[l].name, suffixes[pass]);
            struct timed_product p = {.name = name, .count = layers[l].count};
            p.shape = passes[pass](N, layers[l].I, layers[l].O, layers[l].O == VOCABULARY);
            bench_product(cpu, p, seconds);
            g_free(name);
        }
    printf("all of a step: %.3f s fp32, %.3f s bf16\n\n", seconds[0], seconds[1]);
}

struct loops {
    enum model_precision precision;
    uint32_t N;
    struct loop_memory x, y, z, logits, qkv, dqkv, weight, big[4];
    uint32_t *targets;
    struct kernel_dropout dropout;
    struct adamw_step step;
};

static void *of(const struct loops *l, struct loop_memory m)
{
    return l->precision == MODEL_BF16 ? (void *)m.bf16 : m.fp32;
}

static void run_triad(struct cpu_context *cpu, void *argument)
{
    const struct loops *l = argument;
    const float *restrict b = l->big[1].fp32, *restrict c = l->big[2].fp32;
    float *restrict a = l->big[0].fp32;
#pragma omp parallel for simd num_threads(cpu->threads) schedule(static)
    for (uint64_t i = 0; i < l->big[0].elements; i++)
        a[i] = b[i] + 0.5f * c[i];
}

static void run_adamw(struct cpu_context *cpu, void *argument)
{
    const struct loops *l = argument;
    bool half = l->precision == MODEL_BF16;
    struct adamw_tensor tensor = {
        .elements = l->big[0].elements,
        .param = of(l, l->big[0]),
        .gradient = half ? NULL : l->big[3].fp32,
        .master = half ? l->big[3].fp32 : NULL,
        .exp_avg = l->big[1].fp32,
        .exp_avg_sq = l->big[2].fp32,
    };
    cpu_adamw(cpu, &l->step, NULL, &tensor);
}

static void run_squares(struct cpu_context *cpu, void *argument)
{
    const struct loops *l = argument;
    double sum;
    if (l->precision == MODEL_BF16)
        cpu_round_gradient(cpu, l->big[3].elements, l->big[3].fp32, l->big[3].bf16);
    else
        cpu_sum_squares(cpu, MODEL_FP32, l->big[3].elements, l->big[3].fp32, &sum);
}

static void run_loss(struct cpu_context *cpu, void *argument)
{
    const struct loops *l = argument;
    double loss;
    cpu_loss_backward(cpu, l->precision, l->N, VOCABULARY, l->targets, 1, 0, of(l, l->logits),
                      &loss);
}

static void run_gelu(struct cpu_context *cpu, void *argument)
{
    const struct loops *l = argument;
    cpu_gelu_forward(cpu, l->precision, MODEL_GELU_TANH, l->x.elements, of(l, l->x), of(l, l->y));
    cpu_gelu_backward(cpu, l->precision, MODEL_GELU_TANH, l->x.elements, of(l, l->x), of(l, l->y));
}

static void run_norm(struct cpu_context *cpu, void *argument)
{
    const struct loops *l = argument;
    float *stats = l->weight.fp32 + 4 * WIDTH;
    void *weight = of(l, l->weight);
    cpu_norm_forward(cpu, l->precision, l->N, WIDTH, 1e-5, weight, weight, of(l, l->x), of(l, l->y),
                     stats);
    cpu_norm_backward_input(cpu, l->precision, l->N, WIDTH, weight, of(l, l->y), of(l, l->x), stats,
                            true, of(l, l->z));
    cpu_norm_backward_parameters(cpu, l->precision, l->N, WIDTH, of(l, l->y), of(l, l->x), stats,
                                 KERNEL_GRADIENT_SET, l->dqkv.fp32, l->dqkv.fp32 + WIDTH);
}

static void run_residual(struct cpu_context *cpu, void *argument)
{
    const struct loops *l = argument;
    cpu_residual_forward(cpu, l->precision, l->N, WIDTH, of(l, l->x), &l->dropout, of(l, l->y));
    cpu_dropout_backward(cpu, l->precision, l->N, WIDTH, &l->dropout, of(l, l->x), of(l, l->z));
}

static void run_bias(struct cpu_context *cpu, void *argument)
{
    const struct loops *l = argument;
    cpu_linear_backward_bias(cpu, l->precision, l->N, INNER, INNER, of(l, l->x),
                             KERNEL_GRADIENT_SET, l->y.fp32);
}

static void run_attention_forward(struct cpu_context *cpu, void *argument)
{
    const struct loops *l = argument;
    cpu_attention_forward(
        cpu, l->precision, (uint32_t)batch, (uint32_t)sequence, HEADS, WIDTH / HEADS, of(l, l->qkv),
        l->dropout.probability > 0 ? &l->dropout : NULL, of(l, l->y), l->weight.fp32);
}

static void run_attention_backward(struct cpu_context *cpu, void *argument)
{
    const struct loops *l = argument;
    cpu_attention_backward(cpu, l->precision, (uint32_t)batch, (uint32_t)sequence, HEADS,
                           WIDTH / HEADS, of(l, l->x), of(l, l->qkv), of(l, l->y), l->weight.fp32,
                           l->dropout.probability > 0 ? &l->dropout : NULL, of(l, l->dqkv));
}

/* `bytes` is what one run must move, or 0 if unknown. `count` is the number of runs in a step. */
static double bench_loop(struct cpu_context *cpu, struct loops *l, const char *name, task *run,
                         double bytes, int count)
{
    double seconds = best_seconds(cpu, run, l);
    printf("%-26s %6s %10.3f ms %8.1f GB/s %10.1f ms a step\n", name,
           l->precision == MODEL_BF16 ? "bf16" : "fp32", seconds * 1e3, bytes / seconds * 1e-9,
           seconds * 1e3 * count);
    return seconds * count;
}

static void bench_loops(struct cpu_context *cpu, struct loops *l)
{
    double width = l->precision == MODEL_BF16 ? 2 : 4, N = l->N, big = (double)l->big[0].elements;
    double total = 0;
    bench_loop(cpu, l, "triad", run_triad, 12 * big, 0);
    total += bench_loop(cpu, l, "adamw", run_adamw, 28 * big, 4);
    total += bench_loop(cpu, l, "squares of gradient", run_squares,
                        (l->precision == MODEL_BF16 ? 6 : 4) * big, 4);
    total += bench_loop(cpu, l, "loss", run_loss, 2 * width * N * VOCABULARY, 1);
    total += bench_loop(cpu, l, "gelu, both ways", run_gelu, 5 * width * N * INNER, LAYERS);
    total += bench_loop(cpu, l, "norm, both ways", run_norm, 8 * width * N * WIDTH, 2 * LAYERS);
    total += bench_loop(cpu, l, "bias gradient, inner", run_bias, width * N * INNER, 3 * LAYERS);
    l->dropout.probability = 0;
    total += bench_loop(cpu, l, "residual", run_residual, 5 * width * N * WIDTH, 2 * LAYERS);
    total += bench_loop(cpu, l, "attention", run_attention_forward, 0, LAYERS);
    total += bench_loop(cpu, l, "attention backward", run_attention_backward, 0, LAYERS);
    l->dropout.probability = 0.1;
    bench_loop(cpu, l, "residual, dropout", run_residual, 5 * width * N * WIDTH, 2 * LAYERS);
    bench_loop(cpu, l, "attention, dropout", run_attention_forward, 0, LAYERS);
    bench_loop(cpu, l, "its backward", run_attention_backward, 0, LAYERS);
    printf("all of a step without dropout: %.3f s\n\n", total);
}

int main(int argc, char **argv)
{
    GError *error = NULL;
    GOptionContext *context = g_option_context_new(NULL);
    threads = (gint)g_get_num_processors();
    g_option_context_add_main_entries(context, options, NULL);
    if (!g_option_context_parse(context, &argc, &argv, &error)) {
        fprintf(stderr, "bench_kernels: %s\n", error->message);
        return 2;
    }
    g_option_context_free(context);
    struct cpu_context *cpu = cpu_context_new((unsigned)threads);
    printf("%s, %d threads, batch %d, sequence %d\n", cpu_context_simd(cpu), threads, batch,
           sequence);
    bench_products(cpu);
    struct loops l = {.N = (uint32_t)(batch * sequence), .dropout = {{1, 2, 3}, 0.1}};
    struct adamw_options adamw = {1e-3, 0.9, 0.95, 1e-8, 0.1, 1};
    l.step = adamw_step_of(&adamw, 10);
    l.x = memory_new(cpu, (uint64_t)l.N * INNER);
    l.y = memory_new(cpu, (uint64_t)l.N * INNER);
    l.z = memory_new(cpu, (uint64_t)l.N * INNER);
    l.logits = memory_new(cpu, (uint64_t)l.N * model_logits_row(VOCABULARY));
    l.qkv = memory_new(cpu, (uint64_t)l.N * 3 * WIDTH);
    l.dqkv = memory_new(cpu, (uint64_t)l.N * 3 * WIDTH);
    l.weight = memory_new(cpu, 4 * WIDTH + 2ull * l.N * HEADS);
    for (int i = 0; i < 4; i++)
        l.big[i] = memory_new(cpu, 31 << 20);
    l.targets = g_new0(uint32_t, l.N);
    for (l.precision = MODEL_FP32; l.precision <= MODEL_BF16; l.precision++)
        bench_loops(cpu, &l);
    struct loop_memory all[] = {l.x,      l.y,      l.z,      l.logits, l.qkv,   l.dqkv,
                                l.weight, l.big[0], l.big[1], l.big[2], l.big[3]};
    for (unsigned i = 0; i < G_N_ELEMENTS(all); i++)
        memory_free(all[i]);
    g_free(l.targets);
    printf("scratch of the products: %.2f MiB\nNo goal: a rate shows how fast this machine is.\n",
           (double)cpu_context_scratch_bytes(cpu) / (1 << 20));
    cpu_context_free(cpu);
    return 0;
}
