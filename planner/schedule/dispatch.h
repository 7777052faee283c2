/* Schedules copies by list scheduling. A walk through the iteration keeps the time of the device,
 * of both directions of the link, of the network and of the host. Whenever one of these ways is
 * about to be idle, it gets the most urgent copy that is ready and has room: of the fetches or
 * gathers the one that is used first, of the write-backs the one that the host, or the next fetch,
 * wants first.
 *
 * The walk takes addresses to be as free as bytes are, copies to have their full rate, and queues
 * to be independent. Under such a clock, and if addresses cause no waits, the replay of the plan
 * takes exactly as long. */
#ifndef PSTAR_PLANNER_SCHEDULE_DISPATCH_H
#define PSTAR_PLANNER_SCHEDULE_DISPATCH_H

#include "chunks/accesses.h"
#include "chunks/gathering.h"
#include "planner/schedule/intervals.h"

struct dispatch_job {
    const struct trace *trace;
    const struct accesses *accesses;
    const uint64_t *copy_ns[2];        /* H2D and D2H: [chunk_count] of all parts */
    uint64_t cut_from_bytes;           /* as in struct plan */
    const uint64_t *activations_ns[2]; /* H2D and D2H: [moment_count] copies of host operators */
    const struct gathering *gathering; /* NULL if nothing is gathered */
    const uint64_t *gather_ns;         /* [chunk_count] on the network */
    const uint64_t *shards_ns; /* [chunk_count] of a gather: copies of shards from the host */
    const uint64_t
        *exchange_ns;    /* [moment_count] what the operator exchanges, or reduces and adds */
    int64_t slack_bytes; /* that fetches ahead leave free, so that addresses are found */
    bool leaves_late; /* a chunk whose write-back comes in the next iteration leaves then, instead
                         of after its last use */
};

/* Decides for every interval when it is fetched (`enter`) and when it is written back (`flush` or
 * `leave`, and `turn`), and notes when it holds its slot. Decisions of different intervals may not
 * fit together, because the last laps of the walk may differ: see prefetch_fit. Returns the moment
 * times of the schedule; free them with moment_times_free. */
struct moment_times *dispatch(struct intervals *intervals, const struct retention *retention,
                              const struct dispatch_job *job);

#endif
