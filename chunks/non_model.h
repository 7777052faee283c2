/* Where non-model data lies. Its region is the top of the arena and grows downwards; the chunks'
 * region begins at the bottom. Offsets are fixed for the iteration: the longest-lived buffer first,
 * each at the lowest offset that is free throughout its life, so that activations saved for
 * backward form a stack and workspaces stand on top of it. Where that leaves holes at the peak, as
 * lives that do not nest can, offsets with a lower peak are searched (chunks/packing.h). */
#ifndef PSTAR_CHUNKS_NON_MODEL_H
#define PSTAR_CHUNKS_NON_MODEL_H

#include "traces/trace.h"

struct non_model {
    uint32_t moment_count, buffer_count;
    uint64_t *extent;    /* [moment_count] bytes from the arena's top down to the lowest in use */
    uint64_t *offset;    /* [buffer_count] buffer b occupies [top - offset - bytes, top - offset);
                            NULL where the trace knows only sums; 0 of one that a chunk holds */
    uint64_t peak_bytes; /* greatest extent */
    uint64_t peak_live_bytes; /* greatest sum of live bytes: the least that any placement needs */
};

/* Places the trace's buffers, but for those that chunks hold; where it has none, the extents are
 * its sums. */
struct non_model *non_model_place(const struct trace *trace);
void non_model_free(struct non_model *non_model);

#endif
