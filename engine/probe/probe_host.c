/* Measures what the host's memory gives while updates on the host and copies of a GPU share it. */
#include "engine/cpu/kernels.h"
#include "engine/cpu/memory.h"
#include "engine/host/cores.h"
#include "engine/host/machine.h"
#include "engine/probe/probe_steps.h"

enum {
    MIB = 1 << 20,
    POOL = 1024 * MIB, /* of the updates, and of the copies; caches of servers hold hundreds */
    LEAST_POOL = 128 * MIB,
    ELEMENTS = 4 * MIB,
    COPY = 16 * MIB,
    UNDER_WAY = 4 /* copies of each direction */
};
#define LEAST_SECONDS 0.3

struct updating {
    struct core_sets cores;
    struct cpu_memory pool; /* its arena, whose pages are large like those of a pinned pool */
    gint stop, done;        /* atomic */
};

static void *update(void *data)
{
    struct updating *updates = data;
    const struct adamw_step step = probe_update_step();
    uint64_t place = 0, tensors = updates->pool.arena_bytes / (4 * ELEMENTS * sizeof(float));
    cores_bind(&updates->cores.host);
    struct cpu_context *cpu = cpu_context_start(updates->cores.host_count);
    while (!g_atomic_int_get(&updates->stop)) {
        float *first = (float *)updates->pool.arena + place++ % tensors * 4 * ELEMENTS;
        struct adamw_tensor tensor = {.elements = ELEMENTS,
                                      .param = first,
                                      .gradient = first + ELEMENTS,
                                      .exp_avg = first + 2 * ELEMENTS,
                                      .exp_avg_sq = first + 3 * ELEMENTS};
        cpu_adamw(cpu, &step, NULL, &tensor);
        g_atomic_int_inc(&updates->done);
    }
    cpu_context_free(cpu);
    return NULL;
}

/* Copies in both directions, whose pieces are as large as what each copies beside the other in the
 * same time. */
struct copies {
    struct device *device;
    uint64_t half;     /* of the device's and of the host's memory, for each direction */
    uint64_t bytes[2]; /* H2D, D2H: of a copy */
    uint64_t rounds;
};

static struct mover_after copy_round(struct copies *copies)
{
    const struct mover_after none = {{0}};
    struct mover_after last = {{0}};
    for (int d = 0; d < 2; d++) {
        enum mover_queue queue = d ? MOVER_D2H : MOVER_H2D;
        uint64_t place = (uint64_t)d * copies->half +
                         copies->rounds % (copies->half / copies->bytes[d]) * copies->bytes[d];
        last.queue[queue] = copies->device->ops->copy(copies->device, queue, place, place,
                                                      copies->bytes[d], &none);
    }
    copies->rounds++;
    return last;
}

static void copy_for(struct copies *copies, double seconds)
{
    struct mover_after under_way[UNDER_WAY];
    double begin = probe_now();
    copies->rounds = 0;
    while (probe_now() - begin < seconds) {
        struct mover_after *place = &under_way[copies->rounds % UNDER_WAY];
        if (copies->rounds >= UNDER_WAY)
            copies->device->ops->wait(copies->device, place);
        *place = copy_round(copies);
    }
    copies->device->ops->drain(copies->device);
}

/* Returns the bytes a second that copies and updates read and write together. */
static double measure(struct copies *copies, struct updating *updates)
{
    cores_bind(&updates->cores.compute); /* as the device does while its host updates */
    GThread *thread = g_thread_new("update", update, updates);
    copy_for(copies, LEAST_SECONDS / 3); /* until the updates have come to work */
    gint before = g_atomic_int_get(&updates->done);
    double begin = probe_now();
    copy_for(copies, LEAST_SECONDS);
    double seconds = probe_now() - begin;
    gint done = g_atomic_int_get(&updates->done) - before;
    g_atomic_int_set(&updates->stop, 1);
    g_thread_join(thread);
    cores_bind(&updates->cores.all);
    double updated = (double)done * PROBE_UPDATE_BYTES * ELEMENTS;
    double copied = (double)copies->rounds * (double)(copies->bytes[0] + copies->bytes[1]);
    return (updated + copied) / seconds;
}

static void size_copies(struct copies *copies, const struct platform *platform)
{
    const struct platform_curve *both = &platform->extra[PLATFORM_H2D_BOTH];
    double slower = platform_seconds(&both[0], COPY) / platform_seconds(&both[1], COPY);
    copies->bytes[0] = COPY;
    copies->bytes[1] = (uint64_t)(CLAMP(slower, 0.25, 4) * COPY) / MIB * MIB;
}

bool probe_host_memory(const struct device_ops *ops, struct platform *platform, GError **error)
{
    uint64_t pool = CLAMP(available_bytes() / 8 / MIB * MIB, LEAST_POOL, POOL);
    const struct device_options options = {.arena_bytes = pool, .host_pool_bytes = pool};
    struct copies copies = {.half = pool / 2};
    struct updating updates = {.cores = cores_split(CORES_BESIDE_GPU)};
    if (!cpu_memory_open(&updates.pool, pool, 0, NULL, 1, error))
        return false;
    copies.device = ops->open(&options, error);
    if (!copies.device) {
        cpu_memory_close(&updates.pool);
        return false;
    }
    size_copies(&copies, platform);
    platform->host = (struct platform_host){
        .source = g_strdup_printf("AdamW in fp32 on %u threads beside copies in both directions",
                                  updates.cores.host_count),
        .bytes_per_second = measure(&copies, &updates),
        .ranks = 1,
        .bound = true,
        .binding_speed_up = 1};
    cpu_memory_close(&updates.pool);
    bool done = ops->check(copies.device, error);
    ops->close(copies.device);
    return done;
}
