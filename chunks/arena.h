/* Keeps track of the addresses that chunks occupy in a memory, and of the holes between them. It
 * touches no bytes.
 *
 * Each chunk knows its neighbours. Between them are holes, and the last hole is endless. A memory
 * that is well used has few holes, so all searches go through the holes. */
#ifndef PSTAR_CHUNKS_ARENA_H
#define PSTAR_CHUNKS_ARENA_H

#include "traces/ids.h"

#include <stdbool.h>

struct arena_hole {
    uint64_t begin, end; /* begin < end; the last one's end is UINT64_MAX */
    uint32_t below;      /* the chunk that it follows; chunk_count if it begins at 0 */
};

struct arena {
    uint32_t chunk_count, hole_count;
    const uint64_t *slot_bytes; /* [chunk_count] slots, multiples of the alignment */
    uint64_t *address;          /* [chunk_count] NO_ADDRESS if it is not in the arena */
    uint32_t *below, *above;  /* [chunk_count + 1] neighbours by address, as a ring. chunk_count is
                                 both below the lowest and above the highest */
    struct arena_hole *holes; /* [hole_count] ascending, never empty, never adjacent */
};

/* Returns an empty arena. `bytes` outlives it. */
struct arena *arena_new(uint32_t chunk_count, const uint64_t *bytes);
void arena_free(struct arena *arena);

/* Removes all chunks. */
void arena_clear(struct arena *arena);
/* The range must be free. */
void arena_put(struct arena *arena, chunk_id chunk, uint64_t address);
void arena_take(struct arena *arena, chunk_id chunk);
/* Takes and puts the chunk in one step, which is faster because many moves slide into the hole
 * beside the chunk. The new range may overlap the old one; the rest of it must be free. */
void arena_move(struct arena *arena, chunk_id chunk, uint64_t address);

/* Returns the begin of the smallest hole that, cut off at `floor` and `ceiling`, holds `bytes`; the
 * lowest one of equal holes; NO_ADDRESS if there is none. */
uint64_t arena_best_fit(const struct arena *arena, uint64_t bytes, uint64_t floor,
                        uint64_t ceiling);
/* Returns whether the slot of `chunk`, if it were at `address`, would overlap no other chunk. */
bool arena_has_room(const struct arena *arena, chunk_id chunk, uint64_t address);
/* Returns the index of the first hole that ends above `address`. */
uint32_t arena_hole_above(const struct arena *arena, uint64_t address);
/* Returns the lowest chunk that ends above `address`; chunk_count if there is none. The search is
 * fast if `from`, a chunk that ends at or below the address, lies near; it may be chunk_count. */
uint32_t arena_first_above(const struct arena *arena, uint64_t address, uint32_t from);
/* Returns the end of the highest chunk; 0 if the arena is empty. */
uint64_t arena_end(const struct arena *arena);

#endif
