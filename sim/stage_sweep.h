/* Replays the stages of a pipeline with every combination of chunk sizes, budgets, policies and
 * strategies, on all cores. Every stage has the same of each, and the same look-ahead. */
#ifndef PSTAR_SIM_STAGE_SWEEP_H
#define PSTAR_SIM_STAGE_SWEEP_H

#include "sim/stage_replay.h"
#include "sim/sweep.h"

#include <stdio.h>

struct stage_sweep {
    const struct trace *const *traces; /* [messages->stages] */
    const struct stage_messages *messages;
    GPtrArray *const *layouts; /* [messages->stages] struct named_layout, alike in all stages */
    const struct sweep_options *options; /* without layouts and phases; strategies are those
                                            without a stage of their own */
};

/* Returns a sweep whose rows have stages. A row's bytes and counts are the sums of its stages, its
 * peaks and its stall are those of the stage that has most. Never fails; the caller frees the
 * result with sweep_free. */
struct sweep *stage_sweep_run(const struct stage_sweep *stages);

/* Prints a table of the stages of the best row, if one fits: memory, messages, and where the step's
 * time goes. */
void stage_sweep_print_best(const struct sweep *sweep, FILE *out);

/* Returns a list with an object for each stage of a row that fits, which the caller owns. With the
 * passes, or without. */
json_t *stage_sweep_json(const struct stage_result *stages, uint32_t count, bool passes);

#endif
