/* The CUDA device: one GPU, whose copies and operators are queued on streams, and threads of the
 * host for the operators that the plan leaves there. */
#include "engine/cuda/device.h"

#include "base/fault.h"
#include "engine/annotate.h"
#include "engine/cuda/collectives.h"
#include "engine/cuda/memory.h"
#include "engine/cuda/operators.h"
#include "engine/cuda/streams.h"
#include "engine/host/cores.h"
#include "engine/host/host_operators.h"
#include "engine/host/pool_file.h"
#include "engine/host/queues.h"
#include "engine/shards.h"

#include <string.h>

struct cuda_device {
    struct device device;
    int ordinal; /* of the GPU, among the host's */
    struct cuda_failure failure;
    struct cuda_memory memory;
    struct cuda_streams *streams;
    struct cuda_staging staging;
    struct cuda_operators *compute;
    struct host_operators *host;
    const struct annotate *annotate; /* of operators on the host; NULL if the caller does */
    struct core_sets cores;
    bool bound;                      /* the thread that queues is bound to its core */
    struct nodes *nodes;             /* of the host's cores */
    struct work_queues *queues;      /* of the host's threads only */
    mover_ticket done[MOVER_QUEUES]; /* by these threads, each its own */
    struct pool_file *file;          /* below the host pool, or NULL */
    GPtrArray *scalars;              /* of pinned double arrays */
    GArray *loaded;                  /* of struct kernel_key */
    struct device_traffic traffic;
    bool updates; /* whether the last operator was an update */
    /* Several ranks; NULL with one. */
    struct ranks *ranks;
    struct cuda_collectives *collectives;
    struct ranks *on_compute, *on_network; /* on the streams */
};

/* Identifies the kernels that an operator calls within one run. */
struct kernel_key {
    uint32_t kind, inputs, outputs, parts, training;
    uint32_t accumulate, add, norms[MODEL_TENSORS], dropout, masked; /* 0 or 1 */
    uint32_t operands;       /* a bit for each tensor and buffer: whether there is one */
    uint32_t turned, window; /* of the layer's heads */
};

/* Kinds of kernels that belong to no operator. */
enum { CLIPS = MODEL_KINDS, GATHERS };

struct host_work {
    struct mover_after after; /* on streams */
    struct operation operation;
};

struct file_work {
    struct pool_file_work transfer;
    struct mover_after after; /* on streams */
};

static struct cuda_device *cuda_of(struct device *device)
{
    return (struct cuda_device *)device;
}

static void enter_thread(void *self)
{
    struct cuda_device *cuda = self;
    cores_bind(&cuda->cores.host);
    CUDA_TRY(&cuda->failure, cudaSetDevice(cuda->ordinal));
}

static void run_on_host(void *self, const void *work, bool at_once)
{
    struct cuda_device *cuda = self;
    const struct host_work *host = work;
    (void)at_once;
    cuda_streams_wait(cuda->streams, &host->after);
    if (host->operation.op) {
        annotate_operator_begin(cuda->annotate, host->operation.moment);
        host_operators_run(cuda->host, &host->operation);
        annotate_operator_end(cuda->annotate);
        host_operators_share_update(cuda->host, &host->operation);
    }
    cuda_streams_thread_done(cuda->streams, MOVER_HOST, ++cuda->done[MOVER_HOST]);
}

static void run_transfer(void *self, const void *work, bool at_once)
{
    struct cuda_device *cuda = self;
    const struct file_work *file = work;
    (void)at_once;
    cuda_streams_wait(cuda->streams, &file->after);
    char *why = pool_file_transfer(cuda->file, &file->transfer);
    if (why)
        cuda_failure_note_text(&cuda->failure, why);
    enum mover_queue queue = file->transfer.queue;
    cuda_streams_thread_done(cuda->streams, queue, ++cuda->done[queue]);
}

/* The version of a driver that is not installed is 0. */
static const char *why_none(cudaError_t failed)
{
    int driver = 0;
    if (failed == cudaErrorInsufficientDriver && cudaDriverGetVersion(&driver) == cudaSuccess &&
        driver == 0)
        return "no NVIDIA driver is installed";
    return cudaGetErrorString(failed);
}

/* Makes a GPU current, one for each rank of the host. A thread that waits for the GPU yields its
 * core, because the host's operators use all cores. */
static bool find_device(const struct ranks *ranks, GError **error)
{
    int count = 0, ordinal = ranks ? (int)ranks->node_rank : 0;
    cudaError_t failed = cudaGetDeviceCount(&count);
    if (failed == cudaSuccess && count > 0 && ordinal >= count) {
        g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_NONE_HERE,
                    "%u ranks on this host need a GPU each, and it has %d", ranks->node_count,
                    count);
        return false;
    }
    if (failed == cudaSuccess && count > 0)
        failed = cudaInitDevice(ordinal, cudaDeviceScheduleYield, cudaInitDeviceFlagsAreValid);
    else if (failed == cudaSuccess)
        failed = cudaErrorNoDevice;
    if (failed == cudaSuccess)
        failed = cudaSetDevice(ordinal);
    if (failed == cudaSuccess)
        return true;
    g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_NONE_HERE, "no CUDA device: %s",
                why_none(failed));
    return false;
}

static char *describe(struct device_capacity *capacity, GError **error)
{
    struct cudaDeviceProp properties;
    if (!find_device(NULL, error))
        return NULL;
    cudaError_t failed = cudaGetDeviceProperties(&properties, 0);
    if (failed != cudaSuccess) {
        g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_NONE_HERE, "no CUDA device: %s",
                    cudaGetErrorString(failed));
        return NULL;
    }
    return cuda_capacity_measure(capacity, error) ? g_strdup(properties.name) : NULL;
}

/* CUPTI does, unless operators are waited for. */
static bool is_profiled(void)
{
    return !cuda_operators_wait();
}

static void free_pinned(void *memory)
{
    if (memory)
        cudaFreeHost(memory);
}

/* Notes why an operator failed; NULL if it did not. */
static void note(struct cuda_device *cuda, char *why)
{
    if (why)
        cuda_failure_note_text(&cuda->failure, why);
}

/* Queues the updates and squares that wait for others. */
static void flush(void *self)
{
    struct cuda_device *cuda = self;
    note(cuda, cuda_operators_flush(cuda->compute));
}

/* Where nothing moves, updates come one after the other, and nobody waits for a single one. A
 * collector assigns a launch to the operator that makes it, so then each has its own. */
static void join_launches(struct cuda_device *cuda, const struct device_options *options)
{
    if (options->host_pool_bytes > 0 || options->ranks || options->annotate)
        return;
    cuda_operators_join(cuda->compute);
    cuda_streams_flush_with(cuda->streams, flush, cuda);
}

static void cuda_close(struct device *device)
{
    struct cuda_device *cuda = cuda_of(device);
    if (cuda->queues)
        queues_free(cuda->queues);
    if (cuda->compute)
        flush(cuda);
    if (cuda->streams)
        cuda_streams_free(cuda->streams);
    g_clear_pointer(&cuda->compute, cuda_operators_free);
    cuda_collectives_close(cuda->collectives);
    host_operators_free(cuda->host);
    nodes_free(cuda->nodes);
    cuda_staging_close(&cuda->staging);
    pool_file_close(cuda->file);
    g_ptr_array_unref(cuda->scalars);
    g_array_unref(cuda->loaded);
    cuda_memory_close(&cuda->memory);
    g_mutex_clear(&cuda->failure.lock);
    g_free(cuda->failure.text);
    g_free(cuda);
}

static bool open_queues(struct cuda_device *cuda, GError **error)
{
    cuda->streams = cuda_streams_new(&cuda->failure);
    if (cuda->streams && cuda_staging_open(&cuda->staging, &cuda->failure))
        return true;
    cuda_failure_check(&cuda->failure, DEVICE_ERROR_NONE_HERE, error);
    return false;
}

static bool open_ranks(struct cuda_device *cuda, struct ranks *ranks, GError **error)
{
    cudaStream_t compute = cuda_streams_stream(cuda->streams, MOVER_COMPUTE);
    cudaStream_t network = cuda_streams_stream(cuda->streams, MOVER_NETWORK);
    cuda->ranks = ranks;
    cuda->collectives = cuda_collectives_open(ranks, &cuda->failure, error);
    if (!cuda->collectives)
        return false;
    cuda->on_compute = cuda_collectives_on(cuda->collectives, compute);
    cuda->on_network = cuda_collectives_on(cuda->collectives, network);
    host_operators_share(cuda->host, ranks);
    return cuda_operators_share(cuda->compute, cuda->on_compute, cuda->on_network, network, error);
}

/* The pool is memory that was mapped and then pinned, which the system reads and writes past its
 * cache as any other. */
static bool open_file(struct cuda_device *cuda, const struct device_storage *options,
                      GError **error)
{
    return pool_file_open(&cuda->file, options, cuda->memory.host, cuda->memory.host_pool_bytes,
                          error) &&
           (!cuda->file ||
            (queues_start(cuda->queues, MOVER_NVME_READ, run_transfer, enter_thread, cuda, error) &&
             queues_start(cuda->queues, MOVER_NVME_WRITE, run_transfer, enter_thread, cuda,
                          error)));
}

static struct device *cuda_open(const struct device_options *options, GError **error)
{
    if (!find_device(options->ranks, error))
        return NULL;
    struct cuda_device *cuda = g_new0(struct cuda_device, 1);
    cuda->device.ops = &device_cuda;
    cuda->ordinal = options->ranks ? (int)options->ranks->node_rank : 0;
    cuda->scalars = g_ptr_array_new_with_free_func(free_pinned);
    cuda->loaded = g_array_new(FALSE, FALSE, sizeof(struct kernel_key));
    g_mutex_init(&cuda->failure.lock);
    cuda->cores = cores_split(CORES_BESIDE_GPU);
    cuda->nodes = nodes_read(NODES_FOLDER, &cuda->cores.host);
    const struct nodes_spread spread = {cuda->nodes, options->host_cuts, options->host_cut_count};
    if (!open_queues(cuda, error) ||
        !cuda_memory_open(&cuda->memory, options->arena_bytes, options->host_pool_bytes,
                          cuda->nodes ? &spread : NULL, error) ||
        !(cuda->compute = cuda_operators_new(cuda->memory.arena, options->table_bytes,
                                             cuda_streams_stream(cuda->streams, MOVER_COMPUTE),
                                             error))) {
        cuda_close(&cuda->device);
        return NULL;
    }
    join_launches(cuda, options);
    cuda->annotate = annotate_waits(options->annotate) ? NULL : options->annotate;
    uint32_t threads = options->threads ? options->threads : cuda->cores.host_count;
    cuda->host = host_operators_new(threads, cuda->memory.host, cuda->nodes);
    cuda->queues = queues_new();
    if ((!options->ranks || open_ranks(cuda, options->ranks, error)) &&
        open_file(cuda, &options->storage, error) &&
        queues_start(cuda->queues, MOVER_HOST, run_on_host, enter_thread, cuda, error))
        return &cuda->device;
    cuda_close(&cuda->device);
    return NULL;
}

static bool cuda_join(struct device *device, GError **error)
{
    return cuda_collectives_join(cuda_of(device)->collectives, error);
}

static mover_ticket cuda_copy(struct device *device, enum mover_queue queue,
                              uint64_t device_address, uint64_t host_address, uint64_t bytes,
                              const struct mover_after *after)
{
    struct cuda_device *cuda = cuda_of(device);
    g_assert(queue == MOVER_H2D || queue == MOVER_D2H);
    g_assert(device_address + bytes <= cuda->memory.arena_bytes);
    g_assert(host_address + bytes <= cuda->memory.host_pool_bytes);
    uint8_t *on_device = cuda->memory.arena + device_address;
    uint8_t *on_host = cuda->memory.host + host_address;
    bool down = queue == MOVER_D2H;
    cuda_streams_begin(cuda->streams, queue, after);
    if (fault_strikes(FAULT_COPY))
        cuda_failure_note_reason(&cuda->failure, "a copy failed", "cudaMemcpyAsync(");
    CUDA_TRY(&cuda->failure,
             cudaMemcpyAsync(down ? on_host : on_device, down ? on_device : on_host, bytes,
                             down ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice,
                             cuda_streams_stream(cuda->streams, queue)));
    cuda->traffic.bytes[queue] += bytes;
    cuda->traffic.copies[queue]++;
    return cuda_streams_end(cuda->streams, queue);
}

static mover_ticket cuda_move(struct device *device, uint64_t to, uint64_t from, uint64_t bytes,
                              const struct mover_after *after)
{
    struct cuda_device *cuda = cuda_of(device);
    g_assert(MAX(to, from) + bytes <= cuda->memory.arena_bytes);
    flush(cuda);
    cuda_streams_begin(cuda->streams, MOVER_COMPUTE, after);
    CUDA_TRY(&cuda->failure, cuda_memory_move(&cuda->memory, to, from, bytes,
                                              cuda_streams_stream(cuda->streams, MOVER_COMPUTE)));
    return cuda_streams_end(cuda->streams, MOVER_COMPUTE);
}

static mover_ticket cuda_send(struct device *device, uint64_t to, uint64_t bytes, const void *from,
                              const struct mover_after *after)
{
    struct cuda_device *cuda = cuda_of(device);
    g_assert(to + bytes <= cuda->memory.arena_bytes);
    flush(cuda);
    return cuda_staging_send(&cuda->staging, cuda->streams, &cuda->failure, cuda->memory.arena + to,
                             bytes, from, after);
}

/* CUDA loads a kernel when it is first called, and may wait for all streams to do so. No stream may
 * then be waiting for a thread of the host, whose own calls might not return in the meantime. */
static void before_loading(struct cuda_device *cuda, struct kernel_key kernels)
{
    for (guint i = 0; i < cuda->loaded->len; i++)
        if (memcmp(&g_array_index(cuda->loaded, struct kernel_key, i), &kernels, sizeof kernels) ==
            0)
            return;
    g_array_append_val(cuda->loaded, kernels);
    const struct mover_after threads = queues_all(cuda->queues);
    queues_wait(cuda->queues, &threads);
}

static uint32_t operands_of(const struct model_operator *op)
{
    uint32_t operands = 0;
    for (int i = 0; i < MODEL_TENSORS; i++)
        operands = operands << 1 | (op->t[i] != NO_INDEX);
    for (int i = 0; i < MODEL_INPUTS; i++)
        operands = operands << 1 | (op->in[i] != NO_INDEX);
    for (int i = 0; i < MODEL_OUTPUTS; i++)
        operands = operands << 1 | (op->out[i] != NO_INDEX);
    return operands;
}

static struct kernel_key key_of(const struct operation *operation)
{
    const struct model_operator *op = operation->op;
    bool grouped = op->kind == MODEL_GROUPED_FORWARD || op->kind == MODEL_GROUPED_BACKWARD;
    return (struct kernel_key){
        .kind = op->kind,
        .inputs = op->inputs,
        .outputs = op->outputs,
        .parts = op->parts,
        .training = operation->training,
        .accumulate = op->accumulate,
        .add = op->add,
        .norms = {operation->tensor[0].norm != NULL, operation->tensor[1].norm != NULL,
                  operation->tensor[2].norm != NULL},
        .dropout = op->dropout_site != NO_INDEX,
        .masked = op->masked != NO_INDEX,
        .operands = operands_of(op),
        .turned = grouped ? model_config_turned(operation->config, op->layer) : 0,
        .window = grouped ? model_config_window(operation->config, op->layer) : 0,
    };
}

/* The end of a step waits for the last gradient. Before the first update it gets an event, so that
 * nobody waits for updates too. */
static void cover_gradients(struct cuda_device *cuda, const struct operation *operation)
{
    bool updates = operation->op->kind == MODEL_UPDATE;
    if (updates && !cuda->updates) {
        struct mover_after all = cuda_streams_all(cuda->streams);
        cuda_streams_cover(cuda->streams, &all);
    }
    cuda->updates = updates;
}

static mover_ticket cuda_compute(struct device *device, const struct operation *operation,
                                 const struct mover_after *after)
{
    struct cuda_device *cuda = cuda_of(device);
    before_loading(cuda, key_of(operation));
    cover_gradients(cuda, operation);
    cuda_streams_begin(cuda->streams, MOVER_COMPUTE, after);
    struct operation issued = *operation;
    if (cuda->ranks && operation_exchanges(operation))
        issued.turn = ranks_issue(cuda->on_compute);
    if (fault_strikes(FAULT_DEVICE_LOST))
        note(cuda, g_strdup_printf("CUDA: the device is lost at '%s'", operation->name));
    note(cuda, cuda_operators_run(cuda->compute, &issued));
    cuda_operators_share_update(cuda->compute, &issued);
    return cuda_streams_end(cuda->streams, MOVER_COMPUTE);
}

static mover_ticket cuda_reduce(struct device *device, const struct operation *operation,
                                const struct mover_after *after)
{
    struct cuda_device *cuda = cuda_of(device);
    struct operation issued = *operation;
    issued.turn = ranks_issue(cuda->on_network);
    before_loading(cuda, (struct kernel_key){.kind = operation->op->kind});
    cuda_streams_begin(cuda->streams, MOVER_NETWORK, after);
    note(cuda, cuda_operators_reduce(cuda->compute, &issued));
    return cuda_streams_end(cuda->streams, MOVER_NETWORK);
}

/* Copies a shard that is on the device to its place, in the network's stream. */
static void place_shard(struct cuda_device *cuda, const struct device_shard *shard,
                        uint32_t element_bytes)
{
    struct shard own = shard_of(shard->elements, cuda->ranks->count, cuda->ranks->rank);
    uint8_t *whole = cuda->memory.arena + shard->whole_address;
    if (shard->on_device)
        cuda->on_network->ops->copy(cuda->on_network, whole + own.first * element_bytes,
                                    cuda->memory.arena + shard->shard_address,
                                    own.count * element_bytes);
}

static mover_ticket cuda_gather(struct device *device, const struct device_gather *gather,
                                const struct mover_after *after)
{
    struct cuda_device *cuda = cuda_of(device);
    g_autofree struct shard_whole *wholes = g_new(struct shard_whole, gather->count);
    before_loading(cuda, (struct kernel_key){.kind = GATHERS});
    cuda_streams_begin(cuda->streams, MOVER_NETWORK, after);
    for (uint32_t i = 0; i < gather->count; i++) {
        const struct device_shard *shard = &gather->shards[i];
        wholes[i] = (struct shard_whole){shard->elements,
                                         cuda->memory.arena + shard->whole_address};
        place_shard(cuda, shard, gather->element_bytes);
    }
    shards_gather(cuda->on_network, wholes, gather->count, gather->element_bytes);
    return cuda_streams_end(cuda->streams, MOVER_NETWORK);
}

static mover_ticket cuda_clip_gradient(struct device *device, const double *squares, uint32_t count,
                                       double clip, double *scale, const struct mover_after *after)
{
    struct cuda_device *cuda = cuda_of(device);
    before_loading(cuda, (struct kernel_key){.kind = CLIPS});
    flush(cuda);
    cuda_streams_begin(cuda->streams, MOVER_COMPUTE, after);
    CUDA_TRY(&cuda->failure, cuda_operators_clip(cuda->compute, squares, count, clip, scale));
    return cuda_streams_end(cuda->streams, MOVER_COMPUTE);
}

/* Returns what other threads have to do first. */
static struct mover_after of_threads(const struct mover_after *after)
{
    struct mover_after threads = {.queue = {0}};
    for (int q = 0; q < MOVER_QUEUES; q++)
        if (cuda_streams_is_thread(q))
            threads.queue[q] = after->queue[q];
    return threads;
}

/* The caller keeps to its core until cuda_drain, because it may then do something on all cores. Its
 * OpenMP threads leave the cores to those of the host's thread. */
static void leave_cores(struct cuda_device *cuda)
{
    if (!cuda->bound)
        cores_bind(&cuda->cores.compute);
    cuda->bound = true;
    cores_leave();
}

/* The host's thread itself waits for the streams. */
static mover_ticket put_on_host(struct device *device, struct host_work *work,
                                const struct mover_after *after)
{
    const struct mover_after threads = of_threads(after);
    leave_cores(cuda_of(device));
    work->after = cuda_streams_cover(cuda_of(device)->streams, after);
    return queues_put(cuda_of(device)->queues, MOVER_HOST, work, sizeof *work, &threads);
}

/* The file's threads themselves wait for the streams, as the host's does. */
static mover_ticket cuda_transfer(struct device *device, enum mover_queue queue,
                                  const struct device_transfer *transfer,
                                  const struct mover_after *after)
{
    const struct mover_after threads = of_threads(after);
    const struct file_work work = {{queue, *transfer},
                                   cuda_streams_cover(cuda_of(device)->streams, after)};
    return queues_put(cuda_of(device)->queues, queue, &work, sizeof work, &threads);
}

static mover_ticket cuda_compute_on_host(struct device *device, const struct operation *operation,
                                         const struct mover_after *after)
{
    struct cuda_device *cuda = cuda_of(device);
    struct host_work work = {.operation = *operation};
    if (cuda->ranks && operation_exchanges(operation))
        work.operation.turn = ranks_issue(cuda->ranks);
    return put_on_host(device, &work, after);
}

static mover_ticket cuda_join_on_host(struct device *device, const struct mover_after *after)
{
    struct host_work work = {.operation = {.op = NULL}};
    return put_on_host(device, &work, after);
}

static void cuda_wait(struct device *device, const struct mover_after *after)
{
    struct cuda_device *cuda = cuda_of(device);
    const struct mover_after threads = of_threads(after);
    const struct mover_after covered = cuda_streams_cover(cuda->streams, after);
    cuda_streams_wait(cuda->streams, &covered);
    queues_wait(cuda->queues, &threads);
}

/* Waits for streams and for the host's work; streams may wait for the host, and the host for
 * streams. */
static void cuda_drain(struct device *device)
{
    struct cuda_device *cuda = cuda_of(device);
    struct mover_after all = cuda_streams_all(cuda->streams), threads = queues_all(cuda->queues);
    for (int q = 0; q < MOVER_QUEUES; q++)
        all.queue[q] = MAX(all.queue[q], threads.queue[q]);
    cuda_wait(device, &all);
    if (cuda->bound)
        cores_bind(&cuda->cores.all);
    cuda->bound = false;
}

static double *cuda_scalars(struct device *device, uint32_t count)
{
    struct cuda_device *cuda = cuda_of(device);
    double *scalars = NULL;
    if (CUDA_TRY(&cuda->failure, cudaHostAlloc((void **)&scalars, count * sizeof *scalars,
                                               cudaHostAllocMapped | cudaHostAllocPortable)))
        memset(scalars, 0, count * sizeof *scalars);
    else
        g_error("cannot allocate pinned memory for %u numbers", count);
    g_ptr_array_add(cuda->scalars, scalars);
    return scalars;
}

static bool cuda_check(struct device *device, GError **error)
{
    return cuda_failure_check(&cuda_of(device)->failure, DEVICE_ERROR_WORK, error);
}

static double cuda_stall_seconds(struct device *device)
{
    return cuda_streams_stall_seconds(cuda_of(device)->streams);
}

static struct device_traffic cuda_traffic(const struct device *device)
{
    const struct cuda_device *cuda = (const struct cuda_device *)device;
    struct device_traffic traffic = cuda->traffic;
    pool_file_count(cuda->file, &traffic);
    return traffic;
}

static double peak_flops(struct device *device, enum model_precision precision)
{
    (void)device;
    return cuda_peak_flops(precision);
}

static uint8_t *locate(const struct device *device, enum device_memory memory, uint64_t address,
                       uint64_t bytes)
{
    const struct cuda_memory *cuda = &((const struct cuda_device *)device)->memory;
    bool arena = memory == DEVICE_ARENA;
    g_assert(address + bytes <= (arena ? cuda->arena_bytes : cuda->host_pool_bytes));
    return (arena ? cuda->arena : cuda->host) + address;
}

static void cuda_read(struct device *device, enum device_memory memory, uint64_t address,
                      uint64_t bytes, void *to)
{
    CUDA_TRY(&cuda_of(device)->failure,
             cudaMemcpy(to, locate(device, memory, address, bytes), bytes, cudaMemcpyDefault));
}

/* From pageable memory cudaMemcpy returns when it has taken the bytes. The bytes must arrive before
 * later work, on streams that do not wait for the default one. */
static void cuda_write(struct device *device, enum device_memory memory, uint64_t address,
                       uint64_t bytes, const void *from)
{
    struct cuda_failure *failure = &cuda_of(device)->failure;
    CUDA_TRY(failure,
             cudaMemcpy(locate(device, memory, address, bytes), from, bytes, cudaMemcpyDefault));
    CUDA_TRY(failure, cudaStreamSynchronize(NULL));
}

const struct device_ops device_cuda = {
    .name = "cuda",
    .supports = cuda_operators_support,
    .describe = describe,
    .is_profiled = is_profiled,
    .open = cuda_open,
    .join = cuda_join,
    .close = cuda_close,
    .copy = cuda_copy,
    .transfer = cuda_transfer,
    .gather = cuda_gather,
    .move = cuda_move,
    .send = cuda_send,
    .compute = cuda_compute,
    .reduce = cuda_reduce,
    .compute_on_host = cuda_compute_on_host,
    .clip = cuda_clip_gradient,
    .join_on_host = cuda_join_on_host,
    .wait = cuda_wait,
    .drain = cuda_drain,
    .scalars = cuda_scalars,
    .check = cuda_check,
    .stall_seconds = cuda_stall_seconds,
    .traffic = cuda_traffic,
    .peak_flops = peak_flops,
    .read = cuda_read,
    .write = cuda_write,
};
