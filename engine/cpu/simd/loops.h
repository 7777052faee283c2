/* Code that the loops share: their names, vector registers, tiles of rows, dropout. */
#ifndef PSTAR_ENGINE_CPU_SIMD_LOOPS_H
#define PSTAR_ENGINE_CPU_SIMD_LOOPS_H

#include "engine/bf16.h"
#include "engine/cpu/simd/simd.h"

/* SIMD(x) names what this compilation of the folder makes. The build defines SIMD_NAME. */
#define SIMD_JOIN_(a, b) a##_##b
#define SIMD_JOIN(a, b)  SIMD_JOIN_(a, b)
#define SIMD(symbol)     SIMD_JOIN(symbol, SIMD_NAME)

simd_loop SIMD(embed_forward), SIMD(embed_tokens), SIMD(embed_positions);
simd_loop SIMD(norm_forward), SIMD(norm_input), SIMD(norm_parameters);
simd_loop SIMD(rms_forward), SIMD(rms_input), SIMD(rms_weight);
simd_loop SIMD(column_sums);
simd_loop SIMD(gelu_forward), SIMD(gelu_backward);
simd_loop SIMD(gate_forward), SIMD(gate_backward), SIMD(scale), SIMD(cap_logits);
simd_loop SIMD(residual);
simd_loop SIMD(attention_forward), SIMD(attention_backward_queries), SIMD(attention_backward_keys);
simd_loop SIMD(loss), SIMD(loss_backward);
simd_loop SIMD(squares), SIMD(round_squares), SIMD(round), SIMD(widen);
simd_loop SIMD(adamw);
extern const struct cpu_simd SIMD(cpu_simd);

/* Vector registers of the extension that is compiled for: of fp32, and of 64-bit words whose lower
 * halves are multiplied. */

#if defined(__AVX512F__)

#include <immintrin.h>
enum { VECTOR_LANES = 16, PRODUCT_ROWS = 8 };
typedef __m512 vector;
#define vector_load(from)   _mm512_loadu_ps(from)
#define vector_store(to, v) _mm512_storeu_ps(to, v)
#define vector_set(value)   _mm512_set1_ps(value)
#define vector_fma(a, b, c) _mm512_fmadd_ps(a, b, c)

typedef uint64_t words __attribute__((vector_size(64)));
#define words_product(a, b) ((words)_mm512_mul_epu32((__m512i)(a), (__m512i)(b)))

#elif defined(__AVX2__) && defined(__FMA__)

#include <immintrin.h>
enum { VECTOR_LANES = 8, PRODUCT_ROWS = 6 };
typedef __m256 vector;
#define vector_load(from)   _mm256_loadu_ps(from)
#define vector_store(to, v) _mm256_storeu_ps(to, v)
#define vector_set(value)   _mm256_set1_ps(value)
#define vector_fma(a, b, c) _mm256_fmadd_ps(a, b, c)

typedef uint64_t words __attribute__((vector_size(32)));
#define words_product(a, b) ((words)_mm256_mul_epu32((__m256i)(a), (__m256i)(b)))

#elif defined(__ARM_NEON)

#include <arm_neon.h>
enum { VECTOR_LANES = 4, PRODUCT_ROWS = 8 };
typedef float32x4_t vector;
#define vector_load(from)   vld1q_f32(from)
#define vector_store(to, v) vst1q_f32(to, v)
#define vector_set(value)   vdupq_n_f32(value)
#define vector_fma(a, b, c) vfmaq_f32(c, a, b)

typedef uint64x2_t words;
#define words_product(a, b) vmull_u32(vmovn_u64(a), vmovn_u64(b))

#else

#include <math.h>
enum { VECTOR_LANES = 1, PRODUCT_ROWS = 4 };
typedef float vector;
#define vector_load(from)   (*(from))
#define vector_store(to, v) (*(to) = (v))
#define vector_set(value)   (value)
#define vector_fma(a, b, c) fmaf(a, b, c)

typedef uint64_t words __attribute__((vector_size(8)));
#define words_product(a, b) (((a)&UINT32_MAX) * ((b)&UINT32_MAX))

#endif

enum { WORDS_LANES = sizeof(words) / sizeof(uint64_t) };

/* A tile is 64 elements in fp32, whatever precision they are stored in. Loops compute on whole
 * tiles, so that a tensor's last elements are computed like the others. */

/* The alignment keeps accesses of a register's width within one cache line. */
typedef float tile_fp32[SIMD_TILE] __attribute__((aligned(64)));

/* The first element of tile `tile` of a row of `columns`, and the number of elements in it. */
struct tile_span {
    uint32_t first, count;
};

static inline struct tile_span tile_of(uint32_t tile, uint32_t columns)
{
    uint32_t first = tile * SIMD_TILE;
    uint32_t left = columns - first;
    return (struct tile_span){first, left < SIMD_TILE ? left : SIMD_TILE};
}

static inline void tile_fill(float tile[SIMD_TILE], float value)
{
    for (int i = 0; i < SIMD_TILE; i++)
        tile[i] = value;
}

static inline void tile_load_bf16(const uint16_t *from, uint32_t count, float tile[SIMD_TILE])
{
    if (count == SIMD_TILE)
        for (int i = 0; i < SIMD_TILE; i++)
            tile[i] = bf16_widen(from[i]);
    else
        for (uint32_t i = 0; i < count && i < SIMD_TILE; i++)
            tile[i] = bf16_widen(from[i]);
}

static inline void tile_store_bf16(uint16_t *to, uint32_t count, const float tile[SIMD_TILE])
{
    if (count == SIMD_TILE)
        for (int i = 0; i < SIMD_TILE; i++)
            to[i] = bf16_round(tile[i]);
    else
        for (uint32_t i = 0; i < count && i < SIMD_TILE; i++)
            to[i] = bf16_round(tile[i]);
}

static inline void tile_load_fp32(const float *from, uint32_t count, float tile[SIMD_TILE])
{
    if (count == SIMD_TILE)
        memcpy(tile, from, SIMD_TILE * sizeof *from);
    else
        for (uint32_t i = 0; i < count && i < SIMD_TILE; i++)
            tile[i] = from[i];
}

static inline void tile_store_fp32(float *to, uint32_t count, const float tile[SIMD_TILE])
{
    if (count == SIMD_TILE)
        memcpy(to, tile, SIMD_TILE * sizeof *to);
    else
        for (uint32_t i = 0; i < count && i < SIMD_TILE; i++)
            to[i] = tile[i];
}

/* Loads `count` elements from `element` on, and `padding` behind them. */
static inline void tile_load(enum model_precision precision, const void *from, uint64_t element,
                             uint32_t count, float padding, float tile[SIMD_TILE])
{
    if (count < SIMD_TILE)
        tile_fill(tile, padding);
    if (precision == MODEL_BF16)
        tile_load_bf16((const uint16_t *)from + element, count, tile);
    else
        tile_load_fp32((const float *)from + element, count, tile);
}

static inline void tile_store(enum model_precision precision, void *to, uint64_t element,
                              uint32_t count, const float tile[SIMD_TILE])
{
    if (precision == MODEL_BF16)
        tile_store_bf16((uint16_t *)to + element, count, tile);
    else
        tile_store_fp32((float *)to + element, count, tile);
}

static inline void tile_add(float sum[SIMD_TILE], const float tile[SIMD_TILE])
{
    for (int i = 0; i < SIMD_TILE; i++)
        sum[i] += tile[i];
}

static inline void tile_multiply(float product[SIMD_TILE], const float tile[SIMD_TILE])
{
    for (int i = 0; i < SIMD_TILE; i++)
        product[i] *= tile[i];
}

/* Returns the sum of a tile's elements: pairs 32, 16, 8, 4, 2, 1 apart. */
static inline float tile_sum(const float tile[SIMD_TILE])
{
    tile_fp32 lanes;
    memcpy(lanes, tile, sizeof lanes);
    for (int apart = SIMD_TILE / 2; apart > 0; apart /= 2)
        for (int i = 0; i < apart; i++)
            lanes[i] += lanes[i + apart];
    return lanes[0];
}

static inline float tile_max(const float tile[SIMD_TILE])
{
    tile_fp32 lanes;
    memcpy(lanes, tile, sizeof lanes);
    for (int apart = SIMD_TILE / 2; apart > 0; apart /= 2)
        for (int i = 0; i < apart; i++)
            lanes[i] = lanes[i + apart] > lanes[i] ? lanes[i + apart] : lanes[i];
    return lanes[0];
}

/* Stores a tile of a gradient as `gradient` says. */
static inline void tile_store_gradient(enum kernel_gradient gradient, void *to, uint64_t element,
                                       uint32_t count, const float tile[SIMD_TILE])
{
    enum model_precision precision = kernel_gradient_is_half(gradient) ? MODEL_BF16 : MODEL_FP32;
    tile_fp32 sum;
    memcpy(sum, tile, sizeof sum);
    if (kernel_gradient_adds(gradient)) {
        tile_fp32 there;
        tile_load(precision, to, element, count, 0, there);
        tile_add(sum, there);
    }
    tile_store(precision, to, element, count, sum);
}

/* Dropout of a tile, by its 64 random words. */

enum { DROPOUT_LANES = 16 }; /* counters of a tile, four words each */

/* Runs Philox on the counters {first + lane, site, pass} of some of a tile's lanes. Only the lower
 * halves of the 64-bit words count; the upper halves are not cleared between rounds. */
static inline void dropout_philox(const struct random_stream *stream, words index, words c[4])
{
    uint32_t k0 = (uint32_t)stream->seed, k1 = (uint32_t)(stream->seed >> 32);
    const words zero = {0}, m0 = zero + RANDOM_MULTIPLIER_0, m1 = zero + RANDOM_MULTIPLIER_1;
    c[0] = index;
    c[1] = index >> 32;
    c[2] = zero + stream->site;
    c[3] = zero + stream->pass;
    for (int round = 0; round < RANDOM_ROUNDS; round++) {
        words p0 = words_product(m0, c[0]), p1 = words_product(m1, c[2]);
        c[0] = (p1 >> 32) ^ c[1] ^ (uint64_t)k0;
        c[1] = p1;
        c[2] = (p0 >> 32) ^ c[3] ^ (uint64_t)k1;
        c[3] = p0;
        k0 += RANDOM_WEYL_0;
        k1 += RANDOM_WEYL_1;
    }
}

/* Draws the words of a tile's elements, each as random_word gives it. */
static inline void dropout_words(const struct random_stream *stream, uint64_t tile,
                                 uint32_t drawn[SIMD_TILE])
{
    for (int lane = 0; lane < DROPOUT_LANES; lane += WORDS_LANES) {
        words index = {0}, c[4];
        for (int l = 0; l < WORDS_LANES; l++)
            index[l] = tile * DROPOUT_LANES + (uint64_t)(lane + l);
        dropout_philox(stream, index, c);
        for (int w = 0; w < 4; w++)
            for (int l = 0; l < WORDS_LANES; l++)
                drawn[w * DROPOUT_LANES + lane + l] = (uint32_t)c[w][l];
    }
}

static inline bool dropout_drops(const struct simd_dropout *dropout)
{
    return dropout->scale != 0;
}

/* Computes the factors of tile `tile` of row `row`, where rows have `tiles` tiles: the scale, or 0
 * for an element that is dropped. */
static inline void dropout_factors(const struct simd_dropout *dropout, uint64_t row, uint32_t tiles,
                                   uint32_t tile, float factors[SIMD_TILE])
{
    _Alignas(64) uint32_t drawn[SIMD_TILE];
    dropout_words(&dropout->stream, row * tiles + tile, drawn);
    for (int i = 0; i < SIMD_TILE; i++)
        factors[i] = drawn[i] >= dropout->threshold ? dropout->scale : 0;
}

static inline void dropout_tile(const struct simd_dropout *dropout, uint64_t row, uint32_t tiles,
                                uint32_t tile, float values[SIMD_TILE])
{
    if (dropout_drops(dropout)) {
        tile_fp32 factors;
        dropout_factors(dropout, row, tiles, tile, factors);
        tile_multiply(values, factors);
    }
}

#endif
