/* Virtual time of a device that is threads of a machine (struct costs_threads): one computes, one a
 * direction copies over a link, one runs the host's operators. Unlike independent queues, they
 * share: copies and the host's operators the host's cores, in equal parts where all want more than
 * there is; copies slow the operators that run beside them; and who waits wakes late.
 *
 * A ticket is the number of a piece of work in its queue, from 1, as in the engine. Only the
 * computing thread's functions take time, and they let everything that was queued go on. */
#ifndef PSTAR_SIM_CORES_H
#define PSTAR_SIM_CORES_H

#include "chunks/residency/mover.h"
#include "sim/costs.h"
#include "sim/timeline.h"

struct cores;

/* `threads` outlives the result; spans go into `timeline`, if there is one. */
struct cores *cores_new(const struct costs_threads *threads, struct timeline *timeline);
void cores_free(struct cores *cores);

/* The computing thread queues a copy that takes `link_ns` over the link. */
mover_ticket cores_copy(struct cores *cores, enum mover_queue queue, uint64_t bytes,
                        uint64_t link_ns, const struct mover_after *after);
/* The computing thread queues an operator of the host; 0: a place in the queue. */
mover_ticket cores_run_on_host(struct cores *cores, uint64_t duration_ns,
                               const struct mover_after *after);
/* Waits, then computes: an operator, or a move. `slow_down` [platform_neighbour]: share of time
 * that each neighbour adds to it. Returns how long it waited. */
struct cores_wait {
    mover_ticket ticket;
    uint64_t start_ns, end_ns, waited_ns;
    enum mover_queue queue; /* whose completion was waited for last */
};
struct cores_wait cores_compute(struct cores *cores, uint64_t duration_ns,
                                const double slow_down[3], const struct mover_after *after);

/* Where the computing thread is. */
uint64_t cores_now_ns(const struct cores *cores);

#endif
