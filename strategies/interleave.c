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

/* ---- the order of copies ----
 *
 * The trace lists the host's updates before the device's, but Deep Optimizer States goes through
 * the groups in their order: it fetches the states of the next group for the device, and then the
 * host updates the groups in between, whose parameters follow. Copies to the device form a queue.
 * A parameter that the host still updates would hold up the states behind it, so the copies are
 * issued in the order of the groups, at the moments of the device's updates. */

static bool is_update(const struct strategy_context *context, moment_id moment,
                      enum trace_place place)
{
    const struct trace_operator *op = &context->trace->operators[moment];
    return op->phase == TRACE_UPDATE_PHASE && op->place == place && op->access_count > 0;
}

static tensor_id tensor_of(const struct strategy_context *context, moment_id update)
{
    const struct trace *trace = context->trace;
    return trace->accesses[trace->operators[update].first_access].tensor;
}

/* Returns the first moment of the device's updates of one group, of which `last` is the last. */
static moment_id begin_of_group(const struct strategy_context *context, moment_id last)
{
    uint32_t group = updates_group(context, tensor_of(context, last));
    while (last > 0 && is_update(context, last - 1, TRACE_ON_DEVICE) &&
           updates_group(context, tensor_of(context, last - 1)) == group)
        last--;
    return last;
}

/* States come up when the device begins with the group before, the first ones when the updates
 * begin. */
static moment_id fetch_from(const struct strategy_context *context, moment_id use)
{
    if (!is_update(context, use, TRACE_ON_DEVICE))
        return use;
    moment_id begin = begin_of_group(context, use);
    if (begin > 0 && is_update(context, begin - 1, TRACE_ON_DEVICE))
        return begin_of_group(context, begin - 1);
    while (begin > 0 && is_update(context, begin - 1, TRACE_ON_HOST))
        begin--;
    return begin;
}

/* A parameter comes back when the device begins with the next group after it. */
static moment_id return_from(const struct strategy_context *context, moment_id write)
{
    const struct trace *trace = context->trace;
    if (!is_update(context, write, TRACE_ON_HOST))
        return write + 1;
    tensor_id tensor = tensor_of(context, write);
    for (moment_id m = write + 1; m < trace->operator_count; m++)
        if (is_update(context, m, TRACE_ON_DEVICE) && tensor_of(context, m) > tensor)
            return m;
    return trace->operator_count;
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
    .fetch_from = fetch_from,
    .return_from = return_from,
};
