/* Where on the device each chunk lies: addresses for what was decided.
 *
 * Chunks take the lowest free address below the moment's non-model data. One that lies where
 * non-model data will be moves aside, within the device; where room is scattered, chunks slide
 * down. So whatever fits by the sum of its bytes finds its addresses. The iteration ends with every
 * chunk where it began. */
#ifndef PSTAR_CHUNKS_PLACE_H
#define PSTAR_CHUNKS_PLACE_H

#include "chunks/decide.h"

/* How much is tried for fewer moves. A second round of the iteration finds little that the first
 * did not, and takes as long. */
enum place_effort {
    PLACE_QUICKLY, /* one round, another where moves take a tenth of the copies' time */
    PLACE_WELL     /* six rounds, fewer where moves take a thousandth */
};

/* A schedule with addresses, as a plan holds it (chunks/plan.h). */
struct addresses {
    uint64_t arena_bytes;
    uint64_t *initial; /* [chunk_count] at the start of every iteration; NO_ADDRESS */
    uint32_t moment_count, action_count;
    uint32_t *first_action;                             /* [moment_count + 2] into actions */
    struct plan_action *actions;                        /* [action_count] */
    uint64_t peak_device_bytes, peak_live_device_bytes; /* see struct plan_figures */
};

/* Gives the decisions addresses. */
struct addresses *place_decisions(const struct decisions *decisions,
                                  const struct plan_inputs *inputs, enum place_effort effort);
void addresses_free(struct addresses *addresses);

#endif
