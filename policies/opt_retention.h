/* Plans for a whole iteration, which repeats, through which reuse intervals each chunk is retained,
 * for little traffic with write-backs included. */
#ifndef PSTAR_POLICIES_OPT_RETENTION_H
#define PSTAR_POLICIES_OPT_RETENTION_H

#include "policies/policy.h"

#include <glib.h>

/* A reuse interval: the time between a use of a chunk and its next one, in which it stays or
 * leaves. */
struct policy_interval {
    chunk_id chunk;
    moment_id moment; /* of the use before */
    uint32_t next; /* of the use after, from the start of the same iteration; NO_INDEX if there is
                      none */
    uint8_t ahead; /* PSTAR_AHEAD_... */
    uint8_t retained; /* the answer */
};

/* Sets `retained` for each of `intervals`, which are an iteration's struct policy_interval in the
 * order of their moments. At every moment, the retained chunks fit beside the chunks in use.
 * Returns the bytes that move, without write-backs that no answer avoids. */
uint64_t policy_retain(const struct pstar_policy_view *view, GArray *intervals);

#endif
