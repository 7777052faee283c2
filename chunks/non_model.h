/* Assigns addresses to non-model data. It grows down from the top of the arena, while chunks begin
 * at the bottom. Offsets are fixed for the iteration. The buffer that lives longest comes first,
 * and each gets the lowest offset that is free throughout its life, so that activations saved for
 * backward form a stack with workspaces on top of it. If lifetimes do not nest and leave holes at
 * the peak, a search looks for offsets with a lower peak (chunks/packing.h). */
#ifndef PSTAR_CHUNKS_NON_MODEL_H
#define PSTAR_CHUNKS_NON_MODEL_H

#include "traces/trace.h"

struct non_model {
    uint32_t moment_count, buffer_count;
    uint64_t
        *extent; /* [moment_count] bytes from the top of the arena down to the lowest one in use */
    uint64_t *offset; /* [buffer_count] buffer b occupies [top - offset - bytes, top - offset); 0 if
                         a chunk holds it; the array is NULL if the trace has only sums */
    uint64_t peak_bytes;      /* greatest extent */
    uint64_t peak_live_bytes; /* the greatest sum of live bytes, which is the least that any
                                 placement needs */
};

/* Places the trace's buffers, except those that chunks hold. If the trace has no buffers, its sums
 * become the extents. The caller frees the result. */
struct non_model *non_model_place(const struct trace *trace);
void non_model_free(struct non_model *non_model);

#endif
