/* The CPU device: for machines without a GPU. It has an arena in the host's memory, and threads
 * that copy. */
#include "engine/device.h"

#include "base/fault.h"
#include "base/size.h"
#include "engine/annotate.h"
#include "engine/cpu/kernels.h"
#include "engine/cpu/memory.h"
#include "engine/host/cores.h"
#include "engine/host/host_operators.h"
#include "engine/host/machine.h"
#include "engine/host/pool_file.h"
#include "engine/host/queues.h"
#include "engine/shards.h"

#include <stdatomic.h>
#include <string.h>
#include <time.h>

struct cpu_device {
    struct device device;
    struct cpu_memory memory;
    struct core_sets cores;
    struct nodes *nodes; /* of the host's cores */
    struct work_queues *queues;
    struct ranks *ranks;                   /* NULL with one */
    struct link link[MOVER_QUEUES];        /* H2D and D2H */
    struct host_operators *compute, *host; /* of the arena, of the host pool */
    struct host_operators *network;        /* reductions, on the arena; NULL with one rank */
    uint32_t threads;                      /* of compute */
    GPtrArray *scalars;                    /* of double arrays */
    const struct annotate *annotate;
    uint64_t stall_ns;
    struct pool_file *file;  /* below host memory, or NULL */
    _Atomic(char *) failure; /* the first; NULL for none */
};

struct copy {
    enum mover_queue direction;
    uint64_t device_address, host_address, bytes;
};

static struct cpu_device *cpu_of(struct device *device)
{
    return (struct cpu_device *)device;
}

static void enter_copies(void *self)
{
    struct cpu_device *cpu = self;
    cores_bind(&cpu->cores.host);
    link_enter();
}

/* Notes why work failed, unless some has failed before. Frees `why`. Any thread may call it. */
static void note(struct cpu_device *cpu, char *why)
{
    char *none = NULL;
    if (!atomic_compare_exchange_strong(&cpu->failure, &none, why))
        g_free(why);
}

static void note_copy(struct cpu_device *cpu, const struct copy *copy)
{
    g_autofree char *size = size_format(copy->bytes);
    note(cpu, g_strdup_printf("a copy of %s %s the device failed", size,
                              copy->direction == MOVER_D2H ? "from" : "to"));
}

/* Sleeps as long as 99 copies take that take as long as one from `start` until now. */
static void slow_down(gint64 start)
{
    enum { TIMES = 100 };
    g_usleep((gulong)((g_get_monotonic_time() - start) * (TIMES - 1)));
}

static void run_copy(void *self, const void *work, bool at_once)
{
    struct cpu_device *cpu = self;
    const struct copy *copy = work;
    uint8_t *on_device = cpu->memory.arena + copy->device_address;
    uint8_t *on_host = cpu->memory.host + copy->host_address;
    bool down = copy->direction == MOVER_D2H;
    if (fault_strikes(FAULT_COPY)) {
        note_copy(cpu, copy);
        return;
    }
    gint64 start = g_get_monotonic_time();
    annotate_copy_begin(cpu->annotate, copy->direction, copy->bytes);
    link_copy(&cpu->link[copy->direction], down ? on_host : on_device, down ? on_device : on_host,
              copy->bytes, at_once);
    if (fault_strikes(FAULT_SLOW_COPY))
        slow_down(start);
    annotate_copy_end(cpu->annotate);
}

static void run_transfer(void *self, const void *work, bool at_once)
{
    struct cpu_device *cpu = self;
    const struct pool_file_work *transfer = work;
    char *why = pool_file_transfer(cpu->file, transfer);
    (void)at_once;
    if (why)
        note(cpu, why);
}

static mover_ticket cpu_transfer(struct device *device, enum mover_queue queue,
                                 const struct device_transfer *transfer,
                                 const struct mover_after *after)
{
    const struct pool_file_work work = {queue, *transfer};
    return queues_put(((struct cpu_device *)device)->queues, queue, &work, sizeof work, after);
}

static bool open_file(struct cpu_device *cpu, const struct device_storage *options, GError **error)
{
    return pool_file_open(&cpu->file, options, cpu->memory.host, cpu->memory.host_pool_bytes,
                          error) &&
           (!cpu->file ||
            (queues_start(cpu->queues, MOVER_NVME_READ, run_transfer, NULL, cpu, error) &&
             queues_start(cpu->queues, MOVER_NVME_WRITE, run_transfer, NULL, cpu, error)));
}

static void enter_host(void *self)
{
    cores_bind(&((struct cpu_device *)self)->cores.host);
}

static void run_operator(struct host_operators *operators, const struct operation *operation)
{
    host_operators_run(operators, operation);
    host_operators_share_update(operators, operation);
}

static void run_on_host(void *self, const void *work, bool at_once)
{
    const struct operation *operation = work;
    (void)at_once;
    if (operation->op)
        run_operator(((struct cpu_device *)self)->host, operation);
}

/* The network's work: a reduction, or a gather. */
struct exchange {
    bool reduces;
    struct operation operation; /* of a reduction */
    uint64_t turn;
    uint32_t count, element_bytes;
    struct device_shard shards[];
};

/* Copies a shard that is on the device to its place in the whole tensor. */
static void place_shard(const struct cpu_device *cpu, const struct exchange *gather,
                        const struct device_shard *shard)
{
    struct shard own = shard_of(shard->elements, cpu->ranks->count, cpu->ranks->rank);
    memcpy(cpu->memory.arena + shard->whole_address + own.first * gather->element_bytes,
           cpu->memory.arena + shard->shard_address, own.count * gather->element_bytes);
}

static void run_gather(const struct cpu_device *cpu, const struct exchange *gather)
{
    g_autofree struct shard_whole *wholes = g_new(struct shard_whole, gather->count);
    uint64_t elements = 0; /* of other ranks */
    for (uint32_t i = 0; i < gather->count; i++) {
        const struct device_shard *shard = &gather->shards[i];
        wholes[i] = (struct shard_whole){shard->elements, cpu->memory.arena + shard->whole_address};
        if (shard->on_device)
            place_shard(cpu, gather, shard);
        elements += shard->elements -
                    shard_of(shard->elements, cpu->ranks->count, cpu->ranks->rank).count;
    }
    ranks_begin(cpu->ranks, gather->turn);
    annotate_gather_begin(cpu->annotate, elements * gather->element_bytes);
    shards_gather(cpu->ranks, wholes, gather->count, gather->element_bytes);
    annotate_gather_end(cpu->annotate);
    ranks_end(cpu->ranks);
}

static void run_exchange(void *self, const void *work, bool at_once)
{
    struct cpu_device *cpu = self;
    const struct exchange *exchange = work;
    (void)at_once;
    if (exchange->reduces)
        host_operators_run(cpu->network, &exchange->operation);
    else
        run_gather(cpu, exchange);
}

static bool cpu_supports(const struct model_config *config, GError **error)
{
    uint32_t head_width = model_config_head_size(config);
    if (head_width <= CPU_HEAD_LIMIT)
        return true;
    g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_MODEL,
                "heads have %u columns; the CPU device computes attention heads of at most %d",
                head_width, CPU_HEAD_LIMIT);
    return false;
}

static char *describe(struct device_capacity *capacity, GError **error)
{
    (void)error;
    capacity->library_bytes = 0;
    return cpu_describe(&capacity->bytes);
}

static void cpu_close(struct device *device)
{
    struct cpu_device *cpu = cpu_of(device);
    queues_free(cpu->queues);
    pool_file_close(cpu->file);
    host_operators_free(cpu->compute);
    host_operators_free(cpu->host);
    host_operators_free(cpu->network);
    g_ptr_array_unref(cpu->scalars);
    cores_bind(&cpu->cores.all);
    cpu_memory_close(&cpu->memory);
    nodes_free(cpu->nodes);
    g_free(cpu->failure);
    g_free(cpu);
}

/* Threads inherit their creator's cores. The host's kernels get their threads at its first
 * operator. */
static struct device *cpu_open(const struct device_options *options, GError **error)
{
    struct cpu_device *cpu = g_new0(struct cpu_device, 1);
    cpu->device.ops = &device_cpu;
    cpu->annotate = options->annotate;
    cpu->ranks = options->ranks;
    cpu->cores = cores_split(options->h2d_rate > 0 || options->d2h_rate > 0 ? CORES_APART
                                                                            : CORES_TOGETHER);
    cpu->nodes = nodes_read(NODES_FOLDER, &cpu->cores.host);
    cpu->threads = options->threads ? options->threads : cpu->cores.compute_count;
    const struct nodes_spread spread = {cpu->nodes, options->host_cuts, options->host_cut_count};
    if (!cpu_memory_open(&cpu->memory, options->arena_bytes, options->host_pool_bytes,
                         cpu->nodes ? &spread : NULL, cpu->threads + cpu->cores.host_count,
                         error)) {
        nodes_free(cpu->nodes);
        g_free(cpu);
        return NULL;
    }
    cpu->link[MOVER_H2D].rate = options->h2d_rate;
    cpu->link[MOVER_D2H].rate = options->d2h_rate;
    cores_bind(&cpu->cores.compute);
    cpu->compute = host_operators_new(cpu->threads, cpu->memory.arena, NULL);
    host_operators_begin(cpu->compute);
    cpu->host = host_operators_new(cpu->cores.host_count, cpu->memory.host, cpu->nodes);
    host_operators_connect(cpu->compute, options->stages);
    if (options->ranks) {
        host_operators_share(cpu->compute, options->ranks);
        host_operators_share(cpu->host, options->ranks);
        cpu->network = host_operators_new(1, cpu->memory.arena, NULL);
        host_operators_share(cpu->network, options->ranks);
    }
    cpu->scalars = g_ptr_array_new_with_free_func(g_free);
    cpu->queues = queues_new();
    if (open_file(cpu, &options->storage, error) &&
        queues_start(cpu->queues, MOVER_H2D, run_copy, enter_copies, cpu, error) &&
        queues_start(cpu->queues, MOVER_D2H, run_copy, enter_copies, cpu, error) &&
        queues_start(cpu->queues, MOVER_HOST, run_on_host, enter_host, cpu, error) &&
        (!cpu->ranks ||
         queues_start(cpu->queues, MOVER_NETWORK, run_exchange, enter_host, cpu, error)))
        return &cpu->device;
    cpu_close(&cpu->device);
    return NULL;
}

static mover_ticket cpu_copy(struct device *device, enum mover_queue queue, uint64_t device_address,
                             uint64_t host_address, uint64_t bytes, const struct mover_after *after)
{
    struct cpu_device *cpu = cpu_of(device);
    g_assert(queue == MOVER_H2D || queue == MOVER_D2H);
    g_assert(device_address + bytes <= cpu->memory.arena_bytes);
    g_assert(host_address + bytes <= cpu->memory.host_pool_bytes);
    struct copy copy = {queue, device_address, host_address, bytes};
    return queues_put(cpu->queues, queue, &copy, sizeof copy, after);
}

static mover_ticket cpu_gather(struct device *device, const struct device_gather *shards,
                               const struct mover_after *after)
{
    struct cpu_device *cpu = cpu_of(device);
    size_t bytes = sizeof(struct exchange) + shards->count * sizeof *shards->shards;
    g_autofree struct exchange *gather = g_malloc(bytes);
    *gather = (struct exchange){.turn = ranks_issue(cpu->ranks),
                                .count = shards->count,
                                .element_bytes = shards->element_bytes};
    memcpy(gather->shards, shards->shards, shards->count * sizeof *shards->shards);
    return queues_put(cpu->queues, MOVER_NETWORK, gather, (uint32_t)bytes, after);
}

/* Returns the operation with a turn for its collectives. */
static struct operation with_turn(const struct cpu_device *cpu, const struct operation *operation)
{
    struct operation issued = *operation;
    if (cpu->ranks && operation_exchanges(operation))
        issued.turn = ranks_issue(cpu->ranks);
    return issued;
}

static mover_ticket cpu_reduce(struct device *device, const struct operation *operation,
                               const struct mover_after *after)
{
    const struct exchange exchange = {.reduces = true,
                                      .operation = with_turn(cpu_of(device), operation)};
    return queues_put(cpu_of(device)->queues, MOVER_NETWORK, &exchange, sizeof exchange, after);
}

static void cpu_wait(struct device *device, const struct mover_after *after)
{
    struct cpu_device *cpu = cpu_of(device);
    cpu->stall_ns += queues_wait(cpu->queues, after);
}

static mover_ticket cpu_move(struct device *device, uint64_t to, uint64_t from, uint64_t bytes,
                             const struct mover_after *after)
{
    struct cpu_device *cpu = cpu_of(device);
    g_assert(MAX(to, from) + bytes <= cpu->memory.arena_bytes);
    cpu_wait(device, after);
    memmove(cpu->memory.arena + to, cpu->memory.arena + from, bytes);
    return queues_complete(cpu->queues, MOVER_COMPUTE);
}

static mover_ticket cpu_send(struct device *device, uint64_t to, uint64_t bytes, const void *from,
                             const struct mover_after *after)
{
    struct cpu_device *cpu = cpu_of(device);
    g_assert(to + bytes <= cpu->memory.arena_bytes);
    cpu_wait(device, after);
    memcpy(cpu->memory.arena + to, from, bytes);
    return queues_complete(cpu->queues, MOVER_COMPUTE);
}

/* Returns whether other processes wait for what the operator does. */
static bool takes_part(const struct operation *operation)
{
    return operation_exchanges(operation) || operation->op->kind == MODEL_SEND ||
           operation->op->kind == MODEL_RECEIVE;
}

static mover_ticket cpu_compute(struct device *device, const struct operation *operation,
                                const struct mover_after *after)
{
    struct cpu_device *cpu = cpu_of(device);
    const struct operation issued = with_turn(cpu, operation);
    cpu_wait(device, after);
    gint64 start = g_get_monotonic_time();
    bool lost = fault_strikes(FAULT_DEVICE_LOST);
    if (lost)
        note(cpu, g_strdup_printf("the device is lost at '%s'", operation->name));
    if (!lost || takes_part(operation)) /* or others would wait for ever, and so would this one */
        run_operator(cpu->compute, &issued);
    if (operation->op->kind == MODEL_RECEIVE) /* waits for another stage */
        cpu->stall_ns += (uint64_t)(g_get_monotonic_time() - start) * 1000;
    return queues_complete(cpu->queues, MOVER_COMPUTE);
}

static mover_ticket cpu_compute_on_host(struct device *device, const struct operation *operation,
                                        const struct mover_after *after)
{
    const struct operation issued = with_turn(cpu_of(device), operation);
    return queues_put(cpu_of(device)->queues, MOVER_HOST, &issued, sizeof issued, after);
}

static mover_ticket clip_gradient(struct device *device, const double *squares, uint32_t count,
                                  double clip, double *scale, const struct mover_after *after)
{
    cpu_wait(device, after);
    cpu_clip(NULL, count, squares, clip, scale);
    return queues_complete(cpu_of(device)->queues, MOVER_COMPUTE);
}

static mover_ticket cpu_join_on_host(struct device *device, const struct mover_after *after)
{
    static const struct operation nothing = {.op = NULL};
    return queues_put(cpu_of(device)->queues, MOVER_HOST, &nothing, sizeof nothing, after);
}

static void cpu_drain(struct device *device)
{
    struct mover_after all = queues_all(cpu_of(device)->queues);
    cpu_wait(device, &all);
}

static double *cpu_scalars(struct device *device, uint32_t count)
{
    double *scalars = g_new0(double, count);
    g_ptr_array_add(cpu_of(device)->scalars, scalars);
    return scalars;
}

/* On this device nothing but the file below host memory, and faults that tests inject, fail without
 * ending the program. */
static bool cpu_check(struct device *device, GError **error)
{
    const char *why = cpu_of(device)->failure;
    if (why)
        g_set_error_literal(error, DEVICE_ERROR, DEVICE_ERROR_WORK, why);
    return !why;
}

static double cpu_stall_seconds(struct device *device)
{
    return (double)cpu_of(device)->stall_ns * 1e-9;
}

static struct device_traffic cpu_traffic(const struct device *device)
{
    const struct cpu_device *cpu = (const struct cpu_device *)device;
    struct device_traffic traffic = {{0}, {0}};
    for (int q = 0; q < MOVER_QUEUES; q++) {
        traffic.bytes[q] = cpu->link[q].bytes;
        traffic.copies[q] = cpu->link[q].copies;
    }
    pool_file_count(cpu->file, &traffic);
    return traffic;
}

static double seconds_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Takes the best of a few products of matrices that fit the last level of the caches; of fewer
 * where they take long, since a run of a small model begins with them. */
static double cpu_peak_flops(struct device *device, enum model_precision precision)
{
    enum { N = 1024, TRIES = 8, FEW_TRIES = 3 };
    const double enough_seconds = 0.05;
    struct cpu_context *context = cpu_context_start(cpu_of(device)->threads);
    uint64_t bytes = (uint64_t)N * N * sizeof(float);
    float *operands = g_malloc0(4 * bytes);
    double best = 0, began = seconds_now();
    for (int i = 0; i < TRIES && (i < FEW_TRIES || seconds_now() - began < enough_seconds); i++) {
        double start = seconds_now();
        cpu_linear_forward(context, precision, N, N, N, operands, operands + bytes / 4,
                           operands + bytes / 2, operands + 3 * bytes / 4);
        double rate = 2.0 * N * N * N / (seconds_now() - start);
        best = MAX(best, rate);
    }
    g_free(operands);
    cpu_context_free(context);
    return best;
}

static uint8_t *locate(const struct device *device, enum device_memory memory, uint64_t address,
                       uint64_t bytes)
{
    const struct cpu_memory *cpu = &((const struct cpu_device *)device)->memory;
    bool arena = memory == DEVICE_ARENA;
    g_assert(address + bytes <= (arena ? cpu->arena_bytes : cpu->host_pool_bytes));
    return (arena ? cpu->arena : cpu->host) + address;
}

static void cpu_read(struct device *device, enum device_memory memory, uint64_t address,
                     uint64_t bytes, void *to)
{
    memcpy(to, locate(device, memory, address, bytes), bytes);
}

static void cpu_write(struct device *device, enum device_memory memory, uint64_t address,
                      uint64_t bytes, const void *from)
{
    memcpy(locate(device, memory, address, bytes), from, bytes);
}

const struct device_ops device_cpu = {
    .name = "cpu",
    .supports = cpu_supports,
    .describe = describe,
    .open = cpu_open,
    .close = cpu_close,
    .copy = cpu_copy,
    .transfer = cpu_transfer,
    .gather = cpu_gather,
    .reduce = cpu_reduce,
    .move = cpu_move,
    .send = cpu_send,
    .compute = cpu_compute,
    .compute_on_host = cpu_compute_on_host,
    .clip = clip_gradient,
    .join_on_host = cpu_join_on_host,
    .wait = cpu_wait,
    .drain = cpu_drain,
    .scalars = cpu_scalars,
    .check = cpu_check,
    .stall_seconds = cpu_stall_seconds,
    .traffic = cpu_traffic,
    .peak_flops = cpu_peak_flops,
    .read = cpu_read,
    .write = cpu_write,
};
