/* Models how time passes on the simulator's resources. The clock (clock.c) counts what moves and
 * asks an instance of struct timing_ops when it is done:
 *
 * - timing_queues: the resources are independent queues;
 * - timing_shared: the directions of the link slow each other, and the host's memory is shared;
 * - timing_cores: the device is threads of a machine, which share cores. */
#ifndef PSTAR_SIM_TIMING_H
#define PSTAR_SIM_TIMING_H

#include "sim/clock.h"

/* The resources of the clock, by enum mover_queue. Each is a queue, in order. */
struct timing_resource {
    const char *name; /* as people read it */
    bool is_link;     /* its work moves bytes: copies, or what ranks exchange */
};
extern const struct timing_resource timing_resources[MOVER_QUEUES];

/* Work on the device: an operator or a move. */
struct timing_work {
    uint64_t duration_ns; /* if nothing slows it */
    uint64_t bytes;       /* that it reads and writes in device memory */
    bool is_move;
};

/* When work on the device runs, and what it waited for. */
struct timing_wait {
    mover_ticket ticket;
    uint64_t start_ns, end_ns;
    uint64_t waited_ns;                     /* beyond the device's earlier work */
    enum mover_queue queue;                 /* whose work was waited for last */
    const struct timeline_span *waited_for; /* that work; NULL if unknown or without a timeline */
};

struct timing_lap {
    uint64_t end_ns;     /* of the last operator or move of the lap */
    uint64_t busiest_ns; /* work of the busiest queue in the lap, if nothing slows it */
};

/* A place in a lap: the device's time, and how long it has stalled in the lap. */
struct timing_mark {
    uint64_t now_ns, stall_ns;
};

/* Each instance defines what its tickets mean. If there is a timeline, the clock appends a span to
 * the queue before it calls copy or run_on_host. The instance sets the span's times as soon as it
 * knows them. */
struct timing_ops {
    /* Returns the `self` of the other functions. What `job` points to outlives it. */
    void *(*open)(const struct sim_job *job);
    void (*close)(void *self);

    /* Issues a copy, behind the device's work so far and `after`. */
    mover_ticket (*copy)(void *self, enum mover_queue queue, uint64_t bytes,
                         const struct costs_copy *time, const struct mover_after *after);
    /* Issues an operator of the host, which reads and writes these bytes there, behind the device's
     * work so far and `after`. With duration 0 it only marks a place in the host's queue. */
    mover_ticket (*run_on_host)(void *self, uint64_t duration_ns, uint64_t bytes,
                                const struct mover_after *after);
    /* Lets the device wait for `after`, and then work. */
    struct timing_wait (*compute)(void *self, const struct timing_work *work,
                                  const struct mover_after *after);

    /* Ends a lap, and begins the next. */
    struct timing_lap (*lap)(void *self);

    /* The next two are NULL where completion times are not known when work is issued. */

    /* Lets the device wait for all work so far. Returns its time then. */
    uint64_t (*await_all)(void *self);
    /* Called at the same moments of each lap, with the stall so far. Returns whether the work under
     * way equals the work at this moment of the previous lap, so that the same calls will take the
     * same time. *then is the mark of that earlier moment. */
    bool (*follows)(void *self, uint64_t stall_ns, struct timing_mark *then);
};

extern const struct timing_ops timing_queues, timing_shared, timing_cores;

#endif
