/* A candidate: one layout with its optimizer placed, and the plans that are made for it. */
#ifndef PSTAR_PLANNER_SEARCH_CANDIDATE_H
#define PSTAR_PLANNER_SEARCH_CANDIDATE_H

#include "chunks/plan.h"
#include "planner/schedule/intervals.h"
#include "planner/schedule/placement.h"
#include "planner/schedule/retention.h"
#include "planner/search/objective.h"
#include "sim/costs.h"
#include "sim/network_times.h"
#include "sim/replay.h"

/* The data that all candidates of a search share. */
struct candidate_job {
    const struct trace *trace;
    const struct non_model *non_model;
    const struct costs *costs;
    const struct platform
        *platform;      /* for updates that are placed on the other side; may be NULL */
    const char *digest; /* the plans' digest, so that only the best plan's trace is hashed; NULL for
                           the digest of their trace */
    uint64_t device_budget; /* of the arena */
    uint64_t host_budget;   /* budget */
    bool unclipped;         /* as in struct search_options */
};

struct candidate {
    const struct candidate_job *job;
    struct layout *layout;
    struct trace *placed;      /* NULL if updates stay where they were traced */
    const struct trace *trace; /* of the plans: `placed`, or the job's */
    struct accesses *accesses;
    struct homes *homes; /* with the fewest chunks that must live on the device */
    struct network_times *network;
    uint64_t cut_from_bytes; /* of its plans */
    struct reuses *reuses;
    struct retention *retention;
};

/* Returns NULL if the layout does not fit; the error says what would. *needed receives the device
 * memory that would fit, UINT64_MAX if host memory is what lacks. `job` outlives the result. */
struct candidate *candidate_new(const struct candidate_job *job, const struct layout_spec *spec,
                                const struct placement *placement, uint64_t *needed,
                                GError **error);
void candidate_free(struct candidate *candidate);

/* Calls retention_choose. If the host is too small for all chunks, it first chooses as if it were
 * not, and finds from that which chunks stay (schedule/stays.h), unless those that are used most
 * for their size, as in candidate->homes, move less. */
void candidate_choose(struct candidate *candidate, const struct retention_bias *bias);

/* Returns the replayed plan of what is retained. Chunks that never leave live on the device.
 * `times` (may be NULL) receives its moment times, which the caller frees. Copy times come from the
 * candidate, not from the options. */
struct plan *candidate_plan(const struct candidate *candidate,
                            const struct interval_options *options, struct moment_times **times);

/* Like candidate_plan, but returns NULL if no addresses are found by which nothing moves within the
 * device. */
struct plan *candidate_plan_still(const struct candidate *candidate,
                                  const struct interval_options *options,
                                  struct moment_times **times);

/* How a schedule is made. Which way is better differs. */
struct walk_options {
    uint64_t slack_bytes; /* that fetches ahead leave free */
    bool leaves_late; /* chunks that wait for the link beyond the end of the iteration keep their
                         addresses as long as the schedule says; otherwise they leave after their
                         last uses, so that others may have their addresses, but may wait there */
    bool as_wholes;   /* the schedule does not rely on chunks that follow each other in parts, since
                         addresses may not allow it */
};

/* Returns a schedule by dispatch() of what is retained. Its period is the duration of an iteration
 * if addresses cause no waits. Free it with intervals_free. */
struct intervals *candidate_dispatch(const struct candidate *candidate,
                                     const struct walk_options *options);

/* How the schedule's chunks get addresses. Chunks share an address by its moments or by its times,
 * and are fetched later where there is no address for all of the time; if there are none at all,
 * chunks move within the device. Or chunks are fetched when they should be, and move. Which is best
 * differs. */
enum dispatch_addresses { ADDRESSES_BY_MOMENT, ADDRESSES_BY_TIME, ADDRESSES_MOVING };

/* Returns the replayed plan of that schedule, with `times` as above; NULL if no addresses are found
 * without moves, and chunks may not move. */
struct plan *candidate_plan_dispatched(const struct candidate *candidate,
                                       const struct intervals *dispatched,
                                       enum dispatch_addresses addresses,
                                       struct moment_times **times);

/* Returns a lower bound of the objective for any schedule of what is retained (busy_lower_bound),
 * much faster than a schedule. The search skips candidates whose bound is poor. */
double candidate_lower_bound(const struct candidate *candidate, enum objective objective);

#endif
