/* What a kernel's source needs of CUDA. The same source is compiled twice: by nvcc for the GPU, and
 * for the host with the blocks' threads emulated, so that tests run it where no GPU is. Kernels are
 * called by launch() alone, take one struct of arguments, and find their block's shared memory with
 * shared_memory(). */
#ifndef PSTAR_ENGINE_CUDA_LAUNCH_H
#define PSTAR_ENGINE_CUDA_LAUNCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __CUDACC__

#include <cuda_runtime.h>

/* More dynamic shared memory than this must be asked for by kernel. */
#define LAUNCH_SHARED_LIMIT (48 * 1024)

/* An error stays for the caller of cudaGetLastError. */
template <typename Arguments>
void launch(void (*kernel)(Arguments), dim3 blocks, unsigned threads, size_t shared_bytes,
            cudaStream_t stream, const Arguments &arguments)
{
    if (shared_bytes > LAUNCH_SHARED_LIMIT)
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             (int)shared_bytes);
    kernel<<<blocks, threads, shared_bytes, stream>>>(arguments);
}

static inline void launch_clear(void *memory, size_t bytes, cudaStream_t stream)
{
    cudaMemsetAsync(memory, 0, bytes, stream);
}

__device__ static inline unsigned char *shared_memory()
{
    extern __shared__ __align__(128) unsigned char shared_bytes[];
    return shared_bytes;
}

#else
#include "tests/engine/cuda/emulation.h"
#endif

enum { WARP = 32 };
#define WHOLE_WARP 0xffffffffu

/* Blocks that give each of `items` one of their `each` places. */
static inline unsigned launch_blocks(uint64_t items, unsigned each)
{
    return (unsigned)((items + each - 1) / each);
}

#endif
