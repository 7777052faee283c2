/* What a trace takes with other budgets or another link, in a fraction of a search's time. */
#ifndef PSTAR_PLANNER_ANSWERS_NARROW_SEARCH_H
#define PSTAR_PLANNER_ANSWERS_NARROW_SEARCH_H

#include "planner/search/search.h"

struct narrow_search;

/* Two layouts to choose from: that of `plan`, which did best of all with its budgets, and one chunk
 * a tensor, which does with the least memory. `trace` outlives the result, which probe_free takes.
 */
struct narrow_search *narrow_search_new(const struct trace *trace, const struct plan *plan);
void narrow_search_free(struct narrow_search *narrow);

/* search_plan among these layouts, whatever layouts `options` has. */
struct search_result *narrow_search_run(const struct narrow_search *narrow,
                                        const struct search_options *options);

#endif
