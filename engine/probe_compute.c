/* What the kernels of the CPU device reach, on all cores and on those that --link leaves them. */
#include "engine/probe_steps.h"

#include "engine/cpu/cores.h"
#include "engine/cpu/kernels.h"
#include "engine/probe_measure.h"

struct shape {
    uint32_t rows, inputs, outputs;
};

static const struct shape shapes[] = {
    {64, 64, 64}, {128, 256, 256}, {256, 384, 384}, {256, 768, 3072}, {1024, 1024, 4096}};

enum { ELEMENTS = 4 << 20, WEIGHT = 1024 * 4096, ROWS = 1024 * 4096 };

struct product {
    struct cpu_context *cpu;
    enum model_precision precision;
    struct shape shape;
    float *x, *weight, *y;
};

static void run_product(void *data)
{
    struct product *p = data;
    cpu_linear_forward(p->cpu, p->precision, p->shape.rows, p->shape.inputs, p->shape.outputs, p->x,
                       p->weight, p->weight, p->y);
}

static void add_product(struct platform *platform, const struct product *p, double seconds)
{
    platform->products = g_renew(struct platform_product, platform->products,
                                 platform->product_count + 1);
    platform->products[platform->product_count++] =
        (struct platform_product){.rows = p->shape.rows,
                                  .inputs = p->shape.inputs,
                                  .outputs = p->shape.outputs,
                                  .threads = cpu_context_threads(p->cpu),
                                  .bf16 = p->precision == MODEL_BF16,
                                  .seconds = seconds};
}

static void measure_products(struct platform *platform, struct product *p,
                             struct platform_curve *curve)
{
    for (size_t s = 0; s < G_N_ELEMENTS(shapes); s++) {
        p->shape = shapes[s];
        double seconds = probe_seconds(run_product, p);
        double flops = 2.0 * p->shape.rows * p->shape.inputs * p->shape.outputs;
        add_product(platform, p, seconds);
        probe_add(curve, flops, seconds);
    }
    probe_source(curve, g_strdup_printf("linear layers' forward on %u threads, by shape in "
                                        "products, median",
                                        cpu_context_threads(p->cpu)));
}

/* ---- memory ---- */

struct traffic {
    struct cpu_context *cpu;
    uint32_t elements, rounds;
    float *x, *y;
};

/* Reads two arrays and writes one. */
static void run_traffic(void *data)
{
    struct traffic *t = data;
    for (uint32_t i = 0; i < t->rounds; i++)
        cpu_residual_forward(t->cpu, MODEL_FP32, t->elements / 1024, 1024, t->x, NULL, t->y);
}

static void measure_traffic(struct cpu_context *cpu, float *x, float *y,
                            struct platform_curve *curve)
{
    for (uint32_t elements = 16 << 10; elements <= ELEMENTS; elements *= 4) {
        struct traffic t = {cpu, elements, ELEMENTS / elements, x, y};
        probe_add(curve, 12.0 * elements, probe_seconds(run_traffic, &t) / t.rounds);
    }
    probe_source(curve, g_strdup_printf("y = x + y in fp32 on %u threads, 12 bytes each, median",
                                        cpu_context_threads(cpu)));
}

static void measure_on(struct platform *platform, const cpu_set_t *cores, uint32_t threads,
                       struct platform_curve *products[2], struct platform_curve *traffic)
{
    cores_bind(cores);
    struct product p = {.cpu = cpu_context_new(threads),
                        .x = g_new0(float, ROWS),
                        .weight = g_new0(float, WEIGHT),
                        .y = g_new0(float, ROWS)};
    for (int precision = MODEL_FP32; precision <= MODEL_BF16; precision++) {
        p.precision = (enum model_precision)precision;
        measure_products(platform, &p, products[precision]);
    }
    measure_traffic(p.cpu, p.x, p.y, traffic);
    g_free(p.y);
    g_free(p.weight);
    g_free(p.x);
    cpu_context_free(p.cpu);
}

bool probe_compute(struct platform *platform, GError **error)
{
    const struct cores cores = cores_split(true);
    struct platform_curve *extra = platform->extra;
    struct platform_curve *all[] = {&platform->compute[MODEL_FP32], &platform->compute[MODEL_BF16]};
    struct platform_curve *apart[] = {&extra[PLATFORM_COMPUTE_FP32_APART],
                                      &extra[PLATFORM_COMPUTE_BF16_APART]};
    (void)error;
    measure_on(platform, &cores.all, (uint32_t)CPU_COUNT(&cores.all), all, &platform->memory);
    measure_on(platform, &cores.compute, cores.compute_count, apart, &extra[PLATFORM_MEMORY_APART]);
    cores_bind(&cores.all);
    return true;
}

/* ---- updates ---- */

struct update {
    struct cpu_context *cpu;
    struct cpu_adamw tensor;
    struct adamw_step step;
};

static void run_update(void *data)
{
    struct update *u = data;
    cpu_adamw(u->cpu, &u->step, &u->tensor);
}

static void measure_updates(const cpu_set_t *cores, uint32_t threads, float *lists,
                            struct platform_curve *curve)
{
    struct adamw_options options = {
        .learning_rate = 1e-4, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .gradient_scale = 1};
    cores_bind(cores);
    struct update u = {.cpu = cpu_context_new(threads),
                       .tensor = {.param = lists,
                                  .gradient = lists + ELEMENTS,
                                  .exp_avg = lists + 2 * ELEMENTS,
                                  .exp_avg_sq = lists + 3 * ELEMENTS},
                       .step = adamw_step_of(&options, 1)};
    for (uint64_t elements = 64 << 10; elements <= ELEMENTS; elements *= 4) {
        u.tensor.elements = elements;
        probe_add(curve, (double)elements, probe_seconds(run_update, &u));
    }
    probe_source(curve, g_strdup_printf("AdamW in fp32 on %u threads, median", threads));
    cpu_context_free(u.cpu);
}

bool probe_updates(struct platform *platform, GError **error)
{
    const struct cores cores = cores_split(true);
    uint32_t all = (uint32_t)CPU_COUNT(&cores.all);
    struct platform_curve *extra = platform->extra, *by_threads = &extra[PLATFORM_UPDATE_THREADS];
    float *lists = g_new0(float, 4 * (size_t)ELEMENTS);
    (void)error;
    measure_updates(&cores.all, all, lists, &platform->host_update);
    measure_updates(&cores.host, cores.host_count, lists, &extra[PLATFORM_HOST_UPDATE_APART]);
    for (uint32_t threads = 1; threads <= all; threads += MAX(1, threads / 2)) {
        struct platform_curve curve = {0};
        measure_updates(&cores.all, threads, lists, &curve);
        probe_add(by_threads, threads, curve.points[curve.count - 1].seconds);
        g_free(curve.points);
        g_free(curve.source);
    }
    probe_source(by_threads, g_strdup("AdamW in fp32 on 4 Mi elements, by threads, median"));
    cores_bind(&cores.all);
    g_free(lists);
    return true;
}
