/* Measures the overheads of the CPU device's threads, and how much they slow each other. */
#include "chunks/dry_run.h"
#include "engine/cpu/kernels.h"
#include "engine/engine.h"
#include "engine/host/cores.h"
#include "engine/probe/probe_steps.h"

#include <stddef.h>

/* ---- waiting and waking ---- */

enum { TRIES = 41, ROUND_TRIP = 4 << 20, TINY = 256 };

/* Threads that have slept for a while, as they do between copies, wake more slowly. */
static void compute_for(double seconds)
{
    double end = probe_now() + seconds;
    while (probe_now() < end)
        continue;
}

struct round_trip {
    double put, all; /* seconds, medians: until the copy is queued, and until it is waited for */
};

static struct round_trip measure_round_trip(struct device *device, uint64_t bytes)
{
    const struct mover_after none = {{0}};
    double put[TRIES], all[TRIES];
    for (int i = 0; i < TRIES; i++) {
        compute_for(1e-3);
        double start = probe_now();
        struct mover_after after = {{0}};
        after.queue[MOVER_H2D] = device->ops->copy(device, MOVER_H2D, 0, 0, bytes, &none);
        put[i] = probe_now() - start;
        device->ops->wait(device, &after);
        all[i] = probe_now() - start;
    }
    return (struct round_trip){probe_median(put, TRIES), probe_median(all, TRIES)};
}

/* A copy that takes no time: queued, a thread wakes, copies, and wakes its caller. One over a link:
 * the same, and its sleep ends late. */
static bool measure_waking(struct platform_threads *threads, GError **error)
{
    struct device_options options = {.arena_bytes = ROUND_TRIP,
                                     .host_pool_bytes = ROUND_TRIP,
                                     .h2d_rate = PROBE_FASTEST_LINK,
                                     .d2h_rate = PROBE_FASTEST_LINK};
    struct device *device = device_cpu.open(&options, error);
    if (!device)
        return false;
    struct round_trip at_once = measure_round_trip(device, TINY);
    device->ops->close(device);

    options.h2d_rate = options.d2h_rate = PLATFORM_BESIDE_RATE;
    if (!(device = device_cpu.open(&options, error)))
        return false;
    struct round_trip paced = measure_round_trip(device, ROUND_TRIP);
    device->ops->close(device);

    double late = paced.all - ROUND_TRIP / PLATFORM_BESIDE_RATE - at_once.all;
    threads->put_seconds = at_once.put;
    threads->wake_seconds = MAX(0, at_once.all - at_once.put) / 2;
    threads->late_seconds = MAX(0, late);
    return true;
}

/* ---- between operators ---- */

/* The CPU device's functions, with a stop-watch on its operators. */
struct stop_watch {
    struct device_ops ops;
    double seconds;
};

static mover_ticket compute_timed(struct device *device, const struct operation *operation,
                                  const struct mover_after *after)
{
    struct stop_watch *watch =
        (struct stop_watch *)((const char *)device->ops - offsetof(struct stop_watch, ops));
    double start = probe_now();
    mover_ticket ticket = device_cpu.compute(device, operation, after);
    watch->seconds += probe_now() - start;
    return ticket;
}

/* A model whose operators take next to no time, everything resident. */
static const struct model_config tiny = {.name = "probe",
                                         .layers = 4,
                                         .width = 64,
                                         .heads = 1,
                                         .inner = 256,
                                         .positions = 8,
                                         .vocabulary = 64,
                                         .tied = true,
                                         .norm_epsilon = 1e-5,
                                         .initializer_range = 0.02};

static bool time_iterations(struct engine *engine, const struct model_iteration *iteration,
                            double *gap, GError **error)
{
    enum { ITERATIONS = 21 };
    struct stop_watch watch = {.ops = device_cpu};
    uint32_t tokens[2 * 8] = {0};
    double outside[ITERATIONS];
    watch.ops.compute = compute_timed;
    engine_device(engine)->ops = &watch.ops;
    bool done = true;
    for (uint64_t i = 0; i < ITERATIONS && done; i++) {
        const struct engine_step step = {.step = i,
                                         .tokens = tokens,
                                         .targets = 8,
                                         .learning_rate = 1e-4,
                                         .beta1 = 0.9,
                                         .beta2 = 0.95,
                                         .epsilon = 1e-8};
        struct engine_result result;
        watch.seconds = 0;
        done = engine_step(engine, &step, &result, error);
        outside[i] = result.figures.iteration_seconds - watch.seconds;
    }
    engine_device(engine)->ops = &device_cpu;
    *gap = probe_median(outside, ITERATIONS) / iteration->trace->operator_count;
    return done;
}

static struct plan *resident_plan(const struct trace *trace, const struct non_model *places,
                                  GError **error)
{
    struct layout *layout = layout_pack_uniform(trace, 256 << 10, error);
    struct accesses *accesses = accesses_new(trace, layout, places->extent);
    const struct dry_run_options options = {.device_budget = layout_slot_bytes(layout) +
                                                             places->peak_bytes,
                                            .host_budget = UINT64_MAX,
                                            .policy = &policy_opt};
    struct plan *plan = dry_run_accesses(trace, layout, NULL, accesses, &options, error);
    accesses_free(accesses);
    layout_free(layout);
    return plan;
}

static bool measure_gap(struct platform_threads *threads, GError **error)
{
    const struct model_job job = {.choices = {.batch = 1, .micro_batches = 1}, .sequence = 8};
    struct model_iteration *iteration = model_iteration_new(&tiny, &job, error);
    struct non_model *places = iteration ? non_model_place(iteration->trace) : NULL;
    struct plan *plan = places ? resident_plan(iteration->trace, places, error) : NULL;
    const struct engine_options options = {.iteration = iteration,
                                           .places = places,
                                           .plan = plan,
                                           .device = &device_cpu,
                                           .h2d_rate = PROBE_FASTEST_LINK,
                                           .d2h_rate = PROBE_FASTEST_LINK};
    struct engine *engine = plan ? engine_open(&options, error) : NULL;
    bool done = false;
    if (engine) {
        const struct weights_store store = engine_store(engine);
        done = weights_initialise(&tiny, iteration->trace, 0, &store, error);
    }
    if (done) {
        engine_start(engine);
        done = time_iterations(engine, iteration, &threads->gap_seconds, error);
    }
    engine_close(engine);
    plan_free(plan);
    non_model_free(places);
    model_iteration_free(iteration);
    return done;
}

bool probe_threads(const struct device_ops *ops, struct platform *platform, GError **error)
{
    struct platform_threads *threads = &platform->threads;
    (void)ops;
    threads->host_cores = cores_split(CORES_APART).host_count;
    threads->cores = cores_split(CORES_TOGETHER).compute_count;
    threads->source = g_strdup("the CPU device with --link: a copy's way there and back, a copy "
                               "over a link, the engine around the operators of a small model");
    return measure_waking(threads, error) && measure_gap(threads, error);
}

/* ---- neighbours ---- */

enum {
    MEMORY = 128 << 20,
    NEIGHBOUR_COPY = 2 << 20,
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
    uint32_t copies = (uint32_t)(1.3 * ROUND_SECONDS * PLATFORM_BESIDE_RATE / NEIGHBOUR_COPY) + 1;
    for (uint32_t i = 0; i < copies; i++) {
        uint64_t place = (uint64_t)i * NEIGHBOUR_COPY % MEMORY;
        device->ops->copy(device, queue, place, place, NEIGHBOUR_COPY, &none);
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
    struct bench b = {.cpu = cpu_context_start(load->cores.host_count),
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
    const struct core_sets cores = cores_split(CORES_APART);
    const struct device_options options = {.arena_bytes = MEMORY,
                                           .host_pool_bytes = MEMORY,
                                           .h2d_rate = PLATFORM_BESIDE_RATE,
                                           .d2h_rate = PLATFORM_BESIDE_RATE};
    const struct adamw_options adamw = {
        .learning_rate = 1e-4, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .gradient_scale = 1};
    struct device *device = ops->open(&options, error);
    if (!device)
        return false;
    struct bench b = {.cpu = cpu_context_start(cores.compute_count),
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
