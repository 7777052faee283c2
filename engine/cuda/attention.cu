/* The launches of attention, in fp32 arithmetic (engine/cuda/attention_fp32.cu) and on tensor cores
 * (engine/cuda/attention_half.h), and what both begin with. */
#include "engine/cuda/attention.h"
#include <glib.h>

enum { WARPS = 4, THREADS = WARPS * WARP, GRID_LIMIT = 65535 };
enum { ROWS = 8 }; /* of a warp, whose loads overlap */

/* A warp computes rows of a head, each with the lanes of the CPU device. In place of rows beyond
 * the last, that one is loaded again: conditional loads would come one after the other. */
template <typename T> __global__ void __launch_bounds__(THREADS) delta_kernel(struct attention a)
{
    struct attention_head h = attention_head_of(a, blockIdx.y);
    uint32_t first = (blockIdx.x * WARPS + threadIdx.x / WARP) * ROWS;
    struct pair sum[ROWS] = {};
    for (uint32_t d = threadIdx.x % WARP * 2; d < a.D; d += TILE) {
        struct pair v[ROWS], g[ROWS];
#pragma unroll
        for (uint32_t i = 0; i < ROWS; i++) {
            uint64_t at = attention_o_at(a, h, first + i < a.T ? first + i : a.T - 1);
            v[i] = pair_load((const T *)a.o_read + at, d, a.D, 0);
            g[i] = pair_load((const T *)a.dout + at, d, a.D, 0);
        }
#pragma unroll
        for (uint32_t i = 0; i < ROWS; i++)
            sum[i] = {fmaf(v[i].a, g[i].a, sum[i].a), fmaf(v[i].b, g[i].b, sum[i].b)};
    }
#pragma unroll
    for (uint32_t i = 0; i < ROWS; i++) {
        float delta = lanes_sum(sum[i].a, sum[i].b);
        if (threadIdx.x % WARP == 0 && first + i < a.T)
            *attention_delta_at(a, h, first + i) = delta;
    }
}

template <typename T>
static void delta_launch(const struct cuda_context *cuda, const struct attention &a)
{
    launch(delta_kernel<T>, dim3(launch_blocks(a.T, WARPS * ROWS), a.heads), THREADS, 0,
           cuda->stream, a);
}

static bool on_tensor_cores(enum model_precision precision, const struct attention &a)
{
    return precision == MODEL_BF16 && a.cap == 0 && a.D % OCTET == 0 && a.pairs % OCTET == 0 &&
           a.D <= CUDA_TENSOR_LIMIT;
}

static void forward_launch(const struct cuda_context *cuda, enum model_precision precision,
                           const struct attention &a)
{
    if (on_tensor_cores(precision, a))
        attention_half_forward_launch(cuda, a);
    else
        attention_fp32_forward_launch(cuda, precision, a);
}

static void backward_launch(const struct cuda_context *cuda, enum model_precision precision,
                            const struct attention &a)
{
    BY_PRECISION(precision, delta_launch, cuda, a);
    if (on_tensor_cores(precision, a))
        attention_half_backward_launch(cuda, a);
    else
        attention_fp32_backward_launch(cuda, precision, a);
}

/* Launches by parts of the groups that a grid has room for, and the scratch for their deltas. */
static void launch_parts(const struct cuda_context *cuda, enum model_precision precision,
                         uint32_t B, bool backward, struct attention a)
{
    uint64_t room = cuda->scratch_bytes / sizeof(float) / a.T;
    uint32_t limit = GRID_LIMIT, most = backward && room < limit ? (uint32_t)room : limit;
    uint32_t all = B * a.A, together = most / a.group * a.group;
    g_assert(together > 0);
    a.delta = (float *)cuda->scratch;
    for (a.first_head = 0; a.first_head < all; a.first_head += together) {
        a.heads = MIN(together, all - a.first_head);
        (backward ? backward_launch : forward_launch)(cuda, precision, a);
    }
}

static struct attention attention_of(const struct kernel_heads &heads,
                                     const struct kernel_dropout *dropout)
{
    struct attention a = {};
    g_assert(heads.D <= CUDA_HEAD_LIMIT);
    a.T = heads.T;
    a.A = heads.A;
    a.D = heads.D;
    a.group = heads.A / heads.K;
    a.window = heads.window && heads.window < heads.T ? heads.window : heads.T;
    a.pairs = heads.pairs;
    a.cosines = heads.cosines;
    a.sines = heads.sines;
    a.scale = heads.scale > 0 ? heads.scale : 1 / sqrtf((float)heads.D);
    a.cap = heads.cap;
    a.dropout = tile_dropout_of(dropout);
    return a;
}

/* ---- queries, keys and values in one row ---- */

static struct attention joined_of(uint32_t T, uint32_t A, uint32_t D, const void *qkv,
                                  const struct kernel_dropout *dropout, void *dqkv)
{
    struct kernel_heads heads = {};
    heads.T = T;
    heads.A = heads.K = A;
    heads.D = D;
    struct attention a = attention_of(heads, dropout);
    for (uint32_t part = KERNEL_Q; part <= KERNEL_V; part++)
        a.parts[part] = {qkv, dqkv, 3 * A * D, part * A * D, D};
    return a;
}

void cuda_attention_forward(const void *context, enum model_precision precision, uint32_t B,
                            uint32_t T, uint32_t A, uint32_t D, const void *qkv,
                            const struct kernel_dropout *dropout, void *o, float *lse)
{
    struct attention a = joined_of(T, A, D, qkv, dropout, NULL);
    a.o = o;
    a.lse = lse;
    launch_parts(cuda_context_of(context), precision, B, false, a);
}

void cuda_attention_backward(const void *context, enum model_precision precision, uint32_t B,
                             uint32_t T, uint32_t A, uint32_t D, const void *dout, const void *qkv,
                             const void *o, const float *lse, const struct kernel_dropout *dropout,
                             void *dqkv)
{
    struct attention a = joined_of(T, A, D, qkv, dropout, dqkv);
    a.dout = dout;
    a.o_read = o;
    a.lse_read = lse;
    launch_parts(cuda_context_of(context), precision, B, true, a);
}

/* ---- groups of heads ---- */

static struct attention grouped_of(const struct kernel_heads *heads, const void *q, const void *k,
                                   const void *v, const struct kernel_dropout *dropout)
{
    struct attention a = attention_of(*heads, dropout);
    uint32_t keys = heads->row ? heads->row : heads->K * heads->D;
    uint32_t apart = heads->apart ? heads->apart : heads->D;
    a.parts[KERNEL_Q] = {q, NULL, heads->row ? heads->row : heads->A * heads->D, 0, apart};
    a.parts[KERNEL_K] = {k, NULL, keys, 0, apart};
    a.parts[KERNEL_V] = {v, NULL, keys, 0, apart};
    return a;
}

void cuda_grouped_forward(const void *context, enum model_precision precision,
                          const struct kernel_heads *heads, const void *q, const void *k,
                          const void *v, const struct kernel_dropout *dropout, void *o, float *lse)
{
    struct attention a = grouped_of(heads, q, k, v, dropout);
    a.o = o;
    a.lse = lse;
    launch_parts(cuda_context_of(context), precision, heads->B, false, a);
}

void cuda_grouped_backward(const void *context, enum model_precision precision,
                           const struct kernel_heads *heads, const void *dout, const void *q,
                           const void *k, const void *v, const void *o, const float *lse,
                           const struct kernel_dropout *dropout, void *dq, void *dk, void *dv)
{
    struct attention a = grouped_of(heads, q, k, v, dropout);
    a.dout = dout;
    a.o_read = o;
    a.lse_read = lse;
    a.parts[KERNEL_Q].gradient = dq;
    a.parts[KERNEL_K].gradient = dk;
    a.parts[KERNEL_V].gradient = dv;
    launch_parts(cuda_context_of(context), precision, heads->B, true, a);
}
