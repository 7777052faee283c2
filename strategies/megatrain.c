#include "strategies/preset.h"

/* A layer's parameters visit the device for its forward and again for its backward. What the model
 * has outside of its layers stays. */
static struct script_rule rule(const struct strategy_context *context, chunk_id chunk)
{
    struct script_rule rule = updates_offload_rule(context, chunk);
    if (context->layout->chunks[chunk].list != TRACE_PARAM || context->outside[chunk])
        return rule;
    rule.retained = rule.early = false;
    rule.buffered = true;
    return rule;
}

static moment_id begin_of_visit(const struct trace *trace, moment_id moment)
{
    const struct trace_operator *operators = trace->operators;
    while (moment > 0 && operators[moment - 1].layer == operators[moment].layer &&
           operators[moment - 1].phase == operators[moment].phase)
        moment--;
    return moment;
}

/* There are two buffers: while one layer computes, the next one's parameters come up. */
static moment_id fetch_from(const struct strategy_context *context, moment_id use)
{
    moment_id begin = begin_of_visit(context->trace, use);
    return begin > 0 ? begin_of_visit(context->trace, begin - 1) : 0;
}

const struct strategy_ops strategy_megatrain = {
    .name = "megatrain",
    .summary = "layers streamed through two buffers, gradients flushed, optimizer on the host",
    .place = updates_all,
    .rule = rule,
    .fetch_from = fetch_from,
};
