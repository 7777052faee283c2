/* How often each resident chunk was used again, up to a limit, for the policies that give chunks
 * another chance. */
#ifndef PSTAR_POLICIES_REUSE_H
#define PSTAR_POLICIES_REUSE_H

#include <stdint.h>

/* Of a chunk that is resident for a use that has not come yet: of the moment's operator, or of a
 * later one that it was prefetched for. That use is what admitted it, and no reuse. */
#define POLICY_AWAITED (-1)

/* `reuse`: one chunk's count. Admission sets it to POLICY_AWAITED. */
static inline void policy_reuse_touch(int8_t *reuse, int8_t limit)
{
    if (*reuse < limit)
        ++*reuse;
}

#endif
