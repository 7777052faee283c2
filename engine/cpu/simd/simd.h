/* The vectorised loops of the kernels. The files of this folder are compiled once for each vector
 * extension, from the same source, and one table holds the loops of one compilation. Every loop
 * gives each element the same bits in all of them: fused products are explicit, and sums run over
 * lanes and in an order that the source fixes.
 *
 * A loop takes its arguments and a range of items. A comment beside the arguments says what an item
 * is. */
#ifndef PSTAR_ENGINE_CPU_SIMD_SIMD_H
#define PSTAR_ENGINE_CPU_SIMD_SIMD_H

#include "engine/cpu/kernels.h"

enum { SIMD_TILE = RANDOM_TILE }; /* elements that are computed together */

/* Returns the number of tiles in a row. The last may be partial. */
static inline uint32_t simd_tiles(uint32_t columns)
{
    return (columns + SIMD_TILE - 1) / SIMD_TILE;
}

/* Returns the sum of `count` values, a power of two, in the order that every device keeps: pairs
 * count / 2, ..., 2, 1 apart, as a GPU adds them in parallel. Overwrites the values. */
static inline double pairwise_sum(unsigned count, double *values)
{
    for (unsigned apart = count / 2; apart > 0; apart /= 2)
        for (unsigned i = 0; i < apart; i++)
            values[i] += values[i + apart];
    return values[0];
}

typedef void simd_loop(const void *arguments, uint64_t first, uint64_t end);

/* A dropout that is ready for use; scale 0 for none. */
struct simd_dropout {
    struct random_stream stream;
    uint32_t threshold; /* a word below it drops its element */
    float scale;        /* of the elements that stay */
};

struct simd_embed_forward { /* items: rows */
    enum model_precision precision;
    uint32_t T, H;
    const uint32_t *tokens;
    const void *wte, *wpe;
    struct simd_dropout dropout;
    void *x;
};

struct simd_embed_tokens { /* items: tiles of H */
    enum model_precision precision;
    uint32_t N, H;
    const uint64_t *order;
    const void *dx;
    struct simd_dropout dropout;
    enum kernel_gradient gradient;
    void *dwte;
};

struct simd_embed_positions { /* items: the positions used, T */
    enum model_precision precision;
    uint32_t B, T, H;
    const void *dx;
    struct simd_dropout dropout;
    enum kernel_gradient gradient;
    void *dwpe;
};

struct simd_norm_forward { /* items: rows */
    enum model_precision precision;
    uint32_t N, H;
    float epsilon;
    const void *weight, *bias, *x;
    void *y;
    float *stats;
};

struct simd_norm_input { /* items: rows */
    enum model_precision precision;
    uint32_t N, H;
    const void *weight, *dy, *x;
    const float *stats;
    bool add;
    void *dx;
    float offset; /* of the weight of an RMS norm */
};

struct simd_norm_parameters { /* items: tiles of H */
    enum model_precision precision;
    uint32_t N, H;
    const void *dy, *x;
    const float *stats;
    enum kernel_gradient gradient;
    void *dweight, *dbias;
};

struct simd_rms_forward { /* items: rows */
    enum model_precision precision;
    uint32_t N, H;
    float epsilon, offset;
    const void *weight, *x;
    void *y;
    float *stats;
};

struct simd_column_sums { /* items: tiles of O */
    enum model_precision precision;
    uint32_t N, O, row; /* row: elements from one row to the next */
    const void *dy;
    enum kernel_gradient gradient;
    void *dbias;
};

struct simd_gelu { /* items: elements; `first` is a multiple of SIMD_TILE */
    enum model_precision precision;
    enum model_activation of;
    const void *pre;
    void *y; /* forward: y; backward: dy */
};

struct simd_gate { /* items: tiles of F, of one row after the other */
    enum model_precision precision;
    struct kernel_gate gate;
    void *y;           /* of the forward */
    const void *dy;    /* of the backward */
    void *dgate, *dup; /* of the backward */
};

struct simd_scale { /* as simd_gelu */
    enum model_precision precision;
    float factor;
    void *x;
};

struct simd_cap_logits { /* items: rows */
    enum model_precision precision;
    uint32_t V, row; /* row: elements from one row to the next */
    float cap;
    void *logits;
};

struct simd_residual { /* items: rows */
    enum model_precision precision;
    uint32_t H;
    const void *residual; /* NULL for y = dropout(from) */
    const void *from;     /* y = residual + dropout(from) */
    struct simd_dropout dropout;
    void *y;
};

/* Where heads lie: element [row, head, d] is at row * stride + first + head * apart + d. */
struct simd_heads {
    const void *at;
    uint64_t stride, first, apart;
};

/* items: tiles of queries, [B, A, tiles of T], or of keys, [B, K, tiles of T] */
struct simd_attention {
    enum model_precision precision;
    uint32_t T, A, K, D, window, pairs;
    float scale;                  /* of queries */
    float cap;                    /* of scores; 0: none */
    const float *cosines, *sines; /* [T, pairs] */
    struct simd_heads parts[3];   /* enum kernel_qkv */
    const void *dout;
    struct simd_dropout dropout;
    void *o;               /* of the forward */
    float *lse;            /* of the forward */
    const void *o_read;    /* of the backward */
    const float *lse_read; /* of the backward */
    void *gradients[3];    /* of the parts, which lie alike */
};

struct simd_loss { /* items: blocks of rows */
    enum model_precision precision;
    uint32_t N, V, row, blocks; /* row: elements from one row to the next */
    const uint32_t *targets;
    float scale; /* of the gradient */
    float cap;   /* that the logits have been given; 0: none */
    const void *logits;
    void *gradient; /* backward: the logits again */
    double *losses; /* [blocks]: sums over their rows */
};

struct simd_squares { /* items: blocks of `block` elements */
    enum model_precision precision;
    uint64_t elements, block;
    const void *values;
    uint16_t *rounded; /* of round_squares, whose values are fp32 */
    double *sums;      /* [blocks] */
};

struct simd_convert { /* items: elements */
    const void *from;
    void *to;
};

struct simd_adamw { /* items: elements */
    struct adamw_step step;
    struct adamw_tensor tensor;
};

struct cpu_simd {
    const char *name;
    simd_loop *embed_forward, *embed_tokens, *embed_positions;
    simd_loop *norm_forward, *norm_input, *norm_parameters;
    simd_loop *rms_forward, *rms_input, *rms_weight;
    simd_loop *column_sums;
    simd_loop *gelu_forward, *gelu_backward;
    simd_loop *gate_forward, *gate_backward, *scale, *cap_logits;
    simd_loop *residual;
    simd_loop *attention_forward, *attention_backward_queries, *attention_backward_keys;
    simd_loop *loss, *loss_backward;
    simd_loop *squares, *round_squares, *round, *widen;
    simd_loop *adamw;
};

/* Returns the tables that this machine can run, the best first, with NULL at the end. */
const struct cpu_simd *const *cpu_simd_list(void);

#endif
