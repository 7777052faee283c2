#include "strategies/preset.h"

static void place(const struct strategy_context *context, uint8_t *on_host)
{
    updates_first(context, context->value, on_host);
}

const struct strategy_ops strategy_gemini_static = {
    .name = "gemini-static",
    .parameter = "F",
    .least = 0,
    .most = 1,
    .usual = 0.5,
    .summary = "the share F of the optimizer on the host, gradients flushed behind",
    .place = place,
    .rule = updates_offload_rule,
};
