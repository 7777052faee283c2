/* The end of a sum over blocks within their own launch: every block leaves its part, and the last
 * to come adds them in the order of the parts. */
#ifndef PSTAR_ENGINE_CUDA_LAST_BLOCK_H
#define PSTAR_ENGINE_CUDA_LAST_BLOCK_H

#include "engine/cuda/launch.h"

/* Whether all other blocks of the launch, whose grid has one dimension, have been here: it then
 * sees what they wrote before, by volatile reads. Called by all threads of a block, which get the
 * same answer. `flag` is shared memory; `counter` is 0 before and after the launch. */
__device__ static inline bool last_block(uint32_t *counter, uint32_t *flag)
{
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
        *flag = atomicAdd(counter, 1) == gridDim.x - 1;
        if (*flag)
            *counter = 0;
    }
    __syncthreads();
    __threadfence();
    return *flag;
}

/* The sum of `count` parts, a power of two and at least the block's number of threads, in thread 0:
 * pairs count / 2, ..., 2, 1 apart. `part(i)` is part i; `sums` is shared memory, one a thread. */
template <typename Part>
__device__ inline double pairwise_sum(unsigned threads, unsigned count, double *sums, Part part)
{
    double mine[4];
    unsigned each = count / threads;
    for (unsigned i = 0; i < 4; i++)
        mine[i] = i < each ? part(threadIdx.x + i * threads) : 0;
    mine[0] = each == 4 ? (mine[0] + mine[2]) + (mine[1] + mine[3]) : mine[0] + mine[1];
    sums[threadIdx.x] = mine[0];
    for (unsigned apart = threads / 2; apart > 0; apart /= 2) {
        __syncthreads();
        if (threadIdx.x < apart)
            sums[threadIdx.x] += sums[threadIdx.x + apart];
    }
    return sums[0];
}

#endif
