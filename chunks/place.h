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

/* Fills the plan's initial_address, first_action, actions, action_count and device_bytes, and the
 * predicted peaks of the device. */
void place_decisions(const struct decisions *decisions, const struct layout *layout,
                     const struct accesses *accesses, const struct homes *homes,
                     const struct trace *trace, uint64_t device_budget, enum place_effort effort,
                     struct plan *plan);

#endif
