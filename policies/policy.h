/* The eviction policies of pstar, which choose the next chunk to leave.
 *
 * Their interface is a part of pstar.h, because plug-ins implement it too. The driver of a policy
 * (chunks/decide.h) reports every admission, use and departure, in order, and asks for a victim
 * when the device is full. One policy a file, ending in its constant struct pstar_policy_ops. */
#ifndef PSTAR_POLICIES_POLICY_H
#define PSTAR_POLICIES_POLICY_H

#include "include/pstar.h"
#include "traces/ids.h"

#include <stdbool.h>

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

/* All policies, in the order of tables; ends with NULL. */
extern const struct pstar_policy_ops *const policy_all[];

/* Returns the policy with this name, or NULL. */
const struct pstar_policy_ops *policy_find(const char *name);

#endif
