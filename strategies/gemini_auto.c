#include "strategies/preset.h"

/* steady_cuda_cap_ratio, the share of the device's memory that the steady state uses. */
#define STEADY_SHARE 0.9

static uint32_t look_ahead(const struct strategy_context *context)
{
    return (uint32_t)context->value;
}

static struct decisions *decide_auto(const struct strategy_context *context, struct homes **homes,
                                     uint64_t *needed, GError **error)
{
    const struct budget budget = {
        .bytes = (uint64_t)(STEADY_SHARE * (double)context->device_budget),
        .share = STEADY_SHARE,
        .reserve = context->non_model,
        .policy = &policy_opt,
        .look_ahead = look_ahead(context)};
    return budget_decide(context, &budget, homes, needed, error);
}

const struct strategy_ops strategy_gemini_auto = {
    .name = "gemini-auto",
    .parameter = "N",
    .least = 0,
    .most = 1 << 20,
    .usual = 0,
    .whole = true,
    .summary = "parameters by next use, N moments ahead; optimizer on the host",
    .place = updates_all,
    .look_ahead = look_ahead,
    .decide = decide_auto,
};
