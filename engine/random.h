/* Random words by counter (Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as
 * easy as 1, 2, 3", SC 2011). A word depends on its stream and its place in it alone, so any
 * thread, any order of execution and a recomputation draw the same words. */
#ifndef PSTAR_ENGINE_RANDOM_H
#define PSTAR_ENGINE_RANDOM_H

#include "engine/host_device.h"
#include <stdint.h>

enum { RANDOM_TILE = 64 }; /* words that are drawn together */

/* Philox4x32's constants, for code that computes tiles of words at once. */
#define RANDOM_ROUNDS       10
#define RANDOM_MULTIPLIER_0 0xD2511F53u
#define RANDOM_MULTIPLIER_1 0xCD9E8D57u
#define RANDOM_WEYL_0       0x9E3779B9u
#define RANDOM_WEYL_1       0xBB67AE85u

struct random_stream {
    uint64_t seed; /* of the run */
    uint32_t pass; /* micro-batches since the start of training; 0 for initialisation */
    uint32_t
        site; /* what draws: an operator's dropout_site or a tensor's index; unique in a pass */
};

/* Runs Philox's ten rounds on one counter. */
HOST_DEVICE static inline void random_philox(const uint32_t counter[4], const uint32_t key[2],
                                             uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < RANDOM_ROUNDS; round++) {
        uint64_t p0 = (uint64_t)RANDOM_MULTIPLIER_0 * c0, p1 = (uint64_t)RANDOM_MULTIPLIER_1 * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += RANDOM_WEYL_0;
        k1 += RANDOM_WEYL_1;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Returns the word of one element. Element e lies in tile e / 64 at 16*w + l, and has word w of the
 * counter {16*tile + l, site, pass}. Vector registers produce a tile of 64 in this order. */
uint32_t random_word(const struct random_stream *stream, uint64_t element);

/* Draws `count` values of the normal distribution with mean 0, for the elements first, first + 1,
 * ... It uses Box-Muller in fp64 on the words of the element's tile, rounded to fp32. A value
 * depends on its stream and its element alone. */
void random_normal(const struct random_stream *stream, uint64_t first, uint64_t count,
                   double deviation, float *values);

#endif
