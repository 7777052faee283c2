#include "strategies/preset.h"

static struct script_rule rule(const struct strategy_context *context, chunk_id chunk)
{
    struct script_rule rule = updates_offload_rule(context, chunk);
    if (context->layout->chunks[chunk].list == TRACE_PARAM)
        rule.retained = rule.early = false;
    return rule;
}

/* The next layer's parameters come up while one layer computes. */
static uint32_t look_ahead(const struct strategy_context *context)
{
    const struct trace *trace = context->trace;
    uint32_t run = 0, most = 1;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        bool same = m > 0 && op->layer >= 0 && op->layer == op[-1].layer &&
                    op->phase == op[-1].phase;
        run = same ? run + 1 : 1;
        if (op->phase != TRACE_UPDATE_PHASE)
            most = MAX(most, run);
    }
    return most;
}

const struct strategy_ops strategy_fsdp_offload = {
    .name = "fsdp-offload",
    .summary = "parameters visit layer by layer, gradients flushed, optimizer on the host",
    .place = updates_all,
    .rule = rule,
    .look_ahead = look_ahead,
};
