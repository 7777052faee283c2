/* A strategy's plan under the simulator's clock. */
#ifndef PSTAR_SIM_REPLAY_STRATEGY_H
#define PSTAR_SIM_REPLAY_STRATEGY_H

#include "sim/costs.h"
#include "sim/timeline.h"
#include "strategies/strategy.h"

/* strategy_plan, which may fail and sets *needed then, with what the steady iteration takes on the
 * trace that the strategy has changed: the plan's figures are predicted. `timeline` (may be NULL)
 * receives what ran when. The caller frees the plan. */
struct plan *replay_strategy(const struct strategy *strategy, const struct strategy_job *job,
                             const struct costs *costs, struct timeline *timeline, uint64_t *needed,
                             GError **error);

#endif
