/* The training steps in a PyTorch profiler's trace: which operators each consists of. */
#ifndef PSTAR_TRACES_IMPORT_KINETO_STEP_H
#define PSTAR_TRACES_IMPORT_KINETO_STEP_H

#include "traces/import/kineto.h"
#include "traces/trace.h"

/* An operator that is not part of another: of forward, a node of backward, or of the update. */
struct kineto_work {
    const struct kineto_range *range;
    uint64_t start_ns;    /* of the host; it lasts until the next one's */
    uint64_t end_ns;      /* of the device's work, and of all before it */
    uint64_t sequence;    /* or KINETO_NO_SEQUENCE */
    uint32_t micro_batch; /* from 0 */
    uint8_t phase;        /* enum trace_phase */
    bool works;           /* the device had something to do for it */
};

/* A gradient that was added to its parameter's. */
struct kineto_gradient {
    uint64_t sequence; /* of the node that it came from */
    uint64_t elements;
    uint32_t work; /* that node's, or the last before it: an index */
    uint32_t shape, type;
};

struct kineto_step {
    uint64_t start_ns, end_ns; /* of the host */
    uint64_t begin_ns;         /* of the device: when it had done all that came before */
    uint64_t highest_forward;  /* sequence number in any part of forward; 0: none has a number */
    uint32_t micro_batches;
    GArray *works;     /* struct kineto_work */
    GArray *gradients; /* struct kineto_gradient, as they were added */
};

/* The steps that have a backward pass, in order: GPtrArray of struct kineto_step, which
 * g_ptr_array_unref frees. *marked_by is what told them apart, a literal. `kineto` outlives it. */
GPtrArray *kineto_steps(const struct kineto *kineto, const char **marked_by);

/* Sets end_ns and `works` of all works, and begin_ns. Where no kernel was recorded the host does
 * all work. */
void kineto_step_times(const struct kineto *kineto, struct kineto_step *step);

static inline struct kineto_work *kineto_work_at(const struct kineto_step *step, uint32_t index)
{
    return &g_array_index(step->works, struct kineto_work, index);
}

#endif
