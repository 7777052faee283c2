/* Slots of few sizes: chunks whose sizes differ little get slots that do not, so that one fits
 * where another was, and two where one of twice the size was. Where the device is full, that saves
 * most moves within it.
 *
 * A slot is the chunk's bytes rounded up to a multiple of a grain. Large chunks have one grain,
 * small ones another: the largest that wastes no more than a 256th of each. */
#ifndef PSTAR_CHUNKS_SLOTS_H
#define PSTAR_CHUNKS_SLOTS_H

#include "chunks/layout.h"

/* Bytes of the largest chunk's slot. */
uint64_t slots_largest(const struct layout *layout);
/* A chunk of less bytes is small: a 64th of the largest. */
uint64_t slots_small(const struct layout *layout);

/* A copy of the layout whose chunks have such slots: their `bytes` may exceed what they hold. */
struct layout *slots_round(const struct layout *layout);

#endif
