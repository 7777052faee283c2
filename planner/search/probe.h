/* What a trace takes with other budgets or another link, in a fraction of a search's time. */
#ifndef PSTAR_PLANNER_SEARCH_PROBE_H
#define PSTAR_PLANNER_SEARCH_PROBE_H

#include "planner/search/search.h"

struct probe;

/* Two layouts to choose from: that of `plan`, which did best of all with its budgets, and one chunk
 * a tensor, which does with the least memory. `trace` outlives the result, which probe_free takes.
 */
struct probe *probe_new(const struct trace *trace, const struct plan *plan);
void probe_free(struct probe *probe);

/* search_plan among these layouts, whatever layouts `options` has. */
struct search_result *probe_search(const struct probe *probe, const struct search_options *options);

#endif
