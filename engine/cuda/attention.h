/* Attention by tiles of 64 queries and 64 keys of one head. A block of threads computes one tile of
 * queries or of keys (Dao, "FlashAttention-2", ICLR 2024). The backward goes over the pairs of
 * tiles twice, by queries for dq and by keys for dk and dv, so that nothing is summed across
 * blocks. */
#ifndef PSTAR_ENGINE_CUDA_ATTENTION_H
#define PSTAR_ENGINE_CUDA_ATTENTION_H

#include "engine/cuda/kernel_code.h"

/* Where the heads of queries, keys or values lie. Head i of row r begins at element r * stride +
 * first + i * apart, and its gradient lies alike. */
struct attention_part {
    const void *at;
    void *gradient; /* of the backward */
    uint32_t stride, first, apart;
};

/* Some groups of heads, which are `heads` of all [B,A], from first_head on. A group is the heads
 * that share keys and values. */
struct attention {
    uint32_t first_head, heads;
    uint32_t T, A, D;
    uint32_t group;  /* heads in a group */
    uint32_t window; /* a query sees so many positions, itself and those before it; at most T */
    uint32_t pairs;  /* of columns that turn, `pairs` apart; 0 if none do */
    float scale;     /* of the scores */
    float cap;       /* of the scores, a soft one; 0: none */
    const float *cosines, *sines;   /* [T, pairs] */
    struct attention_part parts[3]; /* enum kernel_qkv */
    const void *dout;
    struct tile_dropout dropout;
    void *o;               /* of the forward */
    float *lse;            /* of the forward */
    const void *o_read;    /* of the backward */
    const float *lse_read; /* of the backward */
    float *delta;          /* backward: [heads,T], the row sums of dout o */
};

/* One head of one sequence. */
struct attention_head {
    uint32_t head; /* b*A + a */
    uint64_t row;  /* of the sequence's first token */
    uint32_t a;
    uint32_t shared; /* the head of keys and values */
};

__device__ static inline struct attention_head attention_head_of(const struct attention &a,
                                                                 uint32_t index)
{
    uint32_t head = a.first_head + index;
    return {head, (uint64_t)(head / a.A) * a.T, head % a.A, head % a.A / a.group};
}

/* Returns the head's first element in the row of token t, in queries, keys or values. */
__device__ static inline uint64_t attention_part_at(const struct attention &a,
                                                    const struct attention_head &h,
                                                    enum kernel_qkv part, uint32_t t)
{
    uint32_t head = part == KERNEL_Q ? h.a : h.shared;
    return (h.row + t) * a.parts[part].stride + a.parts[part].first +
           (uint64_t)head * a.parts[part].apart;
}

/* Returns the head's first element in the row of token t, in o. */
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

/* ---- what windows show ---- */

/* Returns the first tile with a key that one of the queries from position `query` on sees. */
__device__ static inline uint32_t attention_first_keys(const struct attention &a, uint32_t query)
{
    return query >= a.window ? (query - a.window + 1) / TILE : 0;
}

/* Returns the position behind the last query that sees one of the keys before position `end`. */
__device__ static inline uint32_t attention_end_queries(const struct attention &a, uint32_t end)
{
    uint64_t behind = (uint64_t)end + a.window - 1;
    return behind < a.T ? (uint32_t)behind : a.T;
}

/* ---- rotary positions ---- */

/* Column i of a row that turns, and column i + pairs, turn by the angle of pair i. */
struct attention_turn {
    float cosine, sine;
};

__device__ static inline struct attention_turn attention_turn_of(const struct attention &a,
                                                                 uint32_t t, uint32_t i)
{
    uint64_t at = (uint64_t)t * a.pairs + i;
    return {a.cosines[at], a.sines[at]};
}

__device__ static inline struct attention_turn turn_back(struct attention_turn turn)
{
    return {turn.cosine, -turn.sine};
}

/* Return the columns i and i + pairs after the turn. */
__device__ static inline float turned_first(struct attention_turn turn, float first, float second)
{
    return fmaf(first, turn.cosine, -(second * turn.sine));
}

__device__ static inline float turned_second(struct attention_turn turn, float first, float second)
{
    return fmaf(second, turn.cosine, first * turn.sine);
}

/* Returns column d of row t, turned. `column(d)` gives the row's columns. */
template <typename Column>
__device__ inline float turned_column(const struct attention &a, uint32_t t, uint32_t d, bool back,
                                      Column column)
{
    if (d >= 2 * a.pairs)
        return column(d);
    uint32_t i = d < a.pairs ? d : d - a.pairs;
    struct attention_turn turn = attention_turn_of(a, t, i);
    turn = back ? turn_back(turn) : turn;
    float first = column(i), second = column(i + a.pairs);
    return d < a.pairs ? turned_first(turn, first, second) : turned_second(turn, first, second);
}

/* ---- launches ---- */

/* In fp32 arithmetic. D is at most CUDA_HEAD_LIMIT. */
void attention_fp32_forward_launch(const struct cuda_context *cuda, enum model_precision precision,
                                   const struct attention &a);
void attention_fp32_backward_launch(const struct cuda_context *cuda, enum model_precision precision,
                                    const struct attention &a);

/* On tensor cores, in bf16, of scores without a cap. D and pairs are multiples of 8, and D is at
 * most CUDA_TENSOR_LIMIT. */
enum { CUDA_TENSOR_LIMIT = 128 };
void attention_half_forward_launch(const struct cuda_context *cuda, const struct attention &a);
void attention_half_backward_launch(const struct cuda_context *cuda, const struct attention &a);

#endif
