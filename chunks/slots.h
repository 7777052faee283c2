/* Rounded slots. Chunks whose sizes differ little get slots of the same size, so that one fits
 * where another was, and two fit where one of twice the size was. On a full device that saves most
 * moves.
 *
 * A slot is the chunk's bytes rounded up to a multiple of a grain. Large chunks have one grain
 * and small chunks another. Each is the largest grain that wastes at most a 256th of their bytes.
 */
#ifndef PSTAR_CHUNKS_SLOTS_H
#define PSTAR_CHUNKS_SLOTS_H

#include "chunks/layout.h"

/* Returns the bytes of the largest slot. */
uint64_t slots_largest(const struct layout *layout);
/* Returns the bytes below which a chunk is small: a 64th of the largest. */
uint64_t slots_small(const struct layout *layout);

/* Returns a copy of the layout with rounded slots, whose `slot_bytes` may exceed what the chunks
 * hold. */
struct layout *slots_round(const struct layout *layout);
/* Makes each slot as small as its chunk allows. */
void slots_tighten(struct layout *layout);

#endif
