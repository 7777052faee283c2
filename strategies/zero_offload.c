#include "strategies/preset.h"

const struct strategy_ops strategy_zero_offload = {
    .name = "zero-offload",
    .summary = "parameters on the device, gradients flushed, optimizer on the host",
    .keeps_gathered = true,
    .place = updates_all,
    .rule = updates_offload_rule,
};
