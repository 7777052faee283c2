/* Who occupies the simulated device, and up to where. */
#ifndef PSTAR_SIM_OCCUPANCY_H
#define PSTAR_SIM_OCCUPANCY_H

#include "chunks/residency/mover.h"

struct occupancy {
    uint32_t chunk_count;
    uint64_t *end; /* [chunk_count] address after its last byte on the device; 0: not there */
    uint64_t *slot_bytes;    /* [chunk_count] of those there */
    uint64_t resident_bytes; /* sum of their slots */
    uint64_t highest_end;    /* of those there; while stale, not less than that */
    bool stale;              /* the highest chunk has left */
};

void occupancy_init(struct occupancy *occupancy, uint32_t chunk_count);
void occupancy_clear(struct occupancy *occupancy);

/* A chunk's slot is at the copy's device address from now on, wherever it was. */
void occupancy_enter(struct occupancy *occupancy, const struct mover_copy *copy);
void occupancy_leave(struct occupancy *occupancy, uint32_t chunk);

/* Address after the highest chunk's last byte: looks through all chunks where the highest has left.
 */
uint64_t occupancy_highest_end(struct occupancy *occupancy);
/* Not less than that, at once. */
uint64_t occupancy_most(const struct occupancy *occupancy);

#endif
