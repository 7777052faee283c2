/* Copies and moves of a device, in trains of equal ones that walk through both memories, so that no
 * copy finds its bytes in a cache. */
#include "engine/cpu/kernels.h"
#include "engine/host/cores.h"
#include "engine/probe/probe_steps.h"

enum { MEMORY = 192 << 20, TRAIN = 96 << 20, LONGEST_TRAIN = 256 };
#define BESIDE_SECONDS 0.01 /* more than a train takes over a fast link */

/* The largest fits in half of the memory. */
static const uint64_t sizes[] = {64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20};

struct train {
    struct device *device;
    uint64_t bytes; /* of a copy */
    uint32_t copies;
    uint64_t memory;              /* that each queue walks through */
    bool queue[MOVER_QUEUES];     /* directions that copy */
    uint64_t place[MOVER_QUEUES]; /* of the next copy or move */
};

static uint64_t next_place(struct train *train, enum mover_queue queue)
{
    uint64_t place = train->place[queue];
    train->place[queue] = place + 2 * train->bytes <= train->memory ? place + train->bytes : 0;
    return place;
}

/* Copies in both directions take turns. Each direction then has a half of both memories for itself,
 * because neither waits for the other. */
static void run_copies(void *data)
{
    struct train *train = data;
    struct mover_after last = {{0}}, none = {{0}};
    bool both = train->queue[MOVER_H2D] && train->queue[MOVER_D2H];
    for (uint32_t i = 0; i < train->copies; i++)
        for (int q = 0; q < MOVER_QUEUES; q++)
            if (train->queue[q]) {
                uint64_t place = next_place(train, (enum mover_queue)q) +
                                 (both && q == MOVER_D2H ? train->memory : 0);
                last.queue[q] = train->device->ops->copy(train->device, (enum mover_queue)q, place,
                                                         place, train->bytes, &none);
            }
    train->device->ops->wait(train->device, &last);
}

/* While the device computes: the time to queue the products is not the copies', and what is left of
 * them is not the next train's. */
static double seconds_beside(struct train *train, struct probe_product *product)
{
    enum { TRIES = 9 };
    double taken[TRIES];
    for (int i = 0; i < TRIES; i++) {
        probe_product_queue(product, BESIDE_SECONDS);
        double start = probe_now();
        run_copies(train);
        taken[i] = probe_now() - start;
        train->device->ops->drain(train->device);
    }
    return probe_median(taken, TRIES);
}

/* Each into the room that the one before left, as a plan closes gaps. */
static void run_moves(void *data)
{
    struct train *train = data;
    struct mover_after last = {{0}};
    const struct mover_after none = {{0}};
    for (uint32_t i = 0; i < train->copies; i++) {
        uint64_t to = next_place(train, MOVER_COMPUTE);
        uint64_t from = MIN(to + train->bytes, train->memory - train->bytes);
        last.queue[MOVER_COMPUTE] = train->device->ops->move(train->device, to, from, train->bytes,
                                                             &none);
    }
    train->device->ops->wait(train->device, &last);
}

/* `beside` is the device's work during the copies, or NULL. */
static void measure(struct device *device, probe_work *work, bool h2d, bool d2h,
                    struct probe_product *beside, struct platform_curve *curve)
{
    for (size_t s = 0; s < G_N_ELEMENTS(sizes); s++) {
        struct train train = {.device = device,
                              .bytes = sizes[s],
                              .memory = h2d && d2h ? MEMORY / 2 : MEMORY,
                              .copies = (uint32_t)CLAMP(TRAIN / sizes[s], 1, LONGEST_TRAIN),
                              .queue = {[MOVER_H2D] = h2d, [MOVER_D2H] = d2h}};
        double seconds = beside ? seconds_beside(&train, beside) : probe_seconds(work, &train);
        probe_add(curve, (double)sizes[s], seconds / train.copies);
    }
}

/* Caches hold much of a small arena. */
static void measure_moves_within(struct device *device, struct platform_curve *curve)
{
    for (uint64_t memory = MEMORY / 12; memory <= MEMORY; memory += MAX(memory / 2, 1 << 20)) {
        struct train train = {
            .device = device, .bytes = 1 << 20, .memory = memory, .copies = TRAIN >> 20};
        probe_add(curve, (double)memory, probe_seconds(run_moves, &train) / train.copies);
    }
    probe_source(curve, g_strdup("moves of 1 MiB, by the bytes of the arena, median"));
}

/* ---- beside compute ---- */

struct compute_load {
    struct core_sets cores;
    gint stop; /* atomic */
};

static void *compute(void *data)
{
    enum { ROWS = 256, WIDTH = 1024 };
    struct compute_load *load = data;
    cores_bind(&load->cores.compute);
    struct cpu_context *cpu = cpu_context_start(load->cores.compute_count);
    float *x = g_new0(float, ROWS *WIDTH), *y = g_new0(float, ROWS *WIDTH);
    float *weight = g_new0(float, WIDTH *WIDTH), *bias = g_new0(float, WIDTH);
    while (!g_atomic_int_get(&load->stop))
        cpu_linear_forward(cpu, MODEL_FP32, ROWS, WIDTH, WIDTH, x, weight, bias, y);
    g_free(bias);
    g_free(weight);
    g_free(y);
    g_free(x);
    cpu_context_free(cpu);
    return NULL;
}

/* The caller, who waits for the copies, leaves the compute cores to the products. */
static void measure_beside_threads(struct device *device, struct platform *platform)
{
    const struct core_sets cores = cores_split(CORES_APART);
    struct compute_load load = {.cores = cores};
    cores_bind(&cores.host);
    GThread *thread = g_thread_new("compute", compute, &load);
    measure(device, run_copies, true, false, NULL, &platform->extra[PLATFORM_H2D_BESIDE]);
    measure(device, run_copies, false, true, NULL, &platform->extra[PLATFORM_D2H_BESIDE]);
    g_atomic_int_set(&load.stop, 1);
    g_thread_join(thread);
    cores_bind(&cores.compute);
}

/* Products that are long enough to be queued faster than they are computed. */
static void init_beside(struct probe_product *product, struct device *device)
{
    enum { LEAST_WIDTH = 1024, MOST_WIDTH = 4096 };
    uint32_t width = LEAST_WIDTH;
    probe_product_init(product, device, MODEL_BF16, width, width, width);
    while (probe_product_measure(product) < BESIDE_SECONDS / 100 && width < MOST_WIDTH) {
        width *= 2;
        g_assert(probe_product_bytes(MODEL_BF16, width, width, width) <= MEMORY);
        probe_product_init(product, device, MODEL_BF16, width, width, width);
    }
}

static void measure_beside_products(struct device *device, struct platform *platform)
{
    struct probe_product product;
    init_beside(&product, device);
    measure(device, run_copies, true, false, &product, &platform->extra[PLATFORM_H2D_BESIDE]);
    measure(device, run_copies, false, true, &product, &platform->extra[PLATFORM_D2H_BESIDE]);
}

static void name_sources(struct platform *platform, bool threads)
{
    struct platform_curve *extra = platform->extra;
    probe_source(&platform->h2d,
                 g_strdup(threads ? "memcpy by the copy thread on the host's cores, trains of "
                                    "copies, median"
                                  : "pinned memory, trains of copies, median"));
    probe_source(&platform->d2h, g_strdup(platform->h2d.source));
    probe_source(&extra[PLATFORM_H2D_BOTH],
                 g_strdup("trains in both directions at once, a copy of each"));
    probe_source(&extra[PLATFORM_D2H_BOTH], g_strdup(extra[PLATFORM_H2D_BOTH].source));
    probe_source(&extra[PLATFORM_H2D_BESIDE],
                 g_strdup(threads ? "trains while fp32 matrix products run on the compute cores"
                                  : "trains while the device computes bf16 matrix products"));
    probe_source(&extra[PLATFORM_D2H_BESIDE], g_strdup(extra[PLATFORM_H2D_BESIDE].source));
    probe_source(&extra[PLATFORM_MOVE],
                 g_strdup(threads ? "memmove by the computing thread into room just left, median"
                                  : "copies within the device, into room just left, median"));
}

bool probe_copies(const struct device_ops *ops, struct platform *platform, GError **error)
{
    const struct device_options options = {.arena_bytes = MEMORY,
                                           .host_pool_bytes = MEMORY,
                                           .h2d_rate = PROBE_FASTEST_LINK,
                                           .d2h_rate = PROBE_FASTEST_LINK};
    struct platform_curve *extra = platform->extra, *both = &extra[PLATFORM_H2D_BOTH];
    bool threads = ops == &device_cpu;
    struct device *device = ops->open(&options, error);
    if (!device)
        return false;
    measure(device, run_copies, true, false, NULL, &platform->h2d);
    measure(device, run_copies, false, true, NULL, &platform->d2h);
    measure(device, run_copies, true, true, NULL, both);
    for (uint32_t i = 0; i < both->count; i++)
        probe_add(&extra[PLATFORM_D2H_BOTH], both->points[i].amount, both->points[i].seconds);
    measure(device, run_moves, false, false, NULL, &extra[PLATFORM_MOVE]);
    measure_moves_within(device, &extra[PLATFORM_MOVE_WITHIN]);
    if (threads)
        measure_beside_threads(device, platform);
    else
        measure_beside_products(device, platform);
    bool done = ops->check(device, error);
    ops->close(device);
    name_sources(platform, threads);
    return done;
}
