/* Attention by tiles of 64 queries and 64 keys of one head. A block of threads computes one tile of
 * queries or of keys (Dao, "FlashAttention-2", ICLR 2024). The backward goes over the pairs of
 * tiles twice, by queries for dq and by keys for dk and dv, so that nothing is summed across
 * blocks. */
#ifndef PSTAR_ENGINE_CUDA_ATTENTION_H
#define PSTAR_ENGINE_CUDA_ATTENTION_H

#include "engine/cuda/kernel_code.h"

/* Some sequences, whose heads are `heads` of all [B,A], from first_head on. */
struct attention {
    uint32_t first_head, heads;
    uint32_t T, A, D;
    float scale; /* of the scores: 1 / sqrt(D) */
    const void *qkv, *dout;
    struct tile_dropout dropout;
    void *o;               /* of the forward */
    float *lse;            /* of the forward */
    const void *o_read;    /* of the backward */
    const float *lse_read; /* of the backward */
    float *delta;          /* backward: [heads,T], the row sums of dout o */
    void *dqkv;
};

/* One head of one sequence. */
struct attention_head {
    uint32_t head; /* b*A + a */
    uint64_t row;  /* of the sequence's first token */
    uint32_t a;
};

__device__ static inline struct attention_head attention_head_of(const struct attention &a,
                                                                 uint32_t index)
{
    uint32_t head = a.first_head + index;
    return {head, (uint64_t)(head / a.A) * a.T, head % a.A};
}

/* Return the head's first element in the row of token t, in qkv and in o. */
__device__ static inline uint64_t attention_qkv_at(const struct attention &a,
                                                   const struct attention_head &h,
                                                   enum kernel_qkv part, uint32_t t)
{
    return (h.row + t) * 3 * a.A * a.D + ((uint64_t)part * a.A + h.a) * a.D;
}

__device__ static inline uint64_t attention_o_at(const struct attention &a,
                                                 const struct attention_head &h, uint32_t t)
{
    return (h.row + t) * a.A * a.D + (uint64_t)h.a * a.D;
}

/* Returns where the delta of the head's token t lies. */
__device__ static inline float *attention_delta_at(const struct attention &a,
                                                   const struct attention_head &h, uint32_t t)
{
    return a.delta + (uint64_t)(h.head - a.first_head) * a.T + t;
}

/* Computes the dropout's factors of four elements of a tile of keys for one query. The four
 * elements share one counter. */
__device__ static inline void attention_factors(const struct attention &a,
                                                const struct attention_head &h, uint32_t query,
                                                uint32_t keys, unsigned counter, float factors[4])
{
    uint64_t row = (uint64_t)h.head * a.T + query;
    tile_factors(a.dropout, row * tiles_of(a.T) + keys, counter, factors);
}

/* A block's x is its tile, and its y the head. */
static inline dim3 attention_grid(const struct attention &a)
{
    return dim3(tiles_of(a.T), a.heads);
}

/* The kernels on tensor cores, in bf16. D is a multiple of 8, and at most 128. */
void attention_half_forward_launch(const struct cuda_context *cuda, const struct attention &a);
void attention_half_backward_launch(const struct cuda_context *cuda, const struct attention &a);

#endif
