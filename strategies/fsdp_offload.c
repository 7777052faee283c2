#include "strategies/preset.h"

static struct script_rule rule(const struct strategy_context *context, chunk_id chunk)
{
    struct script_rule rule = updates_offload_rule(context, chunk);
    if (context->layout->chunks[chunk].list == TRACE_PARAM)
        rule.retained = rule.early = false;
    return rule;
}

const struct strategy_ops strategy_fsdp_offload = {
    .name = "fsdp-offload",
    .summary = "parameters visit layer by layer, gradients flushed, optimizer on the host",
    .place = updates_all,
    .rule = rule,
    .look_ahead = updates_layer_ahead, /* the next layer's parameters come up while one computes */
};
