/* How much dynamic shared memory each kernel may have. A kernel must ask for more than 48 KiB, once
 * in the process. */
#ifndef PSTAR_ENGINE_CUDA_SHARED_LIMITS_H
#define PSTAR_ENGINE_CUDA_SHARED_LIMITS_H

#include <stddef.h>

enum { SHARED_LIMIT_BYTES = 48 * 1024, SHARED_LIMIT_KERNELS = 64 };

/* Returns whether a launch with `bytes` must raise the kernel's limit first, and notes that it does
 * so. One thread launches kernels. Kernels beyond the table's room raise it each time. */
inline bool shared_limit_rises(const void *kernel, size_t bytes)
{
    static struct {
        const void *kernel;
        size_t bytes;
    } raised[SHARED_LIMIT_KERNELS];
    if (bytes <= SHARED_LIMIT_BYTES)
        return false;
    for (int i = 0; i < SHARED_LIMIT_KERNELS; i++) {
        if (raised[i].kernel && raised[i].kernel != kernel)
            continue;
        bool rises = bytes > raised[i].bytes;
        raised[i] = {kernel, rises ? bytes : raised[i].bytes};
        return rises;
    }
    return true;
}

#endif
