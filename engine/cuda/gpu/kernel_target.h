/* Defines what kernels need from the machine that they are compiled for: here a GPU, by nvcc. The
 * tests compile the same sources for the host, with a kernel_target.h that emulates the threads of
 * a block; the include path decides. Kernels are called by launch() only, take one struct of
 * arguments, and find their block's shared memory with shared_memory(). */
#ifndef PSTAR_ENGINE_CUDA_GPU_KERNEL_TARGET_H
#define PSTAR_ENGINE_CUDA_GPU_KERNEL_TARGET_H

#include "engine/cuda/shared_limits.h"
#include <cuda_runtime.h>
#include <stddef.h>
#include <stdint.h>

/* cudaGetLastError returns an error to the caller. */
template <typename Arguments>
void launch(void (*kernel)(Arguments), dim3 blocks, unsigned threads, size_t shared_bytes,
            cudaStream_t stream, const Arguments &arguments)
{
    if (shared_limit_rises((const void *)kernel, shared_bytes))
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

/* ---- tensor cores and asynchronous copies, by the instructions of GPUs from sm_80 on ----
 *
 * A warp holds fragments. Of a product's sums c[16,8], lane l holds elements (l / 4, 2 (l % 4) +
 * {0, 1}) and those 8 rows below. */

/* c[16,8] += a[16,16] b[16,8], in bf16. a holds the quarters of its matrix that begin at (0, 0),
 * (8, 0), (0, 8), (8, 8). b holds those that begin at rows 0 and 8, transposed: lane l's elements
 * are of column l / 4. */
__device__ static inline void mma_add(float c[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
                 "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
                 : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

/* Loads four 8 x 8 matrices from shared memory. Lane l says where row l % 8 of matrix l / 8 begins,
 * at a multiple of 16 bytes. Lane l gets elements 2 (l % 4) + {0, 1} of row l / 4 of each
 * matrix. */
__device__ static inline void matrices_load(const uint16_t *row, uint32_t matrices[4])
{
    uint32_t address = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(address)
                 : "memory");
}

/* Loads the transposed matrices. */
__device__ static inline void matrices_load_transposed(const uint16_t *row, uint32_t matrices[4])
{
    uint32_t address = (uint32_t)__cvta_generic_to_shared(row);
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(address)
                 : "memory");
}

/* Returns two bf16, rounded to nearest even. */
__device__ static inline uint32_t halves_even(float low, float high)
{
    uint32_t halves;
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(halves) : "f"(high), "f"(low));
    return halves;
}

/* Returns 2^x, within 2 units in the last place. */
__device__ static inline float power_of_two(float x)
{
    float power;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
    return power;
}

/* Starts copying 16 bytes to shared memory, or clears them if not `there`; `from` may then be any
 * address. */
__device__ static inline void copy_start(void *shared, const void *from, bool there)
{
    uint32_t address = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(address), "l"(from), "r"(there ? 16 : 0)
                 : "memory");
}

/* As copy_start, for 4 bytes. */
__device__ static inline void copy_start_word(void *shared, const void *from, bool there)
{
    uint32_t address = (uint32_t)__cvta_generic_to_shared(shared);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"(address), "l"(from), "r"(there ? 4 : 0)
                 : "memory");
}

/* Makes a group of the copies that the thread started since the last call. */
__device__ static inline void copy_group()
{
    asm volatile("cp.async.commit_group;" ::: "memory");
}

/* Waits for all of the thread's groups except the last `LEFT`. */
template <int LEFT> __device__ inline void copy_wait()
{
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

/* Returns x, but hides its value from the compiler. What a loop computes from it is then computed
 * there, and takes no register outside of the loop. */
__device__ static inline uint32_t afresh(uint32_t x)
{
    asm volatile("" : "+r"(x));
    return x;
}

#endif
