/* Which other choices are looked at, in which order. */
#ifndef PSTAR_PLANNER_SEARCH_CHOICES_EXPLORE_H
#define PSTAR_PLANNER_SEARCH_CHOICES_EXPLORE_H

#include "planner/search/variant.h"

/* Other layers computed again, of every size of micro-batches in the scope, the embedding on the
 * other side, and masters split or whole. There is a best plan already. */
void variants_explore(struct variant_search *choices, unsigned scope);

/* All layers offloaded, and none, in the micro-batches of the best plan: with no layer computed
 * again, with all, and with those that the best plan has. */
void variants_explore_offload(struct variant_search *choices);

/* Whether there is a choice of how masters lie. */
bool variants_may_split_masters(const struct variant_search *choices, unsigned scope);

#endif
