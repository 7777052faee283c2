/* Tiles: 64 elements in fp32, whatever the precision they are stored in. Loops compute on whole
 * tiles, so that a tensor's last elements go the same way as the others. */
#ifndef PSTAR_ENGINE_CPU_SIMD_TILE_H
#define PSTAR_ENGINE_CPU_SIMD_TILE_H

#include "engine/bf16.h"
#include "engine/cpu/simd/simd.h"

/* Aligned, or each access to a register's width would touch two cache lines. */
typedef float tile_fp32[SIMD_TILE] __attribute__((aligned(64)));

/* The first of the elements' tile `tile` of a row of `columns`, and how many are there. */
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

/* `count` elements from `element` on, and `padding` behind them. */
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

/* The sum of a tile's elements: pairs 32, 16, 8, 4, 2, 1 apart. */
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

/* A gradient's tile goes where `gradient` says. */
static inline void tile_store_gradient(enum kernel_gradient gradient, void *to, uint64_t element,
                                       uint32_t count, const float tile[SIMD_TILE])
{
    bool half = gradient == KERNEL_GRADIENT_SET_BF16 || gradient == KERNEL_GRADIENT_ADD_BF16;
    enum model_precision precision = half ? MODEL_BF16 : MODEL_FP32;
    tile_fp32 sum;
    memcpy(sum, tile, sizeof sum);
    if (gradient == KERNEL_GRADIENT_ADD || gradient == KERNEL_GRADIENT_ADD_BF16) {
        tile_fp32 there;
        tile_load(precision, to, element, count, 0, there);
        tile_add(sum, there);
    }
    tile_store(precision, to, element, count, sum);
}

#endif
