/* The checksum of blocks in storage: 64 bits, at about the speed of memory. */
#ifndef PSTAR_ENGINE_STORAGE_CHECKSUM_H
#define PSTAR_ENGINE_STORAGE_CHECKSUM_H

#include <stdint.h>

/* Returns the checksum of a block: `bytes` is a multiple of 64, and `index` the block's number.
 * Blocks that differ within one word of 8 bytes, or that changed places, have different checksums
 * for certain; others with a probability of 1 - 2^-64. The checksum of several blocks is the sum of
 * theirs, in any order. */
uint64_t checksum_block(const void *block, uint64_t bytes, uint64_t index);

#endif
