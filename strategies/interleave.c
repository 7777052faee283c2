#include "strategies/preset.h"

static void place(const struct strategy_context *context, uint8_t *on_host)
{
    updates_but_every(context, (uint32_t)context->value, on_host);
}

static struct script_rule rule(const struct strategy_context *context, chunk_id chunk)
{
    struct script_rule rule = updates_offload_rule(context, chunk);
    /* Optimizer states live on the host, and visit the device if it updates them. */
    if (context->layout->chunks[chunk].list >= TRACE_MASTER)
        rule.retained = rule.early = false;
    return rule;
}

/* While the host updates the groups in between, the next group for the device comes up. */
static uint32_t look_ahead(const struct strategy_context *context)
{
    const struct trace *trace = context->trace;
    uint32_t since = 0, most = 1;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        bool on_device = trace->operators[m].place == TRACE_ON_DEVICE;
        since = trace->operators[m].phase == TRACE_UPDATE_PHASE && !on_device ? since + 1 : 0;
        most = MAX(most, since);
    }
    return most;
}

const struct strategy_ops strategy_interleave = {
    .name = "interleave",
    .parameter = "K",
    .least = 1,
    .most = 1 << 20,
    .usual = 2,
    .whole = true,
    .summary = "every K-th group updated on the device, the others on the host",
    .place = place,
    .rule = rule,
    .look_ahead = look_ahead,
};
