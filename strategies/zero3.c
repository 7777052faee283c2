#include "strategies/preset.h"

static struct script_rule rule(const struct strategy_context *context, chunk_id chunk)
{
    (void)context;
    (void)chunk;
    return (struct script_rule){.retained = true};
}

/* Whole parameters are gathered for a visit, one layer ahead, and released after it. */
const struct strategy_ops strategy_zero3 = {
    .name = "zero3",
    .summary = "several ranks: parameters gathered layer by layer, all else on the device",
    .rule = rule,
    .look_ahead = updates_layer_ahead,
};
