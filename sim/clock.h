/* The simulator's mover: nothing moves, but every piece of work has a time.
 *
 * Resources are queues, each in order (MOVER_QUEUES). Work starts when its queue is free and what
 * it waits for is complete. Copies and host operators are bound to their moment, not to an idle
 * link: they do not start before the device's work of the moments before. An operator takes the
 * time that the trace has for it, a copy what its fitted curve says; what else work costs is
 * decided by one of three instances of struct timing_ops (timing.h).
 *
 * A host operator takes its activations over the link before and after it. It begins in the D2H
 * queue, runs in the host's queue, and ends at a place in the host's queue that is reached when the
 * H2D queue has brought its results.
 *
 * Figures are counted here, at each call of the mover. They do not depend on what the residency
 * manager decided, nor on times. */
#ifndef PSTAR_SIM_CLOCK_H
#define PSTAR_SIM_CLOCK_H

#include "chunks/plan.h"
#include "chunks/residency/mover.h"
#include "sim/costs.h"
#include "sim/timeline.h"

struct sim_clock;

/* What a clock needs to know about the plan that it times. */
struct sim_job {
    const struct trace *trace; /* durations and places of the operators */
    const struct plan *plan;   /* its layout, host pool, and the chunks at home on the device, which
                                  occupy their addresses from the beginning */
    const uint64_t *non_model; /* [moments] extent of what each takes beside the chunks */
    const struct costs *costs;
    struct timeline *timeline; /* receives spans and stalls; may be NULL */
    uint64_t *issue_ns;        /* [moments] receives when the device had done all that is before
                                  the moment's operator, when that last ran; may be NULL */
};

/* Copies `job`; what it points to must outlive the clock. */
struct sim_clock *sim_clock_new(const struct sim_job *job);
void sim_clock_free(struct sim_clock *clock);

/* `self` is the struct sim_clock. */
extern const struct mover_ops sim_clock_mover;

/* The figures of what was called since the last call of this function, or since the beginning:
 * peaks over the operators that ran, iteration_seconds to the end of the last of them, and
 * stall_seconds, for which the device had nothing to compute but waited for copies or the host. */
struct plan_figures sim_clock_lap(struct sim_clock *clock);

/* Returns the work of the busiest queue in the last lap. A lap may be shorter while other queues
 * lag further behind, but not in the long run. Returns 0 unless queues are independent. */
uint64_t sim_clock_busiest_ns(const struct sim_clock *clock);

/* Lets the device wait for all copies so far. Does nothing unless queues are independent. */
void sim_clock_await_copies(struct sim_clock *clock);

/* After each moment's calls: whether the clock is as it was after that moment's of the lap before,
 * but for the time that has passed: if the same calls follow, they take the same. False also where
 * nobody knows: where threads or directions share. */
bool sim_clock_follows(struct sim_clock *clock);

/* Instead of the rest of a lap that follows the one before: the figures of the whole, which the
 * next will have too. The last call. */
struct plan_figures sim_clock_finish(const struct sim_clock *clock);

#endif
