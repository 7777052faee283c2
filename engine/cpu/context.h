/* The inside of struct cpu_context, for the files of this folder and their tests. */
#ifndef PSTAR_ENGINE_CPU_CONTEXT_H
#define PSTAR_ENGINE_CPU_CONTEXT_H

#include "engine/cpu/matmul.h"
#include "engine/cpu/simd/simd.h"

struct cpu_context {
    unsigned threads;
    const struct cpu_simd *simd;
    const struct nodes *nodes; /* NULL: threads are not bound */
    struct matmul_library *matmul;
};

/* A context with one of cpu_simd_list's tables. */
struct cpu_context *cpu_context_with(unsigned threads, const struct cpu_simd *simd);

/* Runs `loop` over [0, items), each thread on one range that begins at a multiple of `grain`. */
void cpu_parallel(const struct cpu_context *cpu, simd_loop *loop, const void *arguments,
                  uint64_t items, uint64_t grain);

/* The same where items differ in work: a free thread takes the next. */
void cpu_parallel_uneven(const struct cpu_context *cpu, simd_loop *loop, const void *arguments,
                         uint64_t items);

/* NULL: none. */
struct simd_dropout cpu_dropout_of(const struct kernel_dropout *dropout);

#endif
