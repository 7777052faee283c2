/* Elements of either precision as fp32: pairs and octets, the widths in which threads access
 * memory. Where columns are not a multiple of a width its elements go one by one. */
#ifndef PSTAR_ENGINE_CUDA_ELEMENT_H
#define PSTAR_ENGINE_CUDA_ELEMENT_H

#include "engine/bf16.h"
#include "engine/cuda/launch.h"

enum { OCTET = 8 };

struct pair {
    float a, b;
};

struct octet {
    float at[OCTET];
};

__device__ static inline float element_load(const float *from)
{
    return *from;
}

__device__ static inline float element_load(const uint16_t *from)
{
    return bf16_widen(*from);
}

__device__ static inline void element_store(float *to, float value)
{
    *to = value;
}

__device__ static inline void element_store(uint16_t *to, float value)
{
    *to = bf16_round(value);
}

__device__ static inline uint32_t halves_pack(float low, float high)
{
    return bf16_round(low) | (uint32_t)bf16_round(high) << 16;
}

__device__ static inline struct pair halves_unpack(uint32_t halves)
{
    return {bf16_widen((uint16_t)halves), bf16_widen((uint16_t)(halves >> 16))};
}

/* At a multiple of two elements. */
__device__ static inline struct pair pair_load_whole(const float *from)
{
    float2 both = *(const float2 *)from;
    return {both.x, both.y};
}

__device__ static inline struct pair pair_load_whole(const uint16_t *from)
{
    return halves_unpack(*(const uint32_t *)from);
}

__device__ static inline void pair_store_whole(float *to, struct pair pair)
{
    *(float2 *)to = {pair.a, pair.b};
}

__device__ static inline void pair_store_whole(uint16_t *to, struct pair pair)
{
    *(uint32_t *)to = halves_pack(pair.a, pair.b);
}

/* Elements `column` and the next of a row of `columns`; `padding` for those beyond it. */
template <typename T>
__device__ inline struct pair pair_load(const T *row, uint32_t column, uint32_t columns,
                                        float padding)
{
    if (columns % 2 == 0 && column < columns)
        return pair_load_whole(row + column);
    return {column < columns ? element_load(row + column) : padding,
            column + 1 < columns ? element_load(row + column + 1) : padding};
}

/* The same where the compiler knows whether columns are even: without branches, loads of an
 * unrolled loop can be under way together. */
template <bool EVEN, typename T>
__device__ inline struct pair pair_load_known(const T *row, uint32_t column, uint32_t columns,
                                              float padding)
{
    if (column >= columns)
        return {padding, padding};
    if (EVEN)
        return pair_load_whole(row + column);
    return {element_load(row + column),
            column + 1 < columns ? element_load(row + column + 1) : padding};
}

template <typename T>
__device__ inline void pair_store(T *row, uint32_t column, uint32_t columns, struct pair pair)
{
    if (columns % 2 == 0) {
        if (column < columns)
            pair_store_whole(row + column, pair);
        return;
    }
    if (column < columns)
        element_store(row + column, pair.a);
    if (column + 1 < columns)
        element_store(row + column + 1, pair.b);
}

/* At a multiple of 16 bytes. */
__device__ static inline struct octet octet_load_whole(const float *from)
{
    float4 low = ((const float4 *)from)[0], high = ((const float4 *)from)[1];
    return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}

__device__ static inline struct octet octet_load_whole(const uint16_t *from)
{
    uint4 all = *(const uint4 *)from;
    struct pair a = halves_unpack(all.x), b = halves_unpack(all.y), c = halves_unpack(all.z),
                d = halves_unpack(all.w);
    return {{a.a, a.b, b.a, b.b, c.a, c.b, d.a, d.b}};
}

__device__ static inline void octet_store_whole(float *to, const struct octet &octet)
{
    const float *at = octet.at;
    ((float4 *)to)[0] = {at[0], at[1], at[2], at[3]};
    ((float4 *)to)[1] = {at[4], at[5], at[6], at[7]};
}

__device__ static inline void octet_store_whole(uint16_t *to, const struct octet &octet)
{
    const float *at = octet.at;
    *(uint4 *)to = {halves_pack(at[0], at[1]), halves_pack(at[2], at[3]), halves_pack(at[4], at[5]),
                    halves_pack(at[6], at[7])};
}

/* The octet at `first`, a multiple of 8, of an array that ends at `end`; `padding` beyond. */
template <typename T>
__device__ inline struct octet octet_load(const T *array, uint64_t first, uint64_t end,
                                          float padding)
{
    if (first + OCTET <= end)
        return octet_load_whole(array + first);
    struct octet octet;
    for (int i = 0; i < OCTET; i++)
        octet.at[i] = first + i < end ? element_load(array + first + i) : padding;
    return octet;
}

template <typename T>
__device__ inline void octet_store(T *array, uint64_t first, uint64_t end,
                                   const struct octet &octet)
{
    if (first + OCTET <= end) {
        octet_store_whole(array + first, octet);
        return;
    }
    for (int i = 0; i < OCTET; i++)
        if (first + i < end)
            element_store(array + first + i, octet.at[i]);
}

#endif
