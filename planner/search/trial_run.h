/* The tasks of a search: what one layout and placement bring. */
#ifndef PSTAR_PLANNER_SEARCH_TRIAL_RUN_H
#define PSTAR_PLANNER_SEARCH_TRIAL_RUN_H

#include "planner/search/candidate.h"
#include "planner/search/outcomes.h"

/* What the tasks of a round know. */
struct trial_context {
    const struct candidate_job *job;
    enum objective objective;
    const GPtrArray *strategies; /* of other systems; NULL where updates cannot be placed */
    const gint *stop;            /* atomic */

    /* Before the round began: */
    const struct trial *incumbent; /* with the best plan; NULL: none */
    const struct plan *policy;     /* the best of a policy; NULL: none */
};

/* Every policy that may be better than the best policy, and every strategy; the outcome's placement
 * is the traced one. */
void trial_run_baselines(const struct trial_context *context, const struct layout_spec *spec,
                         struct trial *trial);

/* The best schedule of what local search keeps, with the outcome's effort; none where it does not
 * fit, or at a glance promises clearly less than the best so far. */
void trial_run(const struct trial_context *context, const struct layout_spec *spec, uint32_t seed,
               struct trial *trial);

#endif
