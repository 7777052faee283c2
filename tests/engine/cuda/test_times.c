/* Times what has two forms, on a GPU. Updates and norms of all vectors of GPT-2 124M are one launch
 * or a launch each, which gives the same bits. GELU's derivative is joined to the product behind it
 * or a kernel of its own, which rounds once more. bench/gpu/kernels.py reads the lines "times:
 * ...".
 */
#include "engine/bf16.h"
#include "engine/cuda/kernels.h"
#include "engine/cuda/operators.h"
#include "kernel_runs.h"

#include <cuda_runtime_api.h>
#include <glib.h>
#include <math.h>

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

static void run_vectors(void *data)
{
    struct vectors *v = data;
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
static double microseconds(cudaStream_t stream, void (*run)(void *), void *data)
{
    cudaEvent_t begin, end;
    float milliseconds = 0;
    try(cudaEventCreate(&begin));
    try(cudaEventCreate(&end));
    run(data);
    try(cudaEventRecord(begin, stream));
    for (int i = 0; i < ROUNDS; i++)
        run(data);
    try(cudaEventRecord(end, stream));
    try(cudaEventSynchronize(end));
    try(cudaEventElapsedTime(&milliseconds, begin, end));
    try(cudaEventDestroy(begin));
    try(cudaEventDestroy(end));
    return 1000.0 * (double)milliseconds / ROUNDS;
}

static double vector_microseconds(struct vectors *v, bool joined)
{
    v->cuda.updates = joined ? &v->updates : NULL;
    v->cuda.squares = joined ? &v->squares : NULL;
    return microseconds(v->cuda.stream, run_vectors, v);
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
    double apart = vector_microseconds(&other, false), joined = vector_microseconds(v, true);
    g_autoptr(GByteArray) expected = left(&other), found = left(v);
    g_print("times: %d vectors %.1f us apart, %.1f us joined\n", VECTORS, apart, joined);
    g_assert_cmpmem(expected->data, expected->len, found->data, found->len);
    tear_down(&other, data);
}

/* ---- GELU's derivative behind a product ---- */

/* dpre[N,I] = gelu'(pre) (dy[N,O] weight[I,O]^T), with the sums of its columns. */
struct slope {
    struct cuda_context cuda;
    uint32_t N, I, O;
    bool joined;
    enum kernel_gradient gradient; /* of the bias */
    uint16_t *dy, *weight, *pre, *dpre;
    void *dbias, *own;
};

enum { SLOPE_WORKSPACE = 32 << 20, SLOPE_SCRATCH = 16 << 20 };

/* Numbers between -2 and 2, the same each time. */
static uint16_t *device_halves(uint64_t count)
{
    GRand *random = g_rand_new_with_seed((guint32)count);
    uint16_t *halves = g_new(uint16_t, count), *memory = device_memory(count * sizeof *halves, 0);
    for (uint64_t i = 0; i < count; i++)
        halves[i] = bf16_round((float)g_rand_double_range(random, -2, 2));
    try(cudaMemcpy(memory, halves, count * sizeof *halves, cudaMemcpyHostToDevice));
    g_free(halves);
    g_rand_free(random);
    return memory;
}

static struct slope slope_new(uint32_t N, uint32_t width)
{
    struct slope s = {.N = N, .I = 4 * width, .O = width};
    s.dy = device_halves((uint64_t)s.N * s.O);
    s.weight = device_halves((uint64_t)s.I * s.O);
    s.pre = device_halves((uint64_t)s.N * s.I);
    s.dpre = device_memory((uint64_t)s.N * s.I * sizeof *s.dpre, 0);
    s.dbias = device_memory(s.I * sizeof(float), 0);
    s.own = device_memory(SLOPE_WORKSPACE + SLOPE_SCRATCH, 0);
    s.cuda = (struct cuda_context){.scratch = (uint8_t *)s.own + SLOPE_WORKSPACE,
                                   .scratch_bytes = SLOPE_SCRATCH};
    try(cudaStreamCreate(&s.cuda.stream));
    s.cuda.products = cuda_products_new(s.cuda.stream, s.own, SLOPE_WORKSPACE);
    g_assert_nonnull(s.cuda.products);
    return s;
}

static void slope_free(struct slope *s)
{
    void *const memory[] = {s->dy, s->weight, s->pre, s->dpre, s->dbias, s->own};
    cuda_products_free(s->cuda.products);
    try(cudaStreamDestroy(s->cuda.stream));
    for (size_t i = 0; i < G_N_ELEMENTS(memory); i++)
        try(cudaFree(memory[i]));
}

/* The joined form sums the columns in a kernel of its own. */
static void run_slope(void *data)
{
    const struct slope *s = data;
    if (!s->joined) {
        cuda_linear_backward_input(&s->cuda, MODEL_BF16, s->N, s->I, s->O, s->dy, s->weight,
                                   s->dpre);
        cuda_gelu_backward_bias(&s->cuda, MODEL_BF16, MODEL_GELU_TANH, s->N, s->I, s->pre, s->dpre,
                                s->gradient, s->dbias);
        return;
    }
    if (!cuda_linear_slope(&s->cuda, s->N, s->I, s->O, s->dy, s->weight, s->pre, s->dpre))
        g_error("cuBLASLt has no product of %u rows, %u to %u columns with GELU's derivative", s->N,
                s->O, s->I);
    cuda_linear_backward_bias(&s->cuda, MODEL_BF16, s->N, s->I, s->I, s->dpre, s->gradient,
                              s->dbias);
}

/* Returns the microseconds of a form, and in *norm the root of the sum of the squares of dbias. */
static double slope_microseconds(struct slope *s, bool joined, enum kernel_gradient gradient,
                                 double *norm)
{
    s->joined = joined;
    s->gradient = gradient;
    double taken = microseconds(s->cuda.stream, run_slope, s), squares = 0;
    uint64_t element = kernel_gradient_is_half(gradient) ? sizeof(uint16_t) : sizeof(float);
    g_autofree void *sums = g_malloc(s->I * element);
    try(cudaMemcpy(sums, s->dbias, s->I * element, cudaMemcpyDeviceToHost));
    for (uint32_t i = 0; i < s->I; i++)
        squares += pow(kernel_gradient_is_half(gradient) ? (double)bf16_widen(((uint16_t *)sums)[i])
                                                         : (double)((float *)sums)[i],
                       2);
    char *error = cuda_products_take_error(s->cuda.products);
    g_assert_cmpstr(error, ==, NULL);
    *norm = sqrt(squares);
    return taken;
}

/* The gradient of one micro-batch is set in bf16, and that of several is summed in fp32. The
 * operators' test compares every element. */
static void slope_joined(gconstpointer data)
{
    static const enum kernel_gradient gradients[] = {KERNEL_GRADIENT_SET_BF16, KERNEL_GRADIENT_SET};
    uint32_t width = GPOINTER_TO_UINT(data);
    struct slope s = slope_new(4096, width);
    for (size_t i = 0; i < G_N_ELEMENTS(gradients); i++) {
        double expected, found;
        double apart = slope_microseconds(&s, false, gradients[i], &expected);
        double joined = slope_microseconds(&s, true, gradients[i], &found);
        g_print("times: GELU's derivative behind 4096 rows, %u to %u columns, with a bias in %s: "
                "%.1f us apart, %.1f us joined\n",
                s.O, s.I, i ? "fp32" : "bf16", apart, joined);
        g_assert_cmpfloat_with_epsilon(found, expected, 0.015 * expected);
    }
    slope_free(&s);
}

int main(int argc, char **argv)
{
    g_test_init(&argc, &argv, NULL);
    if (!kernel_runs_can())
        return 77;
    g_test_add("/times/vectors", struct vectors, NULL, set_up, vectors_joined, tear_down);
    g_test_add_data_func("/times/slope/124M", GUINT_TO_POINTER(768), slope_joined);
    g_test_add_data_func("/times/slope/1.5B", GUINT_TO_POINTER(1600), slope_joined);
    return g_test_run();
}
