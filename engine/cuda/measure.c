/* Measures how much memory a GPU has free, and its peak of computation. */
#include "engine/bf16.h"
#include "engine/cuda/device.h"
#include "engine/cuda/operators.h"
#include "engine/probe/probe_steps.h"
#include "engine/random.h"

#include <cuda_runtime_api.h>

/* ---- capacity ---- */

enum {
    CAPACITY_WIDTH = 512,
    ARENA_BYTES = 8 << 20, /* a multiple of what the driver hands out at a time */
    LATER_BYTES = 64 << 20 /* for kernels that are loaded at the first use of a shape */
};

static void multiply(struct device *device, enum model_precision precision)
{
    static const struct mover_after none = {.queue = {0}};
    struct probe_product product;
    g_assert(probe_product_bytes(precision, CAPACITY_WIDTH, CAPACITY_WIDTH, CAPACITY_WIDTH) <=
             ARENA_BYTES);
    probe_product_init(&product, device, precision, CAPACITY_WIDTH, CAPACITY_WIDTH, CAPACITY_WIDTH);
    device->ops->compute(device, &product.operation, &none);
    device->ops->drain(device);
}

static bool read_capacity(struct device_capacity *capacity, GError **error)
{
    size_t available = 0, total = 0;
    cudaError_t failed = cudaMemGetInfo(&available, &total);
    if (failed != cudaSuccess) {
        g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_WORK, "cudaMemGetInfo: %s",
                    cudaGetErrorString(failed));
        return false;
    }
    uint64_t free_bytes = (uint64_t)available + ARENA_BYTES;
    capacity->bytes = free_bytes > LATER_BYTES ? free_bytes - LATER_BYTES : 0;
    capacity->library_bytes = total - capacity->bytes;
    return true;
}

bool cuda_capacity_measure(struct device_capacity *capacity, GError **error)
{
    const struct device_options options = {.arena_bytes = ARENA_BYTES, .threads = 1};
    struct device *device = device_cuda.open(&options, error);
    if (!device)
        return false;
    multiply(device, MODEL_FP32);
    multiply(device, MODEL_BF16);
    bool ok = device->ops->check(device, error) && read_capacity(capacity, error);
    device->ops->close(device);
    return ok;
}

/* ---- peak ---- */

enum { PEAK_WIDTH = 4096, TRIES = 20 };

struct peak_trial {
    uint8_t *memory; /* as a struct probe_product uses it */
    cudaStream_t stream;
    cudaEvent_t begin, end;
    struct cuda_operators *operators;
};

/* Fills the operands, which lie one after the other, with random numbers. */
static bool fill(uint8_t *operands, enum model_precision precision)
{
    uint64_t count = 2 * (uint64_t)PEAK_WIDTH * PEAK_WIDTH;
    const struct random_stream stream = {.seed = 1};
    g_autofree float *values = g_new(float, count);
    random_normal(&stream, 0, count, 1, values);
    if (precision == MODEL_FP32)
        return cudaMemcpy(operands, values, count * sizeof *values, cudaMemcpyHostToDevice) ==
               cudaSuccess;
    g_autofree uint16_t *halves = g_new(uint16_t, count);
    for (uint64_t i = 0; i < count; i++)
        halves[i] = bf16_round(values[i]);
    return cudaMemcpy(operands, halves, count * sizeof *halves, cudaMemcpyHostToDevice) ==
           cudaSuccess;
}

static bool prepare(struct peak_trial *trial, enum model_precision precision)
{
    uint64_t bytes = probe_product_bytes(precision, PEAK_WIDTH, PEAK_WIDTH, PEAK_WIDTH);
    return cudaMalloc((void **)&trial->memory, bytes) == cudaSuccess &&
           cudaMemset(trial->memory, 0, bytes) == cudaSuccess && fill(trial->memory, precision) &&
           cudaStreamSynchronize(NULL) == cudaSuccess &&
           cudaStreamCreateWithFlags(&trial->stream, cudaStreamNonBlocking) == cudaSuccess &&
           cudaEventCreate(&trial->begin) == cudaSuccess &&
           cudaEventCreate(&trial->end) == cudaSuccess &&
           (trial->operators = cuda_operators_new(trial->memory, 0, trial->stream, NULL));
}

static void finish(struct peak_trial *trial)
{
    if (trial->stream)
        cudaStreamSynchronize(trial->stream);
    g_clear_pointer(&trial->operators, cuda_operators_free);
    if (trial->begin)
        cudaEventDestroy(trial->begin);
    if (trial->end)
        cudaEventDestroy(trial->end);
    if (trial->stream)
        cudaStreamDestroy(trial->stream);
    cudaFree(trial->memory);
    (void)cudaGetLastError(); /* a trial that cannot be made is no failure of the run */
}

static double best_rate(const struct peak_trial *trial, const struct operation *product)
{
    double best = 0;
    for (int i = 0; i < TRIES; i++) {
        float milliseconds = 0;
        if (cudaEventRecord(trial->begin, trial->stream) != cudaSuccess ||
            cuda_operators_run(trial->operators, product) != cudaSuccess ||
            cudaEventRecord(trial->end, trial->stream) != cudaSuccess ||
            cudaEventSynchronize(trial->end) != cudaSuccess ||
            cudaEventElapsedTime(&milliseconds, trial->begin, trial->end) != cudaSuccess)
            return 0;
        best = MAX(best, 2.0 * PEAK_WIDTH * PEAK_WIDTH * PEAK_WIDTH / (milliseconds * 1e-3));
    }
    return best;
}

double cuda_peak_flops(enum model_precision precision)
{
    struct probe_product product;
    probe_product_init(&product, NULL, precision, PEAK_WIDTH, PEAK_WIDTH, PEAK_WIDTH);
    struct peak_trial trial = {.memory = NULL};
    double rate = prepare(&trial, precision) ? best_rate(&trial, &product.operation) : 0;
    finish(&trial);
    return rate;
}
