#include "strategies/preset.h"

const struct strategy_ops strategy_zero_infinity = {
    .name = "zero-infinity",
    .parameter = "N",
    .least = 1,
    .most = 1e6,
    .usual = 3, /* one subgroup is read, one is updated, and one is written */
    .whole = true,
    .summary = "fsdp-offload with optimizer states in NVMe, read and written through N buffers",
    .place = updates_all,
    .rule = updates_visiting_rule,
    .look_ahead = updates_layer_ahead,
    .in_nvme = true,
};
