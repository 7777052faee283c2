/* From gaps that are kept to a schedule: when each chunk comes, goes, and is copied back.
 *
 * A stay is a chunk's time on the device between two departures. It leaves as soon as its last use
 * is over, what is dirty is copied back as soon as it was last written, and what must be fetched is
 * fetched ahead of its use (planner/schedule/fetches.h). None of this changes what moves. */
#ifndef PSTAR_PLANNER_SCHEDULE_STAYS_H
#define PSTAR_PLANNER_SCHEDULE_STAYS_H

#include "chunks/decide.h"
#include "planner/schedule/keep.h"
#include "planner/schedule/pace.h"

#define STAY_NEVER INT32_MIN

/* Moments are counted from the start of the iteration; below 0: in the one before, moment_count and
 * more: in the next. It holds its room at the moments [enter, leave). */
struct stay {
    uint32_t chunk;
    int32_t enter;     /* fetched or allocated before this moment's operator */
    int32_t first_use; /* >= enter */
    int32_t last_use;
    int32_t leave;   /* leaves before this moment's operator, or at the end of the iteration */
    int32_t gone;    /* >= leave: when its copy back is over, as far as a pace knows */
    int32_t ready;   /* the earliest `enter`: its last stay is over, the host has written it */
    int32_t flush;   /* copied back before this moment, ahead of leaving; STAY_NEVER */
    bool fetch;      /* else: allocated */
    bool write_back; /* dirty when it leaves, and not flushed before */
};

struct stays {
    const struct gaps *gaps;
    GArray *items;      /* struct stay, by first use */
    GArray *flushes;    /* struct stays_flush: for host operators that read what stays */
    uint8_t *permanent; /* [chunk_count] nonzero: never leaves; has no stay */
};

struct stays_flush {
    uint32_t chunk, moment;
};

struct stays_options {
    uint32_t look_ahead; /* moments before its use that a fetch is issued at most */
    bool flush_early;    /* copy back as soon as last written, not when leaving */

    const struct pace *pace;    /* NULL: fetches know moments only */
    uint64_t margin_ns;         /* with a pace: before it must, that a fetch begins at most */
    const uint64_t *copy_ns[2]; /* H2D, D2H: [chunk_count]; with a pace */
};

struct stays *stays_new(const struct keep *keep, const struct stays_options *options);
void stays_free(struct stays *stays);

/* The schedule's actions, without addresses. */
struct decisions *stays_decisions(const struct stays *stays, const struct homes *homes);

/* A moment of a stay, as the iteration counts it. */
uint32_t stays_moment(const struct stays *stays, int32_t moment);

/* Moments before its use that a fetch is issued, at most. */
uint32_t stays_look_ahead(const struct stays *stays);

/* Whether it is on the device between two iterations. */
bool stays_begins(const struct stays *stays, const struct stay *stay);

#endif
