/* The blocks of attention on tensor cores, of BANDS * 64 queries or keys of a head each: how many
 * there are, and in which order they start. */
#ifndef PSTAR_ENGINE_CUDA_ATTENTION_HALF_BLOCKS_H
#define PSTAR_ENGINE_CUDA_ATTENTION_HALF_BLOCKS_H

#include "engine/cuda/attention.h"

enum { FEW_BLOCKS = 1 }; /* for each multiprocessor */

/* Large blocks have two bands. Where T and the heads are few, they would leave multiprocessors
 * without any: then they are small. */
static inline bool half_blocks_small(const struct cuda_context *cuda, const struct attention &a)
{
    return launch_blocks(a.T, 2 * TILE) * a.heads < FEW_BLOCKS * cuda->multiprocessors;
}

template <int BANDS> static inline dim3 half_grid(const struct attention &a)
{
    return dim3(launch_blocks(a.T, BANDS * TILE) * a.heads);
}

/* A block's head, and of the head's blocks how many take longer and how many less. */
struct half_block {
    struct attention_head head;
    uint32_t longer, shorter;
};

#define LONGEST_FIRST_BYTES (16u << 20)

/* Blocks start in the order of their numbers. The heads come one after the other, so that what the
 * blocks of one read stays in the L2 cache; but as many of the last ones as fit it together, their
 * longest blocks first, so that the last blocks to end are short. */
__device__ static inline struct half_block half_block_of(const struct attention &a)
{
    uint32_t blocks = gridDim.x / a.heads, index = blockIdx.x;
    uint32_t fit = LONGEST_FIRST_BYTES / (2 * sizeof(uint16_t) * a.D) / a.T;
    uint32_t together = fit < a.heads ? fit : a.heads, before = (a.heads - together) * blocks;
    uint32_t head, longer;
    if (index < before) {
        head = index / blocks;
        longer = index % blocks;
    } else {
        head = a.heads - together + (index - before) % together;
        longer = (index - before) / together;
    }
    return {attention_head_of(a, head), longer, blocks - 1 - longer};
}

#endif
