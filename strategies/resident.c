#include "strategies/preset.h"

const struct strategy_ops strategy_resident = {
    .name = "resident",
    .summary = "everything on the device, all the time",
    .keeps_gathered = true,
    .rule = script_rule_retained,
};
