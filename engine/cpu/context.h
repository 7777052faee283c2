/* The fields of a struct cpu_context, for the files of this folder and their tests. */
#ifndef PSTAR_ENGINE_CPU_CONTEXT_H
#define PSTAR_ENGINE_CPU_CONTEXT_H

#include "engine/cpu/matmul.h"
#include "engine/cpu/simd/simd.h"

struct cpu_context {
    unsigned threads;
    const struct cpu_simd *simd;
    const struct nodes *nodes; /* NULL if threads are not bound */
    struct matmul_library *matmul;
};

/* Makes a context that uses one of cpu_simd_list's tables. */
struct cpu_context *cpu_context_with(unsigned threads, const struct cpu_simd *simd);

/* Runs `loop` over [0, items), each thread on one range that begins at a multiple of `grain`. */
void cpu_parallel(const struct cpu_context *cpu, simd_loop *loop, const void *arguments,
                  uint64_t items, uint64_t grain);

/* Runs `loop` over [0, items) where items differ in work: a free thread takes the next item. */
void cpu_parallel_uneven(const struct cpu_context *cpu, simd_loop *loop, const void *arguments,
                         uint64_t items);

/* `dropout` may be NULL. */
struct simd_dropout cpu_dropout_of(const struct kernel_dropout *dropout);

#endif
