/* How far up each chunk may lie without having to make way for non-model data later. */
#ifndef PSTAR_CHUNKS_CEILINGS_H
#define PSTAR_CHUNKS_CEILINGS_H

#include "chunks/decide.h"

struct ceilings {
    uint64_t *arrival; /* [actions] of a fetch or an allocation: the lowest address at which
                          non-model data begins until the chunk leaves */
    uint64_t *initial; /* [chunk_count] likewise, from the iteration's start */
};

/* Addresses are multiples of LAYOUT_ALIGNMENT below `device_budget`. Time goes round: a chunk that
 * stays at the iteration's end stays into the next. */
struct ceilings *ceilings_new(const struct decisions *decisions, const struct accesses *accesses,
                              uint64_t device_budget);
void ceilings_free(struct ceilings *ceilings);

#endif
