/* Emulates a GPU's blocks on the host, one after the other. A block's threads are fibers that run
 * in turn until they meet at a barrier or exchange values within a warp. Mistakes of a kernel show:
 * - threads run in an order that changes from block to block, and warps together or one far ahead
 *   of the others, so a missing barrier changes results;
 * - a barrier that not all threads of a block or warp reach stops the program;
 * - shared memory is as large as the launch says, on the heap where the address sanitizer sees
 *   accesses beside it, and full of NaN when a block starts. */
#ifndef PSTAR_TESTS_CUDA_KERNEL_TARGET_H
#define PSTAR_TESTS_CUDA_KERNEL_TARGET_H

#include <functional>
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct dim3 {
    unsigned x, y, z;
    dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z)
    {
    }
};

struct alignas(8) float2 {
    float x, y;
};
struct alignas(16) float4 {
    float x, y, z, w;
};
struct alignas(8) uint2 {
    uint32_t x, y;
};
struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};

typedef struct CUstream_st *cudaStream_t;

/* of the fiber that runs */
extern dim3 threadIdx, blockIdx, blockDim, gridDim;

unsigned char *shared_memory();

void __syncthreads();
void __syncwarp(uint32_t mask);
void __threadfence();

/* Every lane of a warp gives `bytes`, and all lanes get the bytes of all, [32][bytes]. They are
 * valid until the warp's next exchange but one. */
const void *emulation_exchange(const void *mine, size_t bytes);

template <typename T> T emulation_shuffle(T value, unsigned from)
{
    const T *values = (const T *)emulation_exchange(&value, sizeof value);
    return values[from % 32];
}

template <typename T> T __shfl_xor_sync(uint32_t, T value, unsigned mask)
{
    return emulation_shuffle(value, threadIdx.x % 32 ^ mask);
}

/* A lane beyond the last gives its own value. */
template <typename T> T __shfl_down_sync(uint32_t, T value, unsigned apart)
{
    unsigned lane = threadIdx.x % 32;
    return emulation_shuffle(value, lane + apart < 32 ? lane + apart : lane);
}

template <typename T> T __shfl_sync(uint32_t, T value, unsigned from)
{
    return emulation_shuffle(value, from);
}

/* For whole warps. */
static inline uint32_t __ballot_sync(uint32_t, int predicate)
{
    const int *values = (const int *)emulation_exchange(&predicate, sizeof predicate);
    uint32_t ballot = 0;
    for (int lane = 0; lane < 32; lane++)
        ballot |= (uint32_t)(values[lane] != 0) << lane;
    return ballot;
}

static inline uint32_t atomicAdd(uint32_t *counter, uint32_t value)
{
    uint32_t before = *counter;
    *counter += value;
    return before;
}

void emulation_run(dim3 blocks, unsigned threads, size_t shared_bytes,
                   const std::function<void()> &thread);

template <typename Arguments>
void launch(void (*kernel)(Arguments), dim3 blocks, unsigned threads, size_t shared_bytes,
            cudaStream_t, const Arguments &arguments)
{
    emulation_run(blocks, threads, shared_bytes, [&] { kernel(arguments); });
}

void emulation_clear(void *memory, size_t bytes);

static inline void launch_clear(void *memory, size_t bytes, cudaStream_t)
{
    emulation_clear(memory, bytes);
}

/* ---- tensor cores and asynchronous copies ----
 *
 * A copy is made when it is started or when it is waited for, by chance, so that reading too early,
 * or overwriting what others still read, changes results. */

void mma_add(float c[4], const uint32_t a[4], const uint32_t b[2]);
void matrices_load(const uint16_t *row, uint32_t matrices[4]);
void matrices_load_transposed(const uint16_t *row, uint32_t matrices[4]);
uint32_t halves_even(float low, float high);
void copy_start(void *shared, const void *from, bool there);
void copy_start_word(void *shared, const void *from, bool there);
void copy_group();
void emulation_copy_wait(unsigned left);

static inline float power_of_two(float x)
{
    return exp2f(x);
}

static inline uint32_t afresh(uint32_t x)
{
    return x;
}

template <int LEFT> void copy_wait()
{
    emulation_copy_wait(LEFT);
}

#endif
