/* Turns retention into a schedule: when each chunk arrives, leaves and is written back.
 *
 * A residency interval is the time that a chunk spends on the device between two departures. Copies
 * are scheduled in one of two ways. By the moment times of an earlier replay: a chunk leaves as
 * soon as its last use is over, dirty bytes are written back as soon as they were last written, and
 * fetches are issued ahead of the first use (prefetch.h). Or by dispatch.h, where write-backs may
 * also wait for more urgent ones. None of this changes which bytes move. */
#ifndef PSTAR_PLANNER_SCHEDULE_INTERVALS_H
#define PSTAR_PLANNER_SCHEDULE_INTERVALS_H

#include "chunks/decide.h"
#include "chunks/place.h"
#include "planner/schedule/moment_times.h"
#include "planner/schedule/retention.h"

#define INTERVAL_NEVER INT32_MIN

/* Moments count from the start of the iteration. Negative ones lie in the previous iteration, those
 * from moment_count on in the next. The chunk occupies its slot at the moments [enter, leave). */
struct interval {
    chunk_id chunk;
    int32_t enter;     /* fetched or allocated before this moment's operator */
    int32_t first_use; /* >= enter */
    int32_t last_use;
    int32_t leave;   /* evicted before this moment's operator, or at the end of the iteration */
    int32_t vacated; /* >= leave: when the write-back is over, as far as the moment times tell */
    int32_t arrived; /* <= first_use: when the fetch is over, as far as the moment times tell */
    int32_t ready; /* the earliest `enter`: the previous interval is over, and the host has written
                      the chunk */
    int32_t flush; /* written back before this moment, ahead of leaving; or INTERVAL_NEVER */
    int32_t release;   /* the earliest moment of its write-back: what it writes is written */
    int32_t deadline;  /* the moment that wants what it writes: on the host, or its next use */
    int32_t turn;      /* orders the write-backs of a moment */
    int64_t begin_ns;  /* when its slot is first written, from the iteration's start */
    int64_t lasts_ns;  /* from then until the end of the last use or write-back */
    int64_t follow_ns; /* how long the parts of its fetch take besides the first */
    int64_t lead_ns;   /* how long the parts of its write-back take besides the first: a chunk that
                          comes in parts may follow them */
    bool fetch;        /* otherwise allocated without a copy */
    bool write_back;   /* dirty when it leaves, and not flushed before */
};

struct intervals {
    const struct reuses *reuses;
    uint64_t period_ns; /* in which begin_ns lies; 0 if begin_ns and lasts_ns are unknown */
    bool follows;       /* of dispatch(): a copy begins before all parts of another have left */
    bool waits;         /* of dispatch(): write-backs come in the next iteration, so that
                           `leaves_late` makes another schedule */
    GArray *items;      /* struct interval, by first use */
    GArray *flushes;    /* struct interval_flush: for host operators that read resident chunks */
    uint8_t
        *permanent; /* [chunk_count] nonzero for chunks that never leave; they have no interval */
};

struct interval_flush {
    uint32_t chunk, moment;
};

struct interval_options {
    uint32_t look_ahead; /* moments that a fetch is issued ahead of its use, at most */
    bool flush_early;    /* write back right after the last write, instead of when leaving */

    const struct moment_times *times; /* may be NULL: prefetches then know moments, not times */
    uint64_t margin_ns; /* with times: how long before its latest start a fetch may be issued */
    const uint64_t *copy_ns[2]; /* H2D and D2H: [chunk_count]; with times */
    const uint64_t *gather_ns;  /* [chunk_count] of gathered chunks; with times */
};

struct dispatch_job;

/* Return a schedule by moment times, and one by dispatch(). Both reach into `retention`, which
 * outlives them. Free them with intervals_free. */
struct intervals *intervals_new(const struct retention *retention,
                                const struct interval_options *options);
struct intervals *intervals_new_dispatched(const struct retention *retention,
                                           const struct dispatch_job *job);
struct intervals *intervals_copy(const struct intervals *intervals);
void intervals_free(struct intervals *intervals);

/* Returns the actions of the schedule, without addresses. */
struct decisions *intervals_decisions(const struct intervals *intervals, const struct homes *homes);

/* Wraps a moment of an interval into the iteration. */
uint32_t intervals_moment(const struct intervals *intervals, int32_t moment);

/* Returns the largest number of moments that a fetch is issued ahead of its use. */
uint32_t intervals_look_ahead(const struct intervals *intervals);

/* Returns whether the chunk is on the device between two iterations. */
bool intervals_is_initial(const struct intervals *intervals, const struct interval *interval);

/* ---- addresses: one for each residency interval, so that no chunk moves within the device ---- */

struct offsets;

/* Places every interval below the non-model data of all its moments. Chunks that never leave lie at
 * the bottom. If the schedule knows its times, a chunk comes to an address, if possible, after the
 * write-back of the chunk before it there, and otherwise soon before. An interval that finds no
 * room for its whole prefetch is fetched later, and its `enter` changes. Returns NULL if no such
 * addresses are found, although there may be some. The arguments outlive the result; free it with
 * offsets_free. */
struct offsets *offsets_find(const struct intervals *intervals, const struct homes *homes,
                             const struct accesses *accesses, uint64_t device_budget);
void offsets_free(struct offsets *offsets);

/* Returns the schedule with these addresses. `decisions` are made from the intervals after
 * offsets_find. Peaks are left 0. */
struct addresses *offsets_addresses(const struct offsets *offsets,
                                    const struct decisions *decisions);

#endif
