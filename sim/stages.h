/* The traces of strategies that have a stage of their own. */
#ifndef PSTAR_SIM_STAGES_H
#define PSTAR_SIM_STAGES_H

#include "sim/sweep.h"

/* Returns [STRATEGY_STAGES] traces of the ranks of `trace` in the stages that the strategies have,
 * with layouts like `layouts`, for struct sweep_options; without traces if no strategy has a stage.
 * `platform`, which may be NULL, and `costs` say how long operators take. Fails
 * (TRACE_ERROR_INVALID, LAYOUT_ERROR) if the trace's model is not known here, or has no such stage.
 * The caller frees the result with stages_free. */
struct sweep_stage *stages_new(const struct trace *trace, const GPtrArray *strategies,
                               const GPtrArray *layouts, const struct platform *platform,
                               const struct costs *costs, GError **error);
void stages_free(struct sweep_stage *stages); /* NULL is allowed */

#endif
