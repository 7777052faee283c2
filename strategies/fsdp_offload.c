#include "strategies/preset.h"

const struct strategy_ops strategy_fsdp_offload = {
    .name = "fsdp-offload",
    .summary = "parameters visit layer by layer, gradients flushed, optimizer on the host",
    .place = updates_all,
    .rule = updates_visiting_rule,
    .look_ahead = updates_layer_ahead, /* the next layer's parameters come up while one computes */
};
