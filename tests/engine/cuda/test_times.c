/* Times what is one launch for several tensors beside a launch for each, on a GPU: the updates and
 * the norms of all vectors of GPT-2 124M. Both forms give the same bits. bench/gpu/kernels.py reads
 * the lines "times: ...". */
#include "engine/cuda/kernels.h"
#include "kernel_runs.h"

#include <cuda_runtime_api.h>
#include <glib.h>

enum { LAYERS = 12, EACH = 8, VECTORS = LAYERS * EACH, ROUNDS = 20 };

static const uint64_t lengths[EACH] = {768, 768, 2304, 768, 768, 768, 3072, 768};

static void try(cudaError_t error)
{
    if (error != cudaSuccess)
        g_error("%s", cudaGetErrorString(error));
}

/* All vectors in device memory, in the layout of 14 bytes, and their norms. */
struct vectors {
    struct cuda_context cuda;
    struct cuda_updates updates;
    struct cuda_squares squares;
    struct adamw_tensor tensor[VECTORS];
    double *norms;
    float *values; /* moments and masters */
    uint64_t value_count;
    void *own;
    uint16_t *params;
};

static void *device_memory(uint64_t bytes, int byte)
{
    void *memory = NULL;
    try(cudaMalloc(&memory, bytes));
    try(cudaMemset(memory, byte, bytes));
    return memory;
}

/* Every byte of numbers is 0x3b: small positive numbers in either precision. */
static void set_up(struct vectors *v, gconstpointer data)
{
    uint64_t all = 0;
    (void)data;
    for (int i = 0; i < VECTORS; i++)
        all += lengths[i % EACH];
    v->value_count = 3 * all;
    v->values = device_memory(v->value_count * sizeof(float), 0x3b);
    v->params = device_memory(all * sizeof(uint16_t), 0x3b);
    v->norms = device_memory(VECTORS * sizeof(double), 0);
    v->own = device_memory(2 * CUDA_SCRATCH_LEAST, 0);
    v->cuda = (struct cuda_context){.scratch = v->own,
                                    .scratch_bytes = CUDA_SCRATCH_LEAST,
                                    .counter = (uint32_t *)v->own + CUDA_SCRATCH_LEAST / 4};
    try(cudaStreamCreate(&v->cuda.stream));
    for (uint64_t i = 0, at = 0; i < VECTORS; at += lengths[i++ % EACH])
        v->tensor[i] = (struct adamw_tensor){.elements = lengths[i % EACH],
                                             .param = v->params + at,
                                             .master = v->values + at,
                                             .exp_avg = v->values + all + at,
                                             .exp_avg_sq = v->values + 2 * all + at};
}

static void tear_down(struct vectors *v, gconstpointer data)
{
    (void)data;
    try(cudaStreamDestroy(v->cuda.stream));
    try(cudaFree(v->values));
    try(cudaFree(v->params));
    try(cudaFree(v->norms));
    try(cudaFree(v->own));
}

static void run(struct vectors *v)
{
    const struct adamw_options options = {1e-4, 0.9, 0.95, 1e-8, 0.1, 1};
    const struct adamw_step step = adamw_step_of(&options, 7);
    for (int i = 0; i < VECTORS; i++)
        cuda_sum_squares(&v->cuda, MODEL_BF16, v->tensor[i].elements, v->tensor[i].param,
                         &v->norms[i]);
    cuda_flush_squares(&v->cuda);
    for (int i = 0; i < VECTORS; i++)
        cuda_adamw(&v->cuda, &step, NULL, &v->tensor[i]);
    cuda_flush_updates(&v->cuda);
}

/* Returns the microseconds of a run, behind one that loads the kernels. */
static double microseconds(struct vectors *v, bool joined)
{
    cudaEvent_t begin, end;
    float milliseconds = 0;
    v->cuda.updates = joined ? &v->updates : NULL;
    v->cuda.squares = joined ? &v->squares : NULL;
    try(cudaEventCreate(&begin));
    try(cudaEventCreate(&end));
    run(v);
    try(cudaEventRecord(begin, v->cuda.stream));
    for (int i = 0; i < ROUNDS; i++)
        run(v);
    try(cudaEventRecord(end, v->cuda.stream));
    try(cudaEventSynchronize(end));
    try(cudaEventElapsedTime(&milliseconds, begin, end));
    try(cudaEventDestroy(begin));
    try(cudaEventDestroy(end));
    return 1000.0 * (double)milliseconds / ROUNDS;
}

/* Returns the values and norms that are left. */
static GByteArray *left(const struct vectors *v)
{
    uint64_t values = v->value_count * sizeof *v->values, norms = VECTORS * sizeof *v->norms;
    GByteArray *bytes = g_byte_array_new();
    g_byte_array_set_size(bytes, (guint)(values + norms));
    try(cudaMemcpy(bytes->data, v->values, values, cudaMemcpyDeviceToHost));
    try(cudaMemcpy(bytes->data + values, v->norms, norms, cudaMemcpyDeviceToHost));
    return bytes;
}

static void vectors_joined(struct vectors *v, gconstpointer data)
{
    struct vectors other = {.own = NULL};
    set_up(&other, data);
    double apart = microseconds(&other, false), joined = microseconds(v, true);
    g_autoptr(GByteArray) expected = left(&other), found = left(v);
    g_print("times: %d vectors %.1f us apart, %.1f us joined\n", VECTORS, apart, joined);
    g_assert_cmpmem(expected->data, expected->len, found->data, found->len);
    tear_down(&other, data);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (!kernel_runs_can())
        return 77;
    g_test_add("/times/vectors", struct vectors, NULL, set_up, vectors_joined, tear_down);
    return g_test_run();
}
