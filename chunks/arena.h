/* Who occupies which addresses of a memory, and where there is room. No bytes are touched.
 *
 * Chunks know their neighbours, and what lies between them are holes, the last of which is endless.
 * There are few holes where a memory is well used, so all searches go through the holes. */
#ifndef PSTAR_CHUNKS_ARENA_H
#define PSTAR_CHUNKS_ARENA_H

#include "traces/ids.h"

#include <stdbool.h>

struct arena_hole {
    uint64_t begin, end; /* begin < end; the last one's end is UINT64_MAX */
    uint32_t below;      /* the chunk that it follows; chunk_count: none, it begins at 0 */
};

struct arena {
    uint32_t chunk_count, hole_count;
    const uint64_t *slot_bytes; /* [chunk_count] slots, multiples of the alignment */
    uint64_t *address;          /* [chunk_count] NO_ADDRESS: not there */
    uint32_t *below, *above; /* [chunk_count + 1] neighbours by address, a ring: chunk_count is both
                                below the lowest and above the highest */
    struct arena_hole *holes; /* [hole_count] ascending, never empty, never adjacent */
};

/* An empty one. `bytes` outlives it. */
struct arena *arena_new(uint32_t chunk_count, const uint64_t *bytes);
void arena_free(struct arena *arena);

/* Everybody leaves. */
void arena_clear(struct arena *arena);
/* The range must be free. */
void arena_put(struct arena *arena, uint32_t chunk, uint64_t address);
void arena_take(struct arena *arena, uint32_t chunk);
/* Takes it and puts it, at once: many moves are slides into the hole beside the chunk. The range
 * may overlap where it lies; what is beyond must be free. */
void arena_move(struct arena *arena, uint32_t chunk, uint64_t address);

/* The smallest hole that, cut off at `floor` and `ceiling`, holds `bytes`: its begin, the lowest
 * among equals; NO_ADDRESS where there is none. */
uint64_t arena_best_fit(const struct arena *arena, uint64_t bytes, uint64_t floor,
                        uint64_t ceiling);
/* Whether the slot of `chunk` at `address` touches nobody but, perhaps, itself. */
bool arena_has_room(const struct arena *arena, uint32_t chunk, uint64_t address);
/* Index of the first hole that ends above `address`: the one it lies in, or the next. */
uint32_t arena_hole_above(const struct arena *arena, uint64_t address);
/* The lowest chunk that reaches above `address`; chunk_count: none. */
uint32_t arena_first_above(const struct arena *arena, uint64_t address);
/* End of the highest chunk; 0 when empty. */
uint64_t arena_end(const struct arena *arena);

#endif
