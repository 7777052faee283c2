/* Virtual time of a link whose directions slow each other: a copy goes on at the rate that was
 * measured while both directions copy for as long as both do, and at its own rate otherwise. The
 * queues are those of sim/clock.h, each in order.
 *
 * When a copy ends thus depends on copies that are queued after it, in the other direction. So it
 * has no end before the device waits for it: by then every copy that may begin before that end is
 * queued, because copies are bound to moments and never begin before the device's work that
 * precedes them. A ticket is the number of a piece of work in its queue, from 1; one of the device,
 * a time. Everything begins and ends at whole nanoseconds. */
#ifndef PSTAR_SIM_DUPLEX_H
#define PSTAR_SIM_DUPLEX_H

#include "chunks/residency/mover.h"
#include "sim/cores.h"
#include "sim/timeline.h"

struct duplex;

/* Work gets its times in the spans of `timeline`, if there is one: one was noted for each piece of
 * work, in the order of its queue. */
struct duplex *duplex_new(struct timeline *timeline);
void duplex_free(struct duplex *duplex);

/* Queues a copy, for after the device's work so far and `after`. */
mover_ticket duplex_copy(struct duplex *duplex, enum mover_queue queue,
                         const struct costs_copy *time, const struct mover_after *after);
/* Queues an operator of the host, likewise; 0: a place in the queue. */
mover_ticket duplex_run_on_host(struct duplex *duplex, uint64_t duration_ns,
                                const struct mover_after *after);
/* Waits, then computes: an operator, or a move. */
struct cores_wait duplex_compute(struct duplex *duplex, uint64_t duration_ns,
                                 const struct mover_after *after);

/* When the last of the device's and the host's operators so far is complete, if no more is queued;
 * spans that are open get the times that they would have then. */
uint64_t duplex_end_ns(const struct duplex *duplex);

#endif
