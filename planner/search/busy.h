/* Lower bounds of what a schedule achieves, from the work of each resource, much faster than a
 * schedule. The search skips what they show to be poor. */
#ifndef PSTAR_PLANNER_SEARCH_BUSY_H
#define PSTAR_PLANNER_SEARCH_BUSY_H

#include "planner/search/objective.h"
#include "sim/replay.h"

/* The time that an iteration keeps each resource busy. */
struct busy_times {
    uint64_t device_ns, host_ns, h2d_ns, d2h_ns;
    uint64_t network_ns;  /* of exchanges, reductions and gathers */
    uint64_t backward_ns; /* on the device, and on the host between two backwards */
    uint64_t link_bytes;  /* in both directions */
};

/* Counts the operators, with the activations that those of the host send over the link. */
struct busy_times busy_count(const struct replay_view *view);

/* Adds copies of `bytes` over the link. */
void busy_add(struct busy_times *busy, const struct costs *costs, enum mover_queue queue,
              uint64_t bytes, uint32_t copies);

/* Returns a lower bound of the objective for any schedule with this work. The time is at least each
 * of these: the device's operators; the copies in either direction; what ranks exchange; the host's
 * operators; backward with the host's operators that follow it and whose results the next forward
 * uses. */
double busy_lower_bound(const struct busy_times *busy, enum objective objective);

/* The actions of a plan, or of decisions. */
struct busy_actions {
    const struct layout *layout;
    const struct plan_action *actions;
    const uint32_t *first; /* [moment_count + 2] into actions */
    uint32_t look_ahead;
};

/* Returns such a bound for a policy's plan or decisions. Without look-ahead the device also
 * computes nothing while it fetches the chunks of an operator. */
double busy_policy_lower_bound(const struct replay_view *view, const struct busy_actions *actions,
                               enum objective objective);

#endif
