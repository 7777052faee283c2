/* Where the kernels under test run: emulated on the host (runs_emulated.c) or on a GPU
 * (runs_on_gpu.c). */
#ifndef PSTAR_TESTS_ENGINE_CUDA_KERNEL_RUNS_H
#define PSTAR_TESTS_ENGINE_CUDA_KERNEL_RUNS_H

#include <stdbool.h>
#include <stdint.h>

/* Returns whether kernels can run. Prints why not. */
bool kernel_runs_can(void);

/* Returns zeroed memory at a multiple of 256 bytes, which the host and the kernels reach at the
 * same address. Free with kernel_runs_free. */
void *kernel_runs_new(uint64_t bytes);
void kernel_runs_free(void *memory);

/* Returns when everything queued has run. Stops the program, with the name of the kernel, if it
 * failed. */
void kernel_runs_finish(const char *kernel);

#endif
