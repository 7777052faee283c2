#include "engine/cuda/attention.h"
#include "engine/cuda/by_precision.h"
#include <glib.h>

enum { WARPS = 4, THREADS = WARPS * WARP, GRID_LIMIT = 65535 };

/* A warp a row of a head, by the lanes of the CPU device. */
template <typename T> __global__ void __launch_bounds__(THREADS) delta_kernel(struct attention a)
{
    struct attention_head h = attention_head_of(a, blockIdx.y);
    uint32_t t = blockIdx.x * WARPS + threadIdx.x / WARP;
    if (t >= a.T)
        return;
    const T *o = (const T *)a.o_read + attention_o_at(a, h, t);
    const T *dout = (const T *)a.dout + attention_o_at(a, h, t);
    struct pair sum = {0, 0};
    for (uint32_t d = threadIdx.x % WARP * 2; d < a.D; d += TILE) {
        struct pair v = pair_load(o, d, a.D, 0), g = pair_load(dout, d, a.D, 0);
        sum.a = fmaf(v.a, g.a, sum.a);
        sum.b = fmaf(v.b, g.b, sum.b);
    }
    float delta = lanes_sum(sum.a, sum.b);
    if (threadIdx.x % WARP == 0)
        *attention_delta_at(a, h, t) = delta;
}

static bool on_tensor_cores(const struct attention &a)
{
    return a.D % OCTET == 0;
}

template <typename T>
static void forward_launch(const struct cuda_context *cuda, const struct attention &a)
{
    if (sizeof(T) == sizeof(uint16_t) && on_tensor_cores(a))
        attention_half_forward_launch(cuda, a);
    else
        attention_forward_launch<T>(cuda, a);
}

template <typename T>
static void backward_launch(const struct cuda_context *cuda, const struct attention &a)
{
    launch(delta_kernel<T>, dim3(launch_blocks(a.T, WARPS), a.heads), THREADS, 0, cuda->stream, a);
    if (sizeof(T) == sizeof(uint16_t) && on_tensor_cores(a))
        attention_half_backward_launch(cuda, a);
    else
        attention_backward_launch<T>(cuda, a);
}

static struct attention attention_of(uint32_t T, uint32_t A, uint32_t D, const void *qkv,
                                     const struct kernel_dropout *dropout)
{
    struct attention a = {};
    g_assert(D <= CUDA_HEAD_LIMIT);
    a.T = T;
    a.A = A;
    a.D = D;
    a.scale = 1 / sqrtf((float)D);
    a.qkv = qkv;
    a.dropout = tile_dropout_of(dropout);
    return a;
}

void cuda_attention_forward(const void *context, enum model_precision precision, uint32_t B,
                            uint32_t T, uint32_t A, uint32_t D, const void *qkv,
                            const struct kernel_dropout *dropout, void *o, float *lse)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    struct attention a = attention_of(T, A, D, qkv, dropout);
    uint32_t sequences = GRID_LIMIT / A;
    a.o = o;
    a.lse = lse;
    for (uint32_t b = 0; b < B; b += sequences) {
        a.first_head = b * A;
        a.heads = MIN(sequences, B - b) * A;
        BY_PRECISION(precision, forward_launch, cuda, a);
    }
}

/* As many sequences at a time as the scratch holds deltas of. */
void cuda_attention_backward(const void *context, enum model_precision precision, uint32_t B,
                             uint32_t T, uint32_t A, uint32_t D, const void *dout, const void *qkv,
                             const void *o, const float *lse, const struct kernel_dropout *dropout,
                             void *dqkv)
{
    const struct cuda_context *cuda = cuda_context_of(context);
    struct attention a = attention_of(T, A, D, qkv, dropout);
    uint64_t room = cuda->scratch_bytes / sizeof(float) / A / T;
    uint32_t sequences = (uint32_t)MIN(room, (uint64_t)(GRID_LIMIT / A));
    g_assert(sequences > 0);
    a.dout = dout;
    a.o_read = o;
    a.lse_read = lse;
    a.delta = (float *)cuda->scratch;
    a.dqkv = dqkv;
    for (uint32_t b = 0; b < B; b += sequences) {
        a.first_head = b * A;
        a.heads = MIN(sequences, B - b) * A;
        BY_PRECISION(precision, backward_launch, cuda, a);
    }
}
