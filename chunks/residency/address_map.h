/* Records which work must be complete before a range of the device's addresses may be written
 * again. */
#ifndef PSTAR_CHUNKS_RESIDENCY_ADDRESS_MAP_H
#define PSTAR_CHUNKS_RESIDENCY_ADDRESS_MAP_H

#include "chunks/residency/mover.h"

#include <glib.h>

struct address_map;

struct address_map *address_map_new(void);
void address_map_free(struct address_map *map);

/* Frees [begin, end) as soon as `after` is complete. The range must not be in the map. */
void address_map_release(struct address_map *map, uint64_t begin, uint64_t end,
                         const struct mover_after *after);
/* Takes [begin, end), and adds to `after` what the new owner must wait for. */
void address_map_take(struct address_map *map, uint64_t begin, uint64_t end,
                      struct mover_after *after);

/* Takes the later ticket of each queue. */
static inline void mover_after_merge(struct mover_after *after, const struct mover_after *other)
{
    for (int q = 0; q < MOVER_QUEUES; q++)
        after->queue[q] = MAX(after->queue[q], other->queue[q]);
}

#endif
