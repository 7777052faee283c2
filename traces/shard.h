/* Shards: the equal parts of a tensor that ranks hold of gradients, masters and moments.
 *
 * A tensor is cut into at most SHARD_BLOCKS blocks of equal size, whose number depends on its
 * elements alone; the squares of a gradient are summed in these blocks. A shard is a run of whole
 * blocks, so that the sum of squares does not depend on the number of ranks. */
#ifndef PSTAR_TRACES_SHARD_H
#define PSTAR_TRACES_SHARD_H

#include <stdint.h>

enum { SHARD_BLOCKS = 1024, SHARD_STEP = 64 /* blocks are multiples of so many elements */ };

/* The elements [first, first + count) of a tensor. */
struct shard {
    uint64_t first, count;
};

/* Returns the elements of a block; the last block of a tensor may have fewer. */
uint64_t shard_block(uint64_t elements);

/* Returns the elements for which every rank has room: all of them with one rank. 0 ranks stand for
 * one. */
uint64_t shard_room(uint64_t elements, uint32_t ranks);

/* Returns a rank's elements. The last ranks may have fewer than there is room for, or none. */
struct shard shard_of(uint64_t elements, uint32_t ranks, uint32_t rank);

#endif
