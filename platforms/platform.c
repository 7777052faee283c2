#include "platforms/platform.h"

G_DEFINE_QUARK(pstar_platform_error, platform_error)

static void curve_clear(struct platform_curve *curve)
{
    g_free(curve->points);
    g_free(curve->source);
}

void platform_free(struct platform *platform)
{
    if (!platform)
        return;
    g_free(platform->name);
    g_free(platform->source);
    curve_clear(&platform->h2d);
    curve_clear(&platform->d2h);
    curve_clear(&platform->compute[0]);
    curve_clear(&platform->compute[1]);
    curve_clear(&platform->memory);
    curve_clear(&platform->host_update);
    for (int i = 0; i < PLATFORM_EXTRAS; i++)
        curve_clear(&platform->extra[i]);
    g_free(platform->threads.source);
    g_free(platform->products);
    g_free(platform);
}

static double at_rate_of(const struct platform_point *point, double amount)
{
    return amount * (point->seconds / point->amount);
}

double platform_seconds(const struct platform_curve *curve, double amount)
{
    g_assert(curve->count > 0);
    const struct platform_point *first = curve->points, *last = first + curve->count - 1;
    if (amount <= first->amount)
        return at_rate_of(first, amount);
    if (amount >= last->amount)
        return at_rate_of(last, amount);
    const struct platform_point *right = first + 1;
    while (right->amount < amount)
        right++;
    const struct platform_point *left = right - 1;
    double share = (amount - left->amount) / (right->amount - left->amount);
    return left->seconds + share * (right->seconds - left->seconds);
}

const struct platform_curve *platform_curve_or(const struct platform_curve *curve,
                                               const struct platform_curve *otherwise)
{
    return curve->count > 0 ? curve : otherwise;
}

static void exchange(struct platform_curve *curve, struct platform_curve *apart)
{
    if (apart->count == 0)
        return;
    struct platform_curve before = *curve;
    *curve = *apart;
    *apart = before;
}

void platform_keep_apart(struct platform *platform)
{
    exchange(&platform->compute[0], &platform->extra[PLATFORM_COMPUTE_FP32_APART]);
    exchange(&platform->compute[1], &platform->extra[PLATFORM_COMPUTE_BF16_APART]);
    exchange(&platform->memory, &platform->extra[PLATFORM_MEMORY_APART]);
    exchange(&platform->host_update, &platform->extra[PLATFORM_HOST_UPDATE_APART]);
}
