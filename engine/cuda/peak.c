#include "engine/cuda/peak.h"

#include "engine/bf16.h"
#include "engine/cuda/operators.h"
#include "engine/random.h"

enum { WIDTH = 4096, TRIES = 20 };

struct trial {
    uint8_t *memory; /* x, weight, y, bias */
    cudaStream_t stream;
    cudaEvent_t begin, end;
    struct cuda_operators *operators;
};

static bool fill(uint8_t *matrix, enum model_precision precision)
{
    uint64_t count = (uint64_t)WIDTH * WIDTH;
    uint64_t element = precision == MODEL_BF16 ? sizeof(uint16_t) : sizeof(float);
    const struct random_stream stream = {.seed = 1};
    g_autofree float *values = g_new(float, count);
    random_normal(&stream, 0, count, 1, values);
    uint16_t *halves = (uint16_t *)values;
    for (uint64_t i = 0; precision == MODEL_BF16 && i < count; i++)
        halves[i] = bf16_round(values[i]);
    return cudaMemcpy(matrix, values, count * element, cudaMemcpyHostToDevice) == cudaSuccess;
}

static bool prepare(struct trial *trial, enum model_precision precision, uint64_t matrix_bytes)
{
    return cudaMalloc((void **)&trial->memory, 3 * matrix_bytes + WIDTH * sizeof(float)) ==
               cudaSuccess &&
           cudaMemset(trial->memory + 3 * matrix_bytes, 0, WIDTH * sizeof(float)) == cudaSuccess &&
           fill(trial->memory, precision) && fill(trial->memory + matrix_bytes, precision) &&
           cudaStreamCreateWithFlags(&trial->stream, cudaStreamNonBlocking) == cudaSuccess &&
           cudaEventCreate(&trial->begin) == cudaSuccess &&
           cudaEventCreate(&trial->end) == cudaSuccess &&
           (trial->operators = cuda_operators_new(trial->memory, trial->stream, NULL)) != NULL;
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
    uint64_t matrix_bytes = (uint64_t)WIDTH * WIDTH *
                            (precision == MODEL_BF16 ? sizeof(uint16_t) : sizeof(float));
    const struct model_config config = {.width = WIDTH, .heads = WIDTH / 64};
    const struct model_job job = {
        .batch = 1, .sequence = WIDTH, .micro_batches = 1, .precision = precision};
    const struct model_operator op = {.kind = MODEL_LINEAR_FORWARD,
                                      .dropout_site = MODEL_NONE,
                                      .inputs = WIDTH,
                                      .outputs = WIDTH};
    struct operation product = {.op = &op,
                                .config = &config,
                                .job = &job,
                                .in = {0},
                                .out = {2 * matrix_bytes, OPERATION_ABSENT},
                                .workspace = OPERATION_ABSENT,
                                .masked = OPERATION_ABSENT};
    product.tensor[0].address[TRACE_PARAM] = matrix_bytes;
    product.tensor[1].address[TRACE_PARAM] = 3 * matrix_bytes;
    struct trial trial = {.memory = NULL};
    double rate = prepare(&trial, precision, matrix_bytes) ? best_rate(&trial, &product) : 0;
    finish(&trial);
    return rate;
}
