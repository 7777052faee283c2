/* Which chunks stay between which of their uses, planned for a whole iteration that repeats: the
 * least traffic, write-backs included, as far as two sweeps and a fill find it. */
#ifndef PSTAR_POLICIES_OPT_RETENTION_H
#define PSTAR_POLICIES_OPT_RETENTION_H

#include "policies/policy.h"

#include <glib.h>

/* Between a use of a chunk and its next one, in which it stays or leaves. */
struct policy_interval {
    uint32_t chunk;
    uint32_t moment;  /* of the use before */
    uint32_t next;    /* of the use after, from the start of the same iteration; NO_INDEX: never */
    uint8_t ahead;    /* PSTAR_AHEAD_... */
    uint8_t retained; /* the answer */
};

/* `intervals`: an iteration's struct policy_interval, in the order of their moments. Answers for
 * each of them; those that stay fit beside each other and beside the chunks in use, at every
 * moment. Returns the bytes that the answers move, but for write-backs that no answer avoids. */
uint64_t policy_retain(const struct pstar_policy_view *view, GArray *intervals);

#endif
