#include "strategies/preset.h"

static uint64_t state_bytes(const struct strategy_context *context)
{
    return updates_list_bytes(context, TRACE_MASTER) + updates_list_bytes(context, TRACE_EXP_AVG) +
           updates_list_bytes(context, TRACE_EXP_AVG_SQ);
}

/* Returns the bytes of states for which the device has room, beside their gradients. */
static uint64_t room_for_states(const struct strategy_context *context)
{
    const uint8_t *width = context->trace->list_element_bytes;
    uint64_t room = updates_margin(context, context->device_budget);
    uint64_t gradients = updates_list_bytes(context, TRACE_GRAD);
    if (!width[TRACE_GRAD] && width[TRACE_MASTER]) /* updates_device_gradients */
        return room / 4 * 3;
    return room > gradients ? room - gradients : 0;
}

/* The device updates the first groups, whose gradients are complete last: no backward is left that
 * could hide their updates on the host. */
static void place(const struct strategy_context *context, uint8_t *on_host)
{
    uint64_t share = (uint64_t)(context->value * (double)state_bytes(context));
    updates_but_first_bytes(context, 0, MIN(share, room_for_states(context)), on_host);
}

const struct strategy_ops strategy_superoffload = {
    .name = "superoffload",
    .parameter = "R",
    .least = 0,
    .most = 1,
    .usual = 0.1,
    .summary = "the share R of the optimizer on the device, the host begins as gradients arrive",
    .place = place,
    .beside = updates_device_gradients,
    .begins_early = true,
    .rule = updates_offload_rule,
};
