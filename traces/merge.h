/* Merges the traces of all ranks of a run into that of one rank, and says who waited for whom. */
#ifndef PSTAR_TRACES_MERGE_H
#define PSTAR_TRACES_MERGE_H

#include "traces/gathers.h"
#include "traces/trace.h"

/* How long a rank took. An exchange ends when the last rank has come to it, so the rank that came
 * last takes the least for it; what another takes beyond that, it waits. */
struct merge_rank {
    uint64_t computing_ns;  /* operators that exchange nothing */
    uint64_t exchanging_ns; /* the others, and gathers, without the waiting */
    uint64_t waiting_ns;    /* in them, for the last rank */
    uint32_t last;          /* exchanges that the others waited for it */
};

struct merge {
    struct trace *trace;     /* as the first, with durations of all */
    uint32_t count;          /* of ranks */
    struct merge_rank *rank; /* [count] in the order of the traces */
    uint32_t exchanges;      /* of an iteration: operators that exchange something, and gathers */
    uint32_t gathers;        /* among them */
    uint64_t received_bytes; /* in exchanges, by the rank that receives the most */
    uint64_t network_ns;     /* exchanges, without the waiting */
};

/* Merges traces of the same structure, one of each rank; `paths` are for messages. An operator that
 * exchanges something gets the least duration of all ranks, which has no waiting in it; any other
 * gets the median or, if `slowest`, the greatest. A duration that some rank lacks is unknown. Of
 * exchanged bytes, the first rank's count: its shards are the longest. `gathers` are [count], of
 * the recordings; if one is NULL or has another number of gathers, none count. Fails
 * (TRACE_ERROR_INVALID) if structures differ, or if the traces are not as many as the run's ranks.
 * Free with merge_free.
 */
struct merge *merge_traces(struct trace *const *traces, struct gathers *const *gathers,
                           char *const *paths, uint32_t count, bool slowest, GError **error);
void merge_free(struct merge *merge); /* NULL is allowed */

#endif
