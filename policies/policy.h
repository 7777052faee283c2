/* Who leaves next: the interface of an eviction policy.
 *
 * A policy sees chunk numbers and positions only, never bytes moved, addresses or time. The dry run
 * (chunks/pipeline.h) tells it of every admission, access and departure, in order, and asks for a
 * victim when the device is full. One policy a file, ending in its constant struct
 * pstar_policy_ops. */
#ifndef PSTAR_POLICIES_POLICY_H
#define PSTAR_POLICIES_POLICY_H

#include "traces/ids.h"

#include <stdbool.h>

/* Version of this interface. A shared object with a policy of its own exports it beside the policy,
 * as two symbols:
 *     const uint32_t pstar_policy_abi = PSTAR_POLICY_ABI;
 *     const struct pstar_policy_ops pstar_policy = {...}; */
#define PSTAR_POLICY_ABI 1u

enum {
    PSTAR_AHEAD_READ = 1,  /* the next use needs the bytes that the last one left: a chunk that does
                               not stay until then costs a fetch */
    PSTAR_AHEAD_WRITE = 2, /* the next use writes the chunk: bytes that were not written back until
                               then never are */
    PSTAR_AHEAD_HOST = 4,  /* before, an operator on the host uses it, for which a dirty chunk is
                               written back in any case */
};

/* What the driver of a policy keeps true while the policy is open. */
struct pstar_policy_view {
    uint32_t chunk_count;
    uint32_t moment_count;       /* moments an iteration */
    const uint64_t *chunk_bytes; /* [chunk_count] */
    const uint8_t *pinned;       /* [chunk_count] nonzero: must not leave now */
    const uint8_t *dirty;        /* [chunk_count] nonzero: leaving costs a write-back */
    const uint32_t *next_use;    /* [chunk_count] moment of the chunk's next use on the device,
                                    counted from the start of the current iteration: at least
                                    the current moment; moment_count or more: in the next
                                    iteration; NO_INDEX: never */
    const uint8_t *ahead;        /* [chunk_count] PSTAR_AHEAD_... of the time between the chunk's
                                    last use on the device and its next; 0 before the first */
    const uint32_t *moment;      /* the current moment; moment_count: after the last operator */
    const uint32_t *iteration;   /* the current iteration, from 0: the warm-up */
    const uint64_t *capacity; /* [moment_count + 1] bytes that the policy's chunks may take at each
                                 moment */
    const uint32_t *incoming; /* the chunk that `victim` is to make room for; NO_INDEX: for
                                 non-model data */
};

struct pstar_policy_ops {
    const char *name;    /* as in --policy */
    const char *summary; /* one line for --help */

    /* Returns the policy's state, which it owns until close. `view` outlives it. Never fails:
     * memory comes from g_new. */
    void *(*open)(const struct pstar_policy_view *view);
    void (*close)(void *state);

    /* The chunk has become resident. */
    void (*admit)(void *state, uint32_t chunk);
    /* The operator of the current moment has used the chunk, the one that admitted it too; next_use
     * and ahead already say what follows. Every iteration touches the same chunks in the same order
     * at the same moments. May be NULL. */
    void (*touch)(void *state, uint32_t chunk);
    /* The chunk has left, whether this policy chose it or not. */
    void (*remove)(void *state, uint32_t chunk);
    /* The resident chunk to leave next, not pinned; NO_INDEX when all are pinned. It must not be
     * taken out yet: `remove` follows. */
    uint32_t (*victim)(void *state);
};

extern const struct pstar_policy_ops policy_fifo;
extern const struct pstar_policy_ops policy_lru;
extern const struct pstar_policy_ops policy_lfu;
extern const struct pstar_policy_ops policy_clock;
extern const struct pstar_policy_ops policy_arc;
extern const struct pstar_policy_ops policy_s3fifo;
extern const struct pstar_policy_ops policy_sieve;
extern const struct pstar_policy_ops policy_random;
extern const struct pstar_policy_ops policy_patrickstar;
extern const struct pstar_policy_ops policy_opt;
extern const struct pstar_policy_ops policy_opt_dirty;

/* All of them, in the order of tables; ends with NULL. */
extern const struct pstar_policy_ops *const policy_all[];

/* By name; NULL when there is none. */
const struct pstar_policy_ops *policy_find(const char *name);

#endif
