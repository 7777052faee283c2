/* What a device with a memory of its own computes, through its queue: the larger the product, the
 * nearer to its peak. */
#include "engine/probe/probe_steps.h"

#include "engine/bf16.h"
#include "engine/probe/probe_measure.h"
#include "engine/probe/probe_product.h"
#include "engine/random.h"

enum { LARGEST = 8192, FILLED = 4 << 20, TRAIN = 256 << 20 };
#define LONGEST_SECONDS 0.05 /* a product that takes longer is the last */

static const struct {
    uint32_t rows, inputs, outputs;
} shapes[] = {{256, 256, 256},        {512, 768, 768},      {1024, 1024, 1024},
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

static void add_product(struct platform *platform, size_t shape, enum model_precision precision,
                        double seconds)
{
    platform->products = g_renew(struct platform_product, platform->products,
                                 platform->product_count + 1);
    platform->products[platform->product_count++] =
        (struct platform_product){.rows = shapes[shape].rows,
                                  .inputs = shapes[shape].inputs,
                                  .outputs = shapes[shape].outputs,
                                  .threads = 1,
                                  .bf16 = precision == MODEL_BF16,
                                  .seconds = seconds};
}

static void measure_products(struct device *device, struct platform *platform,
                             enum model_precision precision)
{
    struct platform_curve *curve = &platform->compute[precision];
    double seconds = 0;
    for (size_t s = 0; s < G_N_ELEMENTS(shapes) && seconds < LONGEST_SECONDS; s++) {
        struct probe_product product;
        probe_product_init(&product, device, precision, shapes[s].rows, shapes[s].inputs,
                           shapes[s].outputs);
        seconds = probe_product_measure(&product);
        add_product(platform, s, precision, seconds);
        probe_add(curve, 2.0 * shapes[s].rows * shapes[s].inputs * shapes[s].outputs, seconds);
    }
    probe_source(curve, g_strdup("linear layers' forward through the device's queue, by shape in "
                                 "products, median"));
}

struct traffic {
    struct device *device;
    uint64_t bytes;
    uint32_t moves;
};

static void run_traffic(void *data)
{
    const struct traffic *t = data;
    const struct mover_after none = {{0}};
    struct mover_after last = {{0}};
    for (uint32_t i = 0; i < t->moves; i++)
        last.queue[MOVER_COMPUTE] = t->device->ops->move(t->device, i % 2 * t->bytes,
                                                         (i + 1) % 2 * t->bytes, t->bytes, &none);
    t->device->ops->wait(t->device, &last);
}

/* A move reads and writes. */
static void measure_traffic(struct device *device, uint64_t arena, struct platform_curve *curve)
{
    for (uint64_t bytes = 64 << 10; 2 * bytes <= arena; bytes *= 4) {
        struct traffic t = {device, bytes, (uint32_t)CLAMP(TRAIN / bytes, 1, 64)};
        probe_add(curve, 2.0 * (double)bytes, probe_seconds(run_traffic, &t) / t.moves);
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
        measure_products(device, platform, (enum model_precision)precision);
    }
    measure_traffic(device, options.arena_bytes, &platform->memory);
    bool done = ops->check(device, error);
    ops->close(device);
    return done;
}
