/* The simulator's mover. It moves no bytes, but gives every piece of work a time.
 *
 * Resources are queues, each in order (MOVER_QUEUES). Work starts when its queue is free and what
 * it waits for is complete. Copies and host operators are bound to their moment, not to an idle
 * link: they do not start before the device's work of the moments before. An operator takes its
 * duration in the trace, and a copy takes the time of its fitted curve. One of three instances of
 * struct timing_ops (timing.h) decides all other costs.
 *
 * A host operator takes its activations over the link before and after it. It begins in the D2H
 * queue, runs in the host's queue, and ends at a place in the host's queue that is reached when the
 * H2D queue has brought its results.
 *
 * What an operator exchanges with other ranks is work of the network's queue, if the costs know how
 * ranks exchange. The device waits for it before it computes; the host's queue goes on behind it.
 * Ranks do the same at the same time, so one of them is replayed.
 *
 * Of a stage of a pipeline, an operator that sends waits for what the network's queue has before,
 * and one that receives waits until its message is there, which the caller says
 * (sim_clock_expect).
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

/* The plan that a clock times, with its inputs. */
struct sim_job {
    const struct trace *trace; /* durations and places of the operators */
    const struct plan *plan;   /* its layout, host pool, and the chunks at home on the device, which
                                  occupy their addresses from the beginning */
    const uint64_t *non_model; /* [moments] extent of what each takes beside the chunks */
    const struct costs *costs;
    struct timeline *timeline; /* receives spans and stalls; may be NULL */
    uint64_t *issue_ns; /* [moments] receives when the device had done all work before the moment's
                           operator, in the last iteration; may be NULL */
};

/* Copies `job`; what it points to must outlive the clock. */
struct sim_clock *sim_clock_new(const struct sim_job *job);
void sim_clock_free(struct sim_clock *clock);

/* `self` is the struct sim_clock. */
extern const struct mover_ops sim_clock_mover;

/* Of a stage of a pipeline, before its next operator: what it receives, or shows the other stages,
 * is there at this time, and the device waits for it. */
void sim_clock_expect(struct sim_clock *clock, uint64_t arrival_ns);

/* Returns when the device has done all work so far. */
uint64_t sim_clock_now(const struct sim_clock *clock);
/* Lets the device wait for what ranks have exchanged so far. Returns its time then. */
uint64_t sim_clock_await_exchanges(struct sim_clock *clock);

/* Ends a lap and returns its figures. A lap begins with the previous call of this function, or with
 * the clock. Peaks are over the operators of the lap, and iteration_seconds lasts to the end of the
 * last operator. In stall_seconds the device computed nothing and waited for copies or the host. */
struct plan_figures sim_clock_lap(struct sim_clock *clock);

/* Returns the work of the busiest queue in the last lap. A lap may be shorter while other queues
 * lag further behind, but not in the long run. Returns 0 unless queues are independent. */
uint64_t sim_clock_busiest_ns(const struct sim_clock *clock);

/* Lets the device wait for all copies so far. Does nothing unless queues are independent. */
void sim_clock_await_copies(struct sim_clock *clock);

/* Must be called after the calls of each moment. Returns whether the clock's state equals its state
 * after the same moment of the previous lap, shifted in time. The same calls then take the same
 * time. Returns false if this is unknown, because threads or directions share a resource. */
bool sim_clock_follows(struct sim_clock *clock);

/* Replaces the rest of a lap that repeats the previous one (see sim_clock_follows). Returns the
 * figures of the whole lap, which every later lap would have too. Must be the last call. */
struct plan_figures sim_clock_finish(const struct sim_clock *clock);

#endif
