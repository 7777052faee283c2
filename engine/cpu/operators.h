/* The model's operators on the CPU: an operation's addresses become pointers into one memory, and
 * its kind the kernels of engine/cpu/kernels.h. */
#ifndef PSTAR_ENGINE_CPU_OPERATORS_H
#define PSTAR_ENGINE_CPU_OPERATORS_H

#include "engine/cpu/kernels.h"
#include "engine/operation.h"

/* For one thread at a time. */
struct cpu_operators {
    struct cpu_context *cpu;
    uint8_t *memory; /* the arena, or the host pool for the host's operators */
    uint64_t
        *order; /* the host's workspace of the embedding's backward; grows with the first use */
    uint32_t order_rows;
};

void cpu_operators_run(struct cpu_operators *operators, const struct operation *operation);

#endif
