/* From gaps that are kept to a schedule: when each chunk comes, goes, and is copied back.
 *
 * A stay is a chunk's time on the device between two departures. It leaves as soon as its last use
 * is over, what is dirty is copied back as soon as it was last written, and what must be fetched is
 * fetched ahead of its use (planner/schedule/intervals.h). None of this changes what moves. */
#ifndef PSTAR_PLANNER_SCHEDULE_INTERVALS_H
#define PSTAR_PLANNER_SCHEDULE_INTERVALS_H

#include "chunks/decide.h"
#include "planner/schedule/moment_times.h"
#include "planner/schedule/retention.h"

#define INTERVAL_NEVER INT32_MIN

/* Moments are counted from the start of the iteration; below 0: in the one before, moment_count and
 * more: in the next. It holds its room at the moments [enter, leave). */
struct interval {
    uint32_t chunk;
    int32_t enter;     /* fetched or allocated before this moment's operator */
    int32_t first_use; /* >= enter */
    int32_t last_use;
    int32_t leave;   /* leaves before this moment's operator, or at the end of the iteration */
    int32_t vacated; /* >= leave: when its copy back is over, as far as a pace knows */
    int32_t ready;   /* the earliest `enter`: its last stay is over, the host has written it */
    int32_t flush;   /* copied back before this moment, ahead of leaving; STAY_NEVER */
    bool fetch;      /* else: allocated */
    bool write_back; /* dirty when it leaves, and not flushed before */
};

struct intervals {
    const struct reuses *reuses;
    GArray *items;      /* struct stay, by first use */
    GArray *flushes;    /* struct stays_flush: for host operators that read what stays */
    uint8_t *permanent; /* [chunk_count] nonzero: never leaves; has no stay */
};

struct interval_flush {
    uint32_t chunk, moment;
};

struct interval_options {
    uint32_t look_ahead; /* moments before its use that a fetch is issued at most */
    bool flush_early;    /* copy back as soon as last written, not when leaving */

    const struct moment_times *times; /* NULL: fetches know moments only */
    uint64_t margin_ns;               /* with a pace: before it must, that a fetch begins at most */
    const uint64_t *copy_ns[2];       /* H2D, D2H: [chunk_count]; with a pace */
};

struct intervals *intervals_new(const struct retention *retention,
                                const struct interval_options *options);
void intervals_free(struct intervals *intervals);

/* The schedule's actions, without addresses. */
struct decisions *intervals_decisions(const struct intervals *intervals, const struct homes *homes);

/* A moment of a stay, as the iteration counts it. */
uint32_t intervals_moment(const struct intervals *intervals, int32_t moment);

/* Moments before its use that a fetch is issued, at most. */
uint32_t intervals_look_ahead(const struct intervals *intervals);

/* Whether it is on the device between two iterations. */
bool intervals_is_initial(const struct intervals *intervals, const struct interval *interval);

#endif
