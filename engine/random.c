#include "engine/random.h"

#include <glib.h>
#include <math.h>
#include <string.h>

enum { LANES = 16 };

static void lane_words(const struct random_stream *stream, uint64_t index, uint32_t words[4])
{
    uint32_t counter[4] = {(uint32_t)index, (uint32_t)(index >> 32), stream->site, stream->pass};
    uint32_t key[2] = {(uint32_t)stream->seed, (uint32_t)(stream->seed >> 32)};
    random_philox(counter, key, words);
}

uint32_t random_word(const struct random_stream *stream, uint64_t element)
{
    unsigned within = element % RANDOM_TILE;
    uint32_t words[4];
    lane_words(stream, element / RANDOM_TILE * LANES + within % LANES, words);
    return words[within / LANES];
}

/* Returns 2^-32 (word + 1/2), which is never 0 or 1. */
static double unit(uint32_t word)
{
    return (word + 0.5) * 0x1p-32;
}

static void box_muller(const uint32_t words[2], double deviation, float *cosine, float *sine)
{
    const double tau = 6.283185307179586476925;
    double radius = deviation * sqrt(-2.0 * log(unit(words[0])));
    double angle = tau * unit(words[1]);
    *cosine = (float)(radius * cos(angle));
    *sine = (float)(radius * sin(angle));
}

static void normal_tile(const struct random_stream *stream, uint64_t tile, double deviation,
                        float values[RANDOM_TILE])
{
    for (unsigned lane = 0; lane < LANES; lane++) {
        uint32_t words[4];
        lane_words(stream, tile * LANES + lane, words);
        box_muller(words, deviation, &values[lane], &values[LANES + lane]);
        box_muller(words + 2, deviation, &values[2 * LANES + lane], &values[3 * LANES + lane]);
    }
}

/* Copies the tile's elements that lie in [first, first + count). */
static void copy_tile(const struct random_stream *stream, uint64_t tile, double deviation,
                      uint64_t first, uint64_t count, float *values)
{
    float whole[RANDOM_TILE];
    uint64_t begin = MAX(first, tile * RANDOM_TILE);
    uint64_t end = MIN(first + count, (tile + 1) * RANDOM_TILE);
    normal_tile(stream, tile, deviation, whole);
    memcpy(values + (begin - first), whole + begin % RANDOM_TILE, (end - begin) * sizeof *values);
}

void random_normal(const struct random_stream *stream, uint64_t first, uint64_t count,
                   double deviation, float *values)
{
    uint64_t begin = first / RANDOM_TILE, end = (first + count + RANDOM_TILE - 1) / RANDOM_TILE;
#pragma omp parallel for schedule(static)
    for (uint64_t tile = begin; tile < end; tile++)
        copy_tile(stream, tile, deviation, first, count, values);
}
