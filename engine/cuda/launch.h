/* How kernels are launched, on a GPU or emulated. */
#ifndef PSTAR_ENGINE_CUDA_LAUNCH_H
#define PSTAR_ENGINE_CUDA_LAUNCH_H

#include "kernel_target.h"

enum { WARP = 32 };
#define WHOLE_WARP 0xffffffffu

/* Blocks that give each of `items` one of their `each` places. */
static inline unsigned launch_blocks(uint64_t items, unsigned each)
{
    return (unsigned)((items + each - 1) / each);
}

#endif
