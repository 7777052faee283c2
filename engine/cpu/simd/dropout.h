/* Dropout of a tile by its 64 random words. */
#ifndef PSTAR_ENGINE_CPU_SIMD_DROPOUT_H
#define PSTAR_ENGINE_CPU_SIMD_DROPOUT_H

#include "engine/cpu/simd/tile.h"

enum { DROPOUT_LANES = 16 };

/* The words of the elements of a tile, as random_word gives each: Philox on 16 counters at once. */
static inline void dropout_words(const struct random_stream *stream, uint64_t tile,
                                 uint32_t words[SIMD_TILE])
{
    uint32_t *c0 = words, *c1 = c0 + DROPOUT_LANES, *c2 = c1 + DROPOUT_LANES,
             *c3 = c2 + DROPOUT_LANES;
    uint64_t first = tile * DROPOUT_LANES;
    for (uint32_t l = 0; l < DROPOUT_LANES; l++) {
        c0[l] = (uint32_t)first + l; /* a multiple of 16: no carry */
        c1[l] = (uint32_t)(first >> 32);
        c2[l] = stream->site;
        c3[l] = stream->pass;
    }
    uint32_t k0 = (uint32_t)stream->seed, k1 = (uint32_t)(stream->seed >> 32);
    for (int round = 0; round < RANDOM_ROUNDS; round++) {
        for (int l = 0; l < DROPOUT_LANES; l++) {
            uint64_t p0 = (uint64_t)RANDOM_MULTIPLIER_0 * c0[l];
            uint64_t p1 = (uint64_t)RANDOM_MULTIPLIER_1 * c2[l];
            c0[l] = (uint32_t)(p1 >> 32) ^ c1[l] ^ k0;
            c1[l] = (uint32_t)p1;
            c2[l] = (uint32_t)(p0 >> 32) ^ c3[l] ^ k1;
            c3[l] = (uint32_t)p0;
        }
        k0 += RANDOM_WEYL_0;
        k1 += RANDOM_WEYL_1;
    }
}

/* `row` of rows of `tiles` tiles, its tile `tile`. */
static inline void dropout_tile(const struct simd_dropout *dropout, uint64_t row, uint32_t tiles,
                                uint32_t tile, float values[SIMD_TILE])
{
    if (dropout->scale == 0)
        return;
    uint32_t words[SIMD_TILE];
    dropout_words(&dropout->stream, row * tiles + tile, words);
    for (int i = 0; i < SIMD_TILE; i++)
        values[i] = words[i] >= dropout->threshold ? values[i] * dropout->scale : 0;
}

#endif
