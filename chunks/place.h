/* Gives addresses on the device to what was decided.
 *
 * A chunk takes the free range that fits it best, below the moment's non-model data. A chunk in
 * the way of growing non-model data moves aside, within the device. If the free bytes are
 * scattered, chunks slide together. So whatever fits by the sum of its bytes gets an address. At
 * the end of the iteration every chunk is back where it began. */
#ifndef PSTAR_CHUNKS_PLACE_H
#define PSTAR_CHUNKS_PLACE_H

#include "chunks/decide.h"

/* The number of rounds that are tried to find addresses with fewer moves. A second round seldom
 * gains much, and takes as long as the first. */
enum place_effort {
    PLACE_QUICKLY, /* one round, and another if moves take more than a tenth of the copies' time */
    PLACE_WELL     /* six rounds, or fewer if moves take less than a thousandth */
};

/* A schedule with addresses, as a plan holds it (chunks/plan.h). */
struct addresses {
    uint64_t arena_bytes;
    uint64_t
        *initial; /* [chunk_count] at the start of every iteration; NO_ADDRESS if it is not there */
    uint32_t moment_count, action_count;
    uint32_t *first_action;                             /* [moment_count + 2] into actions */
    struct plan_action *actions;                        /* [action_count] */
    uint64_t peak_device_bytes, peak_live_device_bytes; /* see struct plan_figures */
};

/* Returns the decisions with addresses, and with the moves that these take. The caller frees the
 * result. */
struct addresses *place_decisions(const struct decisions *decisions,
                                  const struct plan_inputs *inputs, enum place_effort effort);
void addresses_free(struct addresses *addresses);

#endif
