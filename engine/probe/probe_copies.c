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
    enum mover_queue queue; /* MOVER_COMPUTE for moves */
    uint64_t bytes;         /* of a copy */
    uint32_t copies;
    uint64_t start, memory; /* what it walks through of both memories */
    uint64_t place;         /* of the next copy or move, from `start` */
};

static uint64_t next_place(struct train *train)
{
    uint64_t place = train->place;
    train->place = place + 2 * train->bytes <= train->memory ? place + train->bytes : 0;
    return train->start + place;
}

static void queue_copies(struct train *train, struct mover_after *last)
{
    const struct mover_after none = {{0}};
    for (uint32_t i = 0; i < train->copies; i++) {
        uint64_t place = next_place(train);
        last->queue[train->queue] = train->device->ops->copy(train->device, train->queue, place,
                                                             place, train->bytes, &none);
    }
}

static void run_copies(void *data)
{
    struct train *train = data;
    struct mover_after last = {{0}};
    queue_copies(train, &last);
    train->device->ops->wait(train->device, &last);
}

/* What the device does during the copies: one of both. */
struct load {
    struct probe_product *product;
    struct train *other; /* in the other direction */
};

static void begin(const struct load *load)
{
    struct mover_after last = {{0}};
    if (load->product)
        probe_product_queue(load->product, BESIDE_SECONDS);
    else
        queue_copies(load->other, &last);
}

/* The time to queue the load is not the copies', and what is left of it is not the next train's. */
static double seconds_beside(struct train *train, const struct load *load)
{
    enum { TRIES = 9 };
    double taken[TRIES];
    for (int i = 0; i < TRIES; i++) {
        begin(load);
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
        uint64_t to = next_place(train);
        uint64_t from = MIN(to + train->bytes, train->memory - train->bytes);
        last.queue[MOVER_COMPUTE] = train->device->ops->move(train->device, to, from, train->bytes,
                                                             &none);
    }
    train->device->ops->wait(train->device, &last);
}

static struct train train_of(struct device *device, enum mover_queue queue, uint64_t bytes)
{
    return (struct train){.device = device,
                          .queue = queue,
                          .bytes = bytes,
                          .copies = (uint32_t)CLAMP(TRAIN / bytes, 1, LONGEST_TRAIN),
                          .memory = MEMORY};
}

static void measure(struct device *device, enum mover_queue queue, probe_work *work,
                    struct platform_curve *curve)
{
    for (size_t s = 0; s < G_N_ELEMENTS(sizes); s++) {
        struct train train = train_of(device, queue, sizes[s]);
        probe_add(curve, (double)sizes[s], probe_seconds(work, &train) / train.copies);
    }
}

static void measure_beside(struct device *device, enum mover_queue queue,
                           struct probe_product *product, struct platform_curve *curve)
{
    const struct load load = {.product = product};
    for (size_t s = 0; s < G_N_ELEMENTS(sizes); s++) {
        struct train train = train_of(device, queue, sizes[s]);
        probe_add(curve, (double)sizes[s], seconds_beside(&train, &load) / train.copies);
    }
}

/* The other direction copies for longer, because one may be slowed much more: beside each other, an
 * H200 copied 51 GB/s to the host and 37 from it, and 55 and 50 alone. Each direction has a half of
 * both memories, because neither waits for the other. */
static void measure_both(struct device *device, enum mover_queue queue,
                         struct platform_curve *curve)
{
    enum { TIMES = 3, OTHER_BYTES = 4 << 20 };
    for (size_t s = 0; s < G_N_ELEMENTS(sizes); s++) {
        struct train train = train_of(device, queue, sizes[s]);
        struct train other = train_of(device, queue == MOVER_H2D ? MOVER_D2H : MOVER_H2D,
                                      MAX(sizes[s], OTHER_BYTES));
        train.memory = other.memory = other.start = MEMORY / 2;
        other.copies = (uint32_t)(TIMES * train.copies * train.bytes / other.bytes);
        const struct load load = {.other = &other};
        probe_add(curve, (double)sizes[s], seconds_beside(&train, &load) / train.copies);
    }
}

/* Caches hold much of a small arena. */
static void measure_moves_within(struct device *device, struct platform_curve *curve)
{
    for (uint64_t memory = MEMORY / 12; memory <= MEMORY; memory += MAX(memory / 2, 1 << 20)) {
        struct train train = train_of(device, MOVER_COMPUTE, 1 << 20);
        train.memory = memory;
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
    measure(device, MOVER_H2D, run_copies, &platform->extra[PLATFORM_H2D_BESIDE]);
    measure(device, MOVER_D2H, run_copies, &platform->extra[PLATFORM_D2H_BESIDE]);
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
    measure_beside(device, MOVER_H2D, &product, &platform->extra[PLATFORM_H2D_BESIDE]);
    measure_beside(device, MOVER_D2H, &product, &platform->extra[PLATFORM_D2H_BESIDE]);
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
                 g_strdup("trains while copies in the other direction go on, median"));
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
    struct platform_curve *extra = platform->extra;
    bool threads = ops == &device_cpu;
    struct device *device = ops->open(&options, error);
    if (!device)
        return false;
    measure(device, MOVER_H2D, run_copies, &platform->h2d);
    measure(device, MOVER_D2H, run_copies, &platform->d2h);
    measure_both(device, MOVER_H2D, &extra[PLATFORM_H2D_BOTH]);
    measure_both(device, MOVER_D2H, &extra[PLATFORM_D2H_BOTH]);
    measure(device, MOVER_COMPUTE, run_moves, &extra[PLATFORM_MOVE]);
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
