#include "sim/costs.h"

#include "traces/size.h"

#include <math.h>
#include <string.h>

G_DEFINE_QUARK(pstar - costs - error - quark, costs_error)

static void set_rate(struct platform_curve *curve, double bytes_per_second)
{
    g_free(curve->points);
    curve->points = g_new(struct platform_point, 1);
    curve->points[0] = (struct platform_point){bytes_per_second, 1.0};
    curve->count = 1;
}

static void set_curve(struct platform_curve *curve, const struct platform_curve *from)
{
    curve->points = g_memdup2(from->points, from->count * sizeof *from->points);
    curve->count = from->count;
}

static bool set_direction(struct costs *costs, const char *assignment, GError **error)
{
    struct platform_curve *curve;
    double rate;

    if (g_str_has_prefix(assignment, "h2d="))
        curve = &costs->h2d;
    else if (g_str_has_prefix(assignment, "d2h="))
        curve = &costs->d2h;
    else {
        g_set_error(error, COSTS_ERROR, COSTS_ERROR_INVALID, "link '%s': not h2d=RATE or d2h=RATE",
                    assignment);
        return false;
    }
    if (!rate_parse(strchr(assignment, '=') + 1, &rate, error))
        return false;
    set_rate(curve, rate);
    return true;
}

struct costs *costs_new(const struct platform *platform, const char *link, GError **error)
{
    struct costs *costs = g_new0(struct costs, 1);
    if (platform) {
        set_curve(&costs->h2d, &platform->h2d);
        set_curve(&costs->d2h, &platform->d2h);
        set_curve(&costs->memory, &platform->memory);
    } else {
        set_rate(&costs->h2d, COSTS_DEFAULT_COPY_RATE);
        set_rate(&costs->d2h, COSTS_DEFAULT_COPY_RATE);
        set_rate(&costs->memory, COSTS_DEFAULT_MEMORY_RATE);
    }
    char **assignments = link ? g_strsplit(link, ",", -1) : NULL;
    bool ok = true;
    for (char **a = assignments; ok && a && *a; a++)
        ok = set_direction(costs, *a, error);
    g_strfreev(assignments);
    if (ok)
        return costs;
    costs_free(costs);
    return NULL;
}

struct costs *costs_read(const char *platform_path, const char *link, GError **error)
{
    struct platform *platform = NULL;

    if (platform_path && !(platform = platform_read(platform_path, error)))
        return NULL;
    struct costs *costs = costs_new(platform, link, error);
    platform_free(platform);
    return costs;
}

void costs_free(struct costs *costs)
{
    if (!costs)
        return;
    g_free(costs->h2d.points);
    g_free(costs->d2h.points);
    g_free(costs->memory.points);
    g_free(costs);
}

uint64_t costs_ns(const struct platform_curve *curve, uint64_t amount)
{
    return amount ? (uint64_t)llround(platform_seconds(curve, (double)amount) * 1e9) : 0;
}
