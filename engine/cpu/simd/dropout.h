/* Dropout of a tile by its 64 random words. */
#ifndef PSTAR_ENGINE_CPU_SIMD_DROPOUT_H
#define PSTAR_ENGINE_CPU_SIMD_DROPOUT_H

#include "engine/cpu/simd/tile.h"
#include "engine/cpu/simd/vector.h"

enum { DROPOUT_LANES = 16 }; /* counters of a tile, four words each */

/* Philox on the counters {first + lane, site, pass} of some of a tile's lanes. Only the lower
 * halves of the 64-bit words count: what is above them is not cleared between rounds. */
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

/* The words of the elements of a tile, as random_word gives each. */
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

/* Tile `tile` of row `row`, rows having `tiles` of them: the scale, or 0 where the element drops.
 */
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
