#include "strategies/preset.h"

static void place(const struct strategy_context *context, uint8_t *on_host)
{
    updates_first_groups(context, context->value, on_host);
}

const struct strategy_ops strategy_twinflow = {
    .name = "twinflow",
    .parameter = "R",
    .least = 0,
    .most = 1,
    .usual = 0.5,
    .summary = "zero3-offload of the share R of the optimizer, the rest on the device",
    .place = place,
    .rule = updates_blocking_rule,
    .look_ahead = updates_blocking_ahead,
    .beside = updates_device_gradients,
};
