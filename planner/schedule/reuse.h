/* The reuse intervals of one iteration: for each chunk, the time between two consecutive uses on
 * the device. In each interval the chunk either stays and takes room at the moments in between, or
 * leaves and costs copies. The set of retained intervals determines the traffic of the iteration
 * exactly; when copies are issued does not. */
#ifndef PSTAR_PLANNER_SCHEDULE_REUSE_H
#define PSTAR_PLANNER_SCHEDULE_REUSE_H

#include "chunks/accesses.h"
#include "chunks/homes.h"

enum {
    REUSE_DIRTIES = 1, /* the use before the interval writes the chunk */
    REUSE_DEAD = 2,    /* nothing in the chunk is alive after the use before the interval */
    REUSE_REFETCH =
        4, /* the use after the interval needs the old bytes: a fetch, if the chunk has left */
    REUSE_FLUSH = 8, /* a host operator uses the chunk within the interval, and needs valid bytes on
                        the host */
    REUSE_LEAVES = 16, /* a host operator writes the chunk within the interval, so it cannot stay */
    REUSE_STAYS = 32   /* the host has no slot for the chunk, so it must stay */
};

struct reuse {
    chunk_id chunk;
    uint32_t from, to;   /* moments of the uses before and after, cyclic; the chunk takes room
                            strictly between them. Both are equal if it is the chunk's only use. */
    uint32_t host_first; /* moments of the first and last host operator in the interval; with
                            REUSE_FLUSH */
    uint32_t host_last;
    uint32_t flags;
    /* Found by reuses_find_writes: the last interval up to this one, around the iteration, before
     * which the chunk is written, if what is written is alive until this one and the host does not
     * need it; and the next interval behind this one, around to itself, before which the chunk is
     * written or dies, if the host does not need it until then. NO_INDEX if there is none. */
    uint32_t source, sink;
};

struct reuses {
    uint32_t moment_count, chunk_count, count;
    uint32_t *first; /* [chunk_count + 1] into items; chunks that live on the device have none */
    struct reuse
        *items; /* [count] by chunk, then by `from`; a chunk's last interval wraps around */
    uint64_t *slot_bytes; /* [chunk_count] */
    uint64_t *copy_bytes; /* [chunk_count] over the link; 0 if the chunk is gathered */
    uint64_t
        *worth;    /* [chunk_count] what retention takes a copy for: the chunk's bytes; if it is
                      gathered, and the network's time is known, what the link carries in that time */
    int64_t *room; /* [moment_count] the budget less non-model data, the operator's chunks and the
                      chunks that live on the device; negative if the moment cannot fit */
    uint64_t
        activation_bytes; /* bytes that host operators send over the link, whatever is retained */
};

/* `stays` [chunk_count] marks chunks that have no slot on the host; NULL: those that are transient
 * in `homes`. They stay, except gradients and activations while their bytes are dead. */
struct reuses *reuses_new(const struct trace *trace, const struct layout *layout,
                          const struct accesses *accesses, const struct homes *homes,
                          const uint8_t *stays, uint64_t device_budget);
void reuses_free(struct reuses *reuses);

/* Returns reuses without intervals, whose bytes and room the caller fills, and then `items`. */
struct reuses *reuses_begin(uint32_t chunk_count, uint32_t moment_count);

/* Finds the sources and sinks of the intervals from their flags, as reuses_new does. */
void reuses_find_writes(struct reuses *reuses);

/* Returns whether the chunk comes over the network. */
static inline bool reuses_is_gathered(const struct reuses *reuses, chunk_id chunk)
{
    return !reuses->copy_bytes[chunk];
}

/* Returns the number of moments at which retaining the interval takes room. */
uint32_t reuse_span(const struct reuses *reuses, const struct reuse *reuse);

/* Returns whether retaining the interval is a choice, and can save a copy: a fetch, or the
 * write-back of a shard that is only gathered before it is overwritten. */
bool reuse_can_retain(const struct reuse *reuse);

struct reuse_copies {
    uint32_t fetches, writes;
};

/* Returns the copies of the chunk over the link in an iteration. `retained` [count] is nonzero for
 * retained intervals. */
struct reuse_copies reuses_chunk_copies(const struct reuses *reuses, uint32_t chunk,
                                        const uint8_t *retained);

/* Returns the bytes that these copies move. */
uint64_t reuses_chunk_traffic(const struct reuses *reuses, chunk_id chunk, const uint8_t *retained);

/* Returns the copies that retaining interval `g` saves beside the other retained ones, at most one
 * of each kind; the value of retained[g] is ignored. */
struct reuse_copies reuses_saved(const struct reuses *reuses, uint32_t g, const uint8_t *retained);

/* Returns for each interval, [count], the number of intervals from the write that makes the chunk
 * dirty in it to the next one. Retaining all of them saves a write-back. 0 if nothing saves it. The
 * caller frees the result with g_free. */
uint32_t *reuses_epochs(const struct reuses *reuses);

/* Returns the bytes of the whole iteration, including activations of host operators. */
uint64_t reuses_traffic(const struct reuses *reuses, const uint8_t *retained);

/* Returns the interval of `chunk` that holds an action before the operator of `moment`
 * (moment_count stands for after the last operator). The chunk must have intervals. */
uint32_t reuses_find(const struct reuses *reuses, chunk_id chunk, moment_id moment);

#endif
