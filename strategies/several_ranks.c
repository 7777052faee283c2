#include "strategies/preset.h"

/* What other systems do with several ranks and everything on the device. They differ in the trace
 * that they are for (enum strategy_stage), and in how long gathered parameters stay. */

const struct strategy_ops strategy_ddp = {
    .name = "ddp",
    .summary = "several ranks: each holds everything, gradients reduced to all in buckets",
    .stage = STRATEGY_STAGE_0,
    .rule = script_rule_retained,
};

const struct strategy_ops strategy_zero1 = {
    .name = "zero1",
    .summary = "several ranks: optimizer states shared",
    .stage = STRATEGY_STAGE_1,
    .rule = script_rule_retained,
};

const struct strategy_ops strategy_zero2 = {
    .name = "zero2",
    .summary = "several ranks: optimizer states and gradients shared",
    .stage = STRATEGY_STAGE_2,
    .rule = script_rule_retained,
};

/* Whole parameters are gathered for a visit, one layer ahead, and released after it. */
const struct strategy_ops strategy_zero3 = {
    .name = "zero3",
    .summary = "several ranks: all shared, parameters gathered layer by layer (FSDP, too)",
    .stage = STRATEGY_STAGE_3,
    .rule = script_rule_retained,
    .look_ahead = updates_layer_ahead,
};

const struct strategy_ops strategy_fsdp_no_reshard = {
    .name = "fsdp-no-reshard",
    .summary = "zero3, but gathered parameters stay until they are updated",
    .stage = STRATEGY_STAGE_3,
    .keeps_gathered = true,
    .rule = script_rule_retained,
    .look_ahead = updates_layer_ahead,
};
