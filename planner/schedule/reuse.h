/* One iteration of one layout as gaps. Between two consecutive uses on the device a chunk either
 * stays, and takes room at the moments in between, or leaves, and pays for copies. Which gaps are
 * kept decides the traffic of the iteration, exactly; when the copies are issued does not. */
#ifndef PSTAR_PLANNER_SCHEDULE_REUSE_H
#define PSTAR_PLANNER_SCHEDULE_REUSE_H

#include "chunks/accesses.h"
#include "chunks/homes.h"

enum {
    REUSE_DIRTIES = 1, /* the use before it writes the chunk */
    REUSE_DEAD = 2,    /* nothing is alive in the chunk after the use before it */
    REUSE_REFETCH = 4, /* the use after it needs the old bytes: a fetch, if the chunk has left */
    REUSE_FLUSH = 8, /* a host operator uses the chunk in it: the host's bytes must be valid then */
    REUSE_LEAVES = 16, /* a host operator writes the chunk in it: it cannot stay */
};

struct reuse {
    uint32_t chunk;
    uint32_t from, to;   /* moments of the uses before and after, cyclic: it takes room at the
                            moments strictly between; equal: the chunk's only use */
    uint32_t host_first; /* moments of the first and last host operator in it; with GAP_FLUSH */
    uint32_t host_last;
    uint32_t flags;
};

struct reuses {
    uint32_t moment_count, chunk_count, count;
    uint32_t *first;     /* [chunk_count + 1] into items; none for chunks that live on the device */
    struct reuse *items; /* [count] by chunk, then by `from`; the last of a chunk wraps round */
    uint64_t *slot_bytes; /* [chunk_count] its slot */
    uint64_t *copy_bytes; /* [chunk_count] what a copy moves */
    int64_t *room; /* [moment_count] the budget less non-model data, the operator's chunks, and
                      those that live on the device; negative where the moment cannot fit */
    uint64_t activation_bytes; /* over the link for host operators, whatever is kept */
};

struct reuses *reuses_new(const struct trace *trace, const struct layout *layout,
                          const struct accesses *accesses, const struct homes *homes,
                          uint64_t device_budget);
void reuses_free(struct reuses *reuses);

/* Moments at which keeping the gap takes room. */
uint32_t reuse_span(const struct reuses *reuses, const struct reuse *reuse);

/* Whether keeping it can save anything, and is allowed. */
bool reuse_can_retain(const struct reuse *reuse);

struct reuse_copies {
    uint32_t fetches, writes;
};

/* Copies of the chunk over the link in an iteration; `keep` [count] is nonzero for the gaps that
 * are kept. */
struct reuse_copies reuses_chunk_copies(const struct reuses *reuses, uint32_t chunk,
                                        const uint8_t *retained);

/* Bytes that they move. */
uint64_t reuses_chunk_traffic(const struct reuses *reuses, uint32_t chunk, const uint8_t *retained);

/* Bytes that keeping gap `g` saves beside the others that are kept; keep[g] is not looked at. */
uint64_t reuses_saved(const struct reuses *reuses, uint32_t g, const uint8_t *retained);

/* The whole iteration's, activations of host operators included. */
uint64_t reuses_traffic(const struct reuses *reuses, const uint8_t *retained);

/* The gap of `chunk` into which an action before the operator of `moment` falls (moment_count:
 * after the last); the chunk must have gaps. */
uint32_t reuses_find(const struct reuses *reuses, uint32_t chunk, uint32_t moment);

#endif
