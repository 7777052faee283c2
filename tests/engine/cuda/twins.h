/* Arrays that lie once in the CPU device's memory and once in the GPU's (kernel_runs.h), with the
 * same first contents, so that a kernel of each device can run and the results can be compared. */
#ifndef PSTAR_TESTS_ENGINE_CUDA_TWINS_H
#define PSTAR_TESTS_ENGINE_CUDA_TWINS_H

#include "engine/cpu/kernels.h"
#include "engine/cuda/kernels.h"

/* Both devices and all arrays of a test. */
struct twins {
    struct cpu_context *cpu;
    struct cuda_context cuda;
    GPtrArray *arrays;
};

struct twin {
    const char *name;
    void *cpu, *cuda;
    uint64_t bytes;
    uint8_t *whole; /* of cuda, with guards on both sides */
};

struct twins twins_new(void);
void twins_free(struct twins *twins);

/* Draws normal values, rounded to the precision. */
struct twin *twin_random(struct twins *twins, const char *name, enum model_precision precision,
                         uint64_t elements, double deviation);
/* Draws normal values in bf16 or fp32, as `gradient` says. */
struct twin *twin_gradient(struct twins *twins, const char *name, enum kernel_gradient gradient,
                           uint64_t elements);
/* Fills with bytes 0xff, NaN in either precision, so that a test sees what nobody writes. */
struct twin *twin_unset(struct twins *twins, const char *name, uint64_t bytes);
struct twin *twin_from(struct twins *twins, const char *name, const void *contents, uint64_t bytes);
/* Draws 32-bit integers below a bound. */
struct twin *twin_tokens(struct twins *twins, const char *name, uint32_t count, uint32_t below);

uint64_t twin_element_bytes(enum model_precision precision);

/* Asserts that all arrays, also those that kernels only read, have the same bits in both memories,
 * and that no guard was written. */
void twins_assert_same(const struct twins *twins, const char *what);
/* Asserts that no guard was written. */
void twins_assert_guards(const struct twins *twins, const char *what);
/* Asserts that the norm of an array's difference is within `tolerance` of the norm of the CPU's
 * array, or of `least` if the norm is less, as where values cancel. `what` names the kernel. */
void twin_assert_close(const struct twin *twin, enum model_precision precision, double tolerance,
                       double least, const char *what);

/* Draws a dropout, with another stream each time. */
struct kernel_dropout random_dropout(void);

#endif
