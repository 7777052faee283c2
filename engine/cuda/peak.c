#include "engine/cuda/peak.h"

#include "engine/bf16.h"
#include "engine/cuda/operators.h"
#include "engine/probe/probe_product.h"
#include "engine/random.h"

enum { WIDTH = 4096, TRIES = 20 };

struct trial {
    uint8_t *memory; /* of a struct probe_product */
    cudaStream_t stream;
    cudaEvent_t begin, end;
    struct cuda_operators *operators;
};

/* The operands, one after the other, as random numbers. */
static bool fill(uint8_t *operands, enum model_precision precision)
{
    uint64_t count = 2 * (uint64_t)WIDTH * WIDTH;
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

static bool prepare(struct trial *trial, enum model_precision precision)
{
    uint64_t bytes = probe_product_bytes(precision, WIDTH, WIDTH, WIDTH);
    return cudaMalloc((void **)&trial->memory, bytes) == cudaSuccess &&
           cudaMemset(trial->memory, 0, bytes) == cudaSuccess && fill(trial->memory, precision) &&
           cudaStreamSynchronize(NULL) == cudaSuccess &&
           cudaStreamCreateWithFlags(&trial->stream, cudaStreamNonBlocking) == cudaSuccess &&
           cudaEventCreate(&trial->begin) == cudaSuccess &&
           cudaEventCreate(&trial->end) == cudaSuccess &&
           (trial->operators = cuda_operators_new(trial->memory, trial->stream, NULL));
}

static void finish(struct trial *trial)
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
    (void)cudaGetLastError(); /* a trial that could not be made is no failure of the run */
}

static double best_rate(const struct trial *trial, const struct operation *product)
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
        best = MAX(best, 2.0 * WIDTH * WIDTH * WIDTH / (milliseconds * 1e-3));
    }
    return best;
}

double cuda_peak_flops(enum model_precision precision)
{
    struct probe_product product;
    probe_product_init(&product, NULL, precision, WIDTH, WIDTH, WIDTH);
    struct trial trial = {.memory = NULL};
    double rate = prepare(&trial, precision) ? best_rate(&trial, &product.operation) : 0;
    finish(&trial);
    return rate;
}
