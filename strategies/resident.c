#include "strategies/preset.h"

static struct script_rule rule(const struct strategy_context *context, chunk_id chunk)
{
    (void)context;
    (void)chunk;
    return (struct script_rule){.retained = true};
}

const struct strategy_ops strategy_resident = {
    .name = "resident",
    .summary = "everything on the device, all the time",
    .keeps_gathered = true,
    .rule = rule,
};
