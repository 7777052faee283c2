/* Operators that a program could annotate with one range alone: an optimizer's step that goes over
 * all parameters at once. The range has the first operator's moment, and its time is divided among
 * them by their bytes. */
#ifndef PSTAR_COLLECT_DECLARATIONS_H
#define PSTAR_COLLECT_DECLARATIONS_H

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

/* From the declarations that a program makes in NVTX's domain "pstar" (docs/formats.md) to a trace.
 * Programs of all kinds make them: each is checked. */

struct declarations;

struct declarations *declarations_new(void);

/* NULL is allowed. */
void declarations_free(struct declarations *declarations);

/* One mark. After a declaration that cannot be understood the rest is ignored. */
void declarations_add(struct declarations *declarations, const char *text, uint64_t payload);

/* What was declared beside the trace. */
struct declared {
    GArray *fused; /* of struct fused, weighed */
    char *unknown; /* what the program cannot tell, a line each; NULL: nothing */
};

/* The trace of all that was declared, with durations of 0; to be freed with trace_free. Fails
 * (TRACE_ERROR_INVALID) with the reason where a declaration was bad, or where they are incomplete
 * or contradict each other; *declared is empty then. `declarations` is empty afterwards. */
struct trace *declarations_take(struct declarations *declarations, struct declared *declared,
                                GError **error);

/* Frees what *declared holds, and empties it. */
void declared_clear(struct declared *declared);

#endif
