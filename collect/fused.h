/* Operators that a program could annotate with one range alone: an optimizer's step that goes over
 * all parameters at once. The range has the first operator's moment, and its time is divided among
 * them by their bytes. */
#ifndef PSTAR_COLLECT_FUSED_H
#define PSTAR_COLLECT_FUSED_H

#include "traces/trace.h"

struct fused {
    uint32_t first, count; /* moments [first, first + count) */
    uint64_t *bytes;       /* [count] of the operators; NULL before fused_weigh */
};

/* Elements are struct fused. Free with g_array_unref. */
GArray *fused_new(void);

/* Takes the operators' bytes from the trace. Fails (TRACE_ERROR_INVALID) where a moment is not
 * there. */
bool fused_weigh(GArray *fused, const struct trace *trace, GError **error);

/* Divides `durations_ns`, an entry an operator, of which those in `fused` have theirs in their
 * first. */
void fused_divide(const GArray *fused, uint64_t *durations_ns);

#endif
