/* The parts that an iteration is put together from. For traces/kineto_*.c alone. */
#ifndef PSTAR_TRACES_IMPORT_KINETO_PARTS_H
#define PSTAR_TRACES_IMPORT_KINETO_PARTS_H

#include "traces/import/kineto_step.h"

/* An iteration that is being made of a step. Arrays with an entry a work have NULL-free indices of
 * step->works. */
struct kineto_parts {
    const struct kineto *kineto;
    const struct kineto_step *step;
    struct trace *trace;
    GPtrArray *notes;  /* char * */
    uint32_t *moment;  /* [works] of the operator that it became part of; the update's: the first */
    uint64_t *time_ns; /* [works] that it took */
    uint32_t update;   /* the first work of the update; the number of works: there is none */
    GArray *accesses;  /* struct kineto_access */
};

struct kineto_access {
    uint32_t work;
    struct trace_access access;
};

/* Finds the parameters by the gradients that were added to theirs, and who uses them: tensors, list
 * widths, and accesses of forward and backward. False after a note where sizes are not known. */
bool kineto_find_tensors(struct kineto_parts *parts);

/* Operators, their times and their accesses; sets `moment`. */
void kineto_make_operators(struct kineto_parts *parts);

/* Non-model data, by what the allocator handed out and took back. */
void kineto_find_buffers(struct kineto_parts *parts);

#endif
