/* Chunk sizes as people write them: "64MiB" for every list, or "param=64MiB,exp_avg=128MiB", a size
 * a list. A plain size among them applies to all lists that are not named. */
#ifndef PSTAR_CHUNKS_CHUNK_SIZES_H
#define PSTAR_CHUNKS_CHUNK_SIZES_H

#include "chunks/layout.h"

#define CHUNK_SIZES_MOST ((UINT64_C(1) << 60) - 1) /* bytes; sums stay below 64 bits */

struct chunk_sizes {
    uint64_t of_list[TRACE_LISTS]; /* bytes, multiples of LAYOUT_ALIGNMENT; 0 if not named */
    uint64_t others;               /* for lists that are not named; 0 if not given */
};

/* Reads "1MiB" or "param=1MiB,2MiB", and rounds sizes up to the alignment. Fails with LAYOUT_ERROR
 * or SIZE_ERROR, and quotes what is wrong: no size, a size of 0, an unknown list, or a list or a
 * plain size given twice. */
bool chunk_sizes_parse(const char *text, struct chunk_sizes *sizes, GError **error);

/* Packs the trace's tensors in the model's order. Fails with LAYOUT_ERROR if a list of the trace
 * has no size, or if the trace does not have a list that is named. */
struct layout *chunk_sizes_pack(const struct chunk_sizes *sizes, const struct trace *trace,
                                GError **error);

#endif
