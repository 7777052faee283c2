/* Records which work must be complete before a range of the device's addresses may be written
 * again. */
#ifndef PSTAR_CHUNKS_RESIDENCY_ADDRESS_MAP_H
#define PSTAR_CHUNKS_RESIDENCY_ADDRESS_MAP_H

#include "chunks/parts.h"
#include "chunks/residency/mover.h"

#include <glib.h>

struct address_map;

struct address_map *address_map_new(void);
void address_map_free(struct address_map *map);

/* The room that a chunk leaves while it is written back in parts. */
struct address_leaving {
    uint64_t begin, bytes;            /* where the chunk lay, without the rest of its slot */
    mover_ticket written[COPY_PARTS]; /* when each part is on the host, in the order of parts */
};

/* Frees [begin, end) as soon as `after` is complete. The range must not be in the map. `leaving`
 * may be NULL; if not, its last ticket is the one in `after`. */
void address_map_release(struct address_map *map, uint64_t begin, uint64_t end,
                         const struct mover_after *after, const struct address_leaving *leaving);
/* Takes [begin, end), and adds to `after` what the new owner must wait for. */
void address_map_take(struct address_map *map, uint64_t begin, uint64_t end,
                      struct mover_after *after);
/* Takes [begin, end) for a chunk of so many bytes that comes in parts, and adds to each part of
 * `after` what it must wait for. A part waits for all parts of a write-back that lie where it and
 * the parts before it come, and for as many parts as have come then: the share of a chunk that has
 * come never exceeds the share that has left of the one before it. Bounds rely on that
 * (docs/bounds.md). */
void address_map_take_in_parts(struct address_map *map, uint64_t begin, uint64_t end,
                               uint64_t bytes, struct mover_after after[COPY_PARTS]);

/* Takes the later ticket of each queue. */
static inline void mover_after_merge(struct mover_after *after, const struct mover_after *other)
{
    for (int q = 0; q < MOVER_QUEUES; q++)
        after->queue[q] = MAX(after->queue[q], other->queue[q]);
}

#endif
