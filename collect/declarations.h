/* Turns the declarations that a program makes in NVTX's domain "pstar" (docs/formats.md) into a
 * trace. Any program may make them, so each is checked.
 *
 * Operators are fused if a program can annotate them only with one range, such as an optimizer step
 * over all parameters. The range has the moment of the first operator. Its time is divided among
 * them by their bytes. */
#ifndef PSTAR_COLLECT_DECLARATIONS_H
#define PSTAR_COLLECT_DECLARATIONS_H

#include "traces/trace.h"

struct fused {
    uint32_t first, count; /* moments [first, first + count) */
    uint64_t *bytes;       /* [count] bytes of each operator; NULL before fused_weigh */
};

/* Returns an array of struct fused. Free with g_array_unref. */
GArray *fused_new(void);

/* Sets the operators' bytes from the trace. Fails with TRACE_ERROR_INVALID if a moment does not
 * exist. */
bool fused_weigh(GArray *fused, const struct trace *trace, GError **error);

/* Divides the durations of fused operators in durations_ns [operator_count]. On entry, the first of
 * them has the time of all. */
void fused_divide(const GArray *fused, uint64_t *durations_ns);

struct declarations;

struct declarations *declarations_new(void);

/* `declarations` may be NULL. */
void declarations_free(struct declarations *declarations);

/* Adds one mark. After an invalid declaration the following ones are ignored. */
void declarations_add(struct declarations *declarations, const char *text, uint64_t payload);

/* Declarations that are not part of the trace. */
struct declared {
    GArray *fused; /* struct fused, with bytes */
    char *unknown; /* what the program cannot tell, one item per line; may be NULL */
    bool queued;   /* ranges of operators on the device only queue their work */
    bool resident; /* and an iteration takes as long as its operators, since nothing is copied */
};

/* Returns the declared trace with durations of 0; free it with trace_free. Fails with
 * TRACE_ERROR_INVALID if a declaration was invalid, or if they are incomplete or contradict each
 * other; *declared is then empty. Empties `declarations`. */
struct trace *declarations_take(struct declarations *declarations, struct declared *declared,
                                GError **error);

/* Frees the contents of *declared and empties it. */
void declared_clear(struct declared *declared);

#endif
