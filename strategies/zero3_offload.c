#include "strategies/preset.h"

const struct strategy_ops strategy_zero3_offload = {
    .name = "zero3-offload",
    .summary = "zero-offload by subgroups, and training waits for every copy",
    .place = updates_all,
    .rule = updates_blocking_rule,
    .look_ahead = updates_blocking_ahead,
};
