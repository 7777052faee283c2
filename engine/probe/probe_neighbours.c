/* Operators on the compute cores while copies over a link, or the host's operators, run on others:
 * caches and memory are shared all the same. */
#include "engine/probe/probe_steps.h"

#include "engine/cpu/kernels.h"
#include "engine/host/cores.h"
#include "engine/probe/probe_measure.h"

enum {
    MEMORY = 128 << 20,
    COPY = 2 << 20,
    ROUNDS = 7,
    ROWS = 256,
    INPUTS = 512,
    OUTPUTS = 2048,
    ELEMENTS = 1 << 20
};
#define ROUND_SECONDS 0.06

/* The operators that are measured, on the compute cores. */
struct bench {
    struct cpu_context *cpu;
    enum platform_bound bound;
    struct adamw_step step;
    float *data; /* [MEMORY], walked through so that operands come from memory */
    uint64_t place;
};

static float *take(struct bench *b, uint64_t elements)
{
    b->place = (b->place + elements) * sizeof(float) <= MEMORY ? b->place : 0;
    float *taken = b->data + b->place;
    b->place += elements;
    return taken;
}

static void run_operator(struct bench *b)
{
    if (b->bound == PLATFORM_MEMORY_BOUND) {
        struct adamw_tensor tensor = {.elements = ELEMENTS};
        tensor.param = take(b, ELEMENTS);
        tensor.gradient = take(b, ELEMENTS);
        tensor.exp_avg = take(b, ELEMENTS);
        tensor.exp_avg_sq = take(b, ELEMENTS);
        cpu_adamw(b->cpu, &b->step, NULL, &tensor);
        return;
    }
    enum model_precision precision = b->bound == PLATFORM_PRODUCT_BF16 ? MODEL_BF16 : MODEL_FP32;
    float *x = take(b, ROWS * INPUTS), *weight = take(b, INPUTS * OUTPUTS);
    cpu_linear_forward(b->cpu, precision, ROWS, INPUTS, OUTPUTS, x, weight, weight,
                       take(b, ROWS * OUTPUTS));
}

static double seconds_of(struct bench *b)
{
    double begin = probe_now(), now;
    uint32_t count = 0;
    do {
        run_operator(b);
        count++;
    } while ((now = probe_now()) < begin + ROUND_SECONDS);
    return (now - begin) / count;
}

/* ---- the neighbours ---- */

/* Enough copies for a round and a bit, walking through both memories. */
static void queue_copies(struct device *device, enum mover_queue queue)
{
    const struct mover_after none = {{0}};
    uint32_t copies = (uint32_t)(1.3 * ROUND_SECONDS * PLATFORM_BESIDE_RATE / COPY) + 1;
    for (uint32_t i = 0; i < copies; i++) {
        uint64_t place = (uint64_t)i * COPY % MEMORY;
        device->ops->copy(device, queue, place, place, COPY, &none);
    }
}

struct host_load {
    struct core_sets cores;
    struct adamw_step step;
    gint stop; /* atomic */
};

static void *update_on_host(void *data)
{
    struct host_load *load = data;
    cores_bind(&load->cores.host);
    struct bench b = {.cpu = cpu_context_new(load->cores.host_count),
                      .bound = PLATFORM_MEMORY_BOUND,
                      .step = load->step,
                      .data = g_malloc0(MEMORY)};
    while (!g_atomic_int_get(&load->stop))
        run_operator(&b);
    g_free(b.data);
    cpu_context_free(b.cpu);
    return NULL;
}

static double beside_copies(struct bench *b, struct device *device, enum mover_queue queue)
{
    queue_copies(device, queue);
    double seconds = seconds_of(b);
    device->ops->drain(device);
    return seconds;
}

static double beside_update(struct bench *b, const struct core_sets *cores)
{
    struct host_load load = {.cores = *cores, .step = b->step};
    GThread *thread = g_thread_new("update", update_on_host, &load);
    seconds_of(b); /* while its memory is touched for the first time */
    double seconds = seconds_of(b);
    g_atomic_int_set(&load.stop, 1);
    g_thread_join(thread);
    return seconds;
}

/* Alone and beside each, in turn, so that what drifts does so for all. */
static void measure(struct bench *b, struct device *device, const struct core_sets *cores,
                    double slow_down[3])
{
    double added[3][ROUNDS];
    seconds_of(b);
    for (int round = 0; round < ROUNDS; round++) {
        double alone = seconds_of(b);
        added[PLATFORM_BESIDE_H2D][round] = beside_copies(b, device, MOVER_H2D) / alone - 1;
        added[PLATFORM_BESIDE_D2H][round] = beside_copies(b, device, MOVER_D2H) / alone - 1;
        added[PLATFORM_BESIDE_UPDATE][round] = beside_update(b, cores) / alone - 1;
    }
    for (int neighbour = 0; neighbour < 3; neighbour++)
        slow_down[neighbour] = MAX(0, probe_median(added[neighbour], ROUNDS));
}

bool probe_neighbours(const struct device_ops *ops, struct platform *platform, GError **error)
{
    const struct core_sets cores = cores_split(true);
    const struct device_options options = {.arena_bytes = MEMORY,
                                           .host_pool_bytes = MEMORY,
                                           .h2d_rate = PLATFORM_BESIDE_RATE,
                                           .d2h_rate = PLATFORM_BESIDE_RATE};
    const struct adamw_options adamw = {
        .learning_rate = 1e-4, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .gradient_scale = 1};
    struct device *device = ops->open(&options, error);
    if (!device)
        return false;
    struct bench b = {.cpu = cpu_context_new(cores.compute_count),
                      .step = adamw_step_of(&adamw, 1),
                      .data = g_malloc0(MEMORY)};
    for (int bound = 0; bound < 3; bound++) {
        b.bound = (enum platform_bound)bound;
        measure(&b, device, &cores, platform->threads.slow_down[bound]);
    }
    g_free(b.data);
    cpu_context_free(b.cpu);
    device->ops->close(device);
    return true;
}
