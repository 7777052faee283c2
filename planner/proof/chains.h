/* Chains of work for the time bound: while the device waits for what the host updates, one thing
 * happens after the other. First bytes are copied to the host, then its operators run, in order,
 * then what they wrote is copied back.
 *
 * A chain begins when an operator of the device is over, ends before another one starts, and goes
 * from the first of two operators of the host to the last of them. What it takes is a row of the
 * time bound: the windows that contain it are not shorter. docs/bounds.md proves it. */
#ifndef PSTAR_PLANNER_PROOF_CHAINS_H
#define PSTAR_PLANNER_PROOF_CHAINS_H

#include "chunks/accesses.h"
#include "chunks/certificate.h"
#include "planner/proof/routes.h"
#include "traces/trace.h"

/* A copy before or after an operator of the host. */
struct chain_copy {
    uint32_t span; /* moments from the operator of the device after which it begins to that of the
                      host, or from there to that of the device which needs the copy */
    uint64_t ns;
};

struct chain_operator {
    moment_id moment;
    uint32_t block;    /* of a group that may run on either side; NO_INDEX if it is on the host in
                          any case */
    uint32_t released; /* moments since an operator of the device that is over before it begins */
    uint32_t over;     /* moments until one before which it is over */
    uint64_t host_ns;
    GArray *before, *after; /* struct chain_copy */
};

/* The operators that may run on the host, in its order, and the operators of the device that run
 * there in any case. */
struct chain_operators {
    uint32_t moment_count, block_count, count;
    struct chain_operator *items; /* [count] by moment */
    uint64_t *device_ns;          /* [moment_count + 1] sums before each moment of what the device
                                     computes, and of its waits for activations between operators */
    uint32_t *device_count;       /* [moment_count + 1] */
};

struct time_job;

/* `trace` has all updates that can be placed on the host, and `deadline` [operator_count] is the
 * moment before which each operator of the host is over. The blocks of groups come first. */
struct chain_operators *chain_operators_new(const struct time_job *job, const struct trace *trace,
                                            const struct accesses *accesses,
                                            const uint32_t *deadline, uint32_t block_count);
void chain_operators_free(struct chain_operators *operators);

/* A row of the bound: `span` windows from `window` on last at least always_ns, and host_ns of each
 * block whose updates run on the host. */
struct time_chain {
    struct certificate_chain ends;
    uint16_t window, span;
    uint64_t always_ns;
    uint64_t *host_ns; /* [block_count] */
};

/* Returns false if no chain can have these ends. Otherwise chain_clear frees the row's array. */
bool chain_make(const struct chain_operators *operators, const struct time_windows *windows,
                const struct certificate_chain *ends, struct time_chain *chain);
void chain_clear(void *chain);

/* Returns chains that may matter (struct time_chain), with price 0. The caller frees the array,
 * which clears its rows. */
GArray *chains_propose(const struct chain_operators *operators, const struct time_windows *windows);

#endif
