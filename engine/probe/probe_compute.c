/* Measures the rates of the CPU device's kernels, on all cores and on the cores that --link leaves
 * them. */
#include "engine/bf16.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/memory.h"
#include "engine/host/cores.h"
#include "engine/host/machine.h"
#include "engine/probe/probe_steps.h"
#include "engine/random.h"
#include <unistd.h>

struct shape {
    uint32_t rows, inputs, outputs;
};

static const struct shape shapes[] = {
    {64, 64, 64}, {128, 256, 256}, {256, 384, 384}, {256, 768, 3072}, {1024, 1024, 4096}};

enum { LEAST_ELEMENTS = 1 << 10, ELEMENTS = 4 << 20, WEIGHT = 1024 * 4096, ROWS = 1024 * 4096 };

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
    struct product p = {.cpu = cpu_context_start(threads),
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

bool probe_compute(const struct device_ops *ops, struct platform *platform, GError **error)
{
    (void)ops;
    const struct core_sets cores = cores_split(CORES_APART);
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

/* Memory as host operators find their chunks in; walked through, so that no update finds its
 * operands in a cache. */
struct update {
    struct cpu_context *cpu;
    uint8_t *pool;
    struct adamw_step step;
    uint64_t pool_bytes, elements, place;
};

/* Servers have caches of hundreds of megabytes: on one with an H200, 256 MiB were updated nearly
 * three times as fast as memory lets them be. Several ranks measure at the same time, each on its
 * cores, and share what memory there is. */
#define UPDATE_MEMORY       (1u << 30)
#define UPDATE_CACHES       4 /* times the last cache */
#define UPDATE_MEMORY_LEAST (256u << 20)

static uint64_t update_memory(const struct core_sets *cores)
{
    long cache = sysconf(_SC_LEVEL3_CACHE_SIZE), online = sysconf(_SC_NPROCESSORS_ONLN);
    uint64_t wanted = MAX(UPDATE_MEMORY, UPDATE_CACHES * (uint64_t)MAX(cache, 0));
    double share = MIN(1, (double)CPU_COUNT(&cores->all) / (double)MAX(online, 1));
    uint64_t spare = (uint64_t)(share * (double)available_bytes() / 4);
    return MAX(UPDATE_MEMORY_LEAST, MIN(wanted, spare) >> 20 << 20);
}

static float *take(struct update *u)
{
    uint64_t bytes = u->elements * sizeof(float);
    u->place = u->place + bytes <= u->pool_bytes ? u->place : 0;
    float *taken = (float *)(u->pool + u->place);
    u->place += bytes;
    return taken;
}

static void run_update(void *data)
{
    struct update *u = data;
    struct adamw_tensor tensor = {.elements = u->elements};
    tensor.param = take(u);
    tensor.gradient = take(u);
    tensor.exp_avg = take(u);
    tensor.exp_avg_sq = take(u);
    cpu_adamw(u->cpu, &u->step, NULL, &tensor);
}

static void measure_updates(const cpu_set_t *cores, uint32_t threads, struct update *u,
                            struct platform_curve *curve)
{
    cores_bind(cores);
    u->cpu = cpu_context_start(threads);
    for (u->elements = LEAST_ELEMENTS; u->elements <= ELEMENTS; u->elements *= 4)
        probe_add(curve, (double)u->elements, probe_seconds(run_update, u));
    probe_source(curve, g_strdup_printf("AdamW in fp32 on %u threads, operands from memory, median",
                                        threads));
    cpu_context_free(u->cpu);
}

static void measure_threads(const cpu_set_t *cores, struct update *u, struct platform_curve *curve)
{
    uint32_t all = (uint32_t)CPU_COUNT(cores);
    for (uint32_t threads = 1; threads <= all; threads += MAX(1, threads / 2)) {
        struct platform_curve of_threads = {0};
        measure_updates(cores, threads, u, &of_threads);
        probe_add(curve, threads, of_threads.points[of_threads.count - 1].seconds);
        g_free(of_threads.points);
        g_free(of_threads.source);
    }
    probe_source(curve, g_strdup("AdamW in fp32 on 4 Mi elements, by threads, median"));
}

/* The CPU device's pool is a file in memory. Those of other devices are like its arena, for which
 * the system may have large pages: updates are some percent faster there. */
static uint8_t *open_pool(const struct device_ops *ops, struct cpu_memory *memory, uint64_t bytes,
                          GError **error)
{
    uint64_t arena_bytes = ops == &device_cpu ? 0 : bytes;
    if (!cpu_memory_open(memory, arena_bytes, bytes - arena_bytes, NULL, 1, error))
        return NULL;
    return arena_bytes ? memory->arena : memory->host;
}

struct adamw_step probe_update_step(void)
{
    const struct adamw_options options = {
        .learning_rate = 1e-4, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .gradient_scale = 1};
    return adamw_step_of(&options, 1);
}

bool probe_updates(const struct device_ops *ops, struct platform *platform, GError **error)
{
    const struct core_sets cores = cores_split(CORES_APART);
    struct platform_curve *extra = platform->extra;
    struct cpu_memory memory;
    struct update u = {.step = probe_update_step(), .pool_bytes = update_memory(&cores)};
    u.pool = open_pool(ops, &memory, u.pool_bytes, error);
    if (!u.pool)
        return false;
    const struct core_sets updating = cores_split(ops == &device_cpu ? CORES_TOGETHER
                                                                     : CORES_BESIDE_GPU);
    measure_updates(&updating.host, updating.host_count, &u, &platform->host_update);
    measure_updates(&cores.host, cores.host_count, &u, &extra[PLATFORM_HOST_UPDATE_APART]);
    measure_threads(&cores.all, &u, &extra[PLATFORM_UPDATE_THREADS]);
    cores_bind(&cores.all);
    cpu_memory_close(&memory);
    return true;
}

/* ---- the same through a device's queue ---- */

enum { LARGEST = 8192, FILLED = 4 << 20, TRAIN = 256 << 20 };
#define LONGEST_SECONDS 0.05 /* a product that takes longer is the last */

static const struct {
    uint32_t rows, inputs, outputs;
} queued_shapes[] = {{256, 256, 256},        {512, 768, 768},      {1024, 1024, 1024},
                     {1024, 1024, 4096},     {2048, 2048, 2048},   {4096, 4096, 4096},
                     {4096, 4096, 4 * 4096}, {8192, 8192, LARGEST}};

/* Zeros multiply faster than numbers do: the same few millions of these again and again. */
static void fill(struct device *device, uint64_t bytes, enum model_precision precision)
{
    const struct random_stream stream = {.seed = 1};
    g_autofree float *values = g_new(float, FILLED);
    g_autofree uint16_t *halves = g_new(uint16_t, FILLED);
    bool bf16 = precision == MODEL_BF16;
    const void *numbers = bf16 ? (const void *)halves : values;
    uint64_t piece = FILLED * (bf16 ? sizeof *halves : sizeof *values);
    random_normal(&stream, 0, FILLED, 1, values);
    for (int i = 0; i < FILLED; i++)
        halves[i] = bf16_round(values[i]);
    for (uint64_t at = 0; at < bytes; at += piece)
        device->ops->write(device, DEVICE_ARENA, at, MIN(bytes - at, piece), numbers);
}

static void add_queued_product(struct platform *platform, size_t shape,
                               enum model_precision precision, double seconds)
{
    platform->products = g_renew(struct platform_product, platform->products,
                                 platform->product_count + 1);
    platform->products[platform->product_count++] =
        (struct platform_product){.rows = queued_shapes[shape].rows,
                                  .inputs = queued_shapes[shape].inputs,
                                  .outputs = queued_shapes[shape].outputs,
                                  .threads = 1,
                                  .bf16 = precision == MODEL_BF16,
                                  .seconds = seconds};
}

static void queue_products(struct device *device, struct platform *platform,
                           enum model_precision precision)
{
    struct platform_curve *curve = &platform->compute[precision];
    double seconds = 0;
    for (size_t s = 0; s < G_N_ELEMENTS(queued_shapes) && seconds < LONGEST_SECONDS; s++) {
        struct probe_product product;
        probe_product_init(&product, device, precision, queued_shapes[s].rows,
                           queued_shapes[s].inputs, queued_shapes[s].outputs);
        seconds = probe_product_measure(&product);
        add_queued_product(platform, s, precision, seconds);
        probe_add(curve,
                  2.0 * queued_shapes[s].rows * queued_shapes[s].inputs * queued_shapes[s].outputs,
                  seconds);
    }
    probe_source(curve, g_strdup("linear layers' forward through the device's queue, by shape in "
                                 "products, median"));
}

struct queued_walk {
    struct device *device;
    uint64_t bytes;
    uint32_t moves;
};

static void queued_traffic(void *data)
{
    const struct queued_walk *t = data;
    const struct mover_after none = {{0}};
    struct mover_after last = {{0}};
    for (uint32_t i = 0; i < t->moves; i++)
        last.queue[MOVER_COMPUTE] = t->device->ops->move(t->device, i % 2 * t->bytes,
                                                         (i + 1) % 2 * t->bytes, t->bytes, &none);
    t->device->ops->wait(t->device, &last);
}

/* A move reads and writes. */
static void queue_traffic(struct device *device, uint64_t arena, struct platform_curve *curve)
{
    for (uint64_t bytes = 64 << 10; 2 * bytes <= arena; bytes *= 4) {
        struct queued_walk t = {device, bytes, (uint32_t)CLAMP(TRAIN / bytes, 1, 64)};
        probe_add(curve, 2.0 * (double)bytes, probe_seconds(queued_traffic, &t) / t.moves);
    }
    probe_source(curve, g_strdup("copies within the device, read and written, median"));
}

bool probe_operators(const struct device_ops *ops, struct platform *platform, GError **error)
{
    const struct device_options options = {
        .arena_bytes = probe_product_bytes(MODEL_FP32, LARGEST, LARGEST, LARGEST)};
    struct device *device = ops->open(&options, error);
    if (!device)
        return false;
    for (int precision = MODEL_FP32; precision <= MODEL_BF16; precision++) {
        fill(device, options.arena_bytes, (enum model_precision)precision);
        queue_products(device, platform, (enum model_precision)precision);
    }
    queue_traffic(device, options.arena_bytes, &platform->memory);
    probe_attention(device, platform);
    bool done = ops->check(device, error);
    ops->close(device);
    return done;
}
