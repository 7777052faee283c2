#include "planner/proof/any_layout.h"

#include "models/place_updates.h"
#include "planner/proof/bound.h"
#include "planner/proof/routes.h"
#include "planner/schedule/placement.h"

#include <string.h>

/* The trace with all updates on either side; NULL: they stay where they are. */
struct sides {
    const struct trace *trace;
    struct trace *device, *host;
};

static struct trace *all_on(const struct trace *trace, const struct platform *platform, int on_host)
{
    g_autofree uint8_t *where = g_malloc(trace->tensor_count);
    memset(where, on_host, trace->tensor_count);
    return model_place_updates(trace, where, platform, NULL);
}

static struct sides sides_of(const struct trace *trace, const struct platform *platform)
{
    struct sides sides = {.trace = trace};

    if (placement_is_possible(trace, platform)) {
        sides.device = all_on(trace, platform, 0);
        sides.host = all_on(trace, platform, 1);
    }
    return sides;
}

static void sides_clear(struct sides *sides)
{
    trace_free(sides->device);
    trace_free(sides->host);
}

static scaled_ns cost_of(const struct trace_operator *op, uint64_t host_price)
{
    uint64_t price = op->place == TRACE_ON_HOST ? host_price : BOUND_PRICE_SCALE - host_price;
    return (scaled_ns)op->duration_ns * price;
}

static uint64_t bound(const struct sides *sides, uint64_t host_price)
{
    scaled_ns sum = 0;

    for (uint32_t m = 0; m < sides->trace->operator_count; m++) {
        const struct trace_operator *op = &sides->trace->operators[m];
        if (op->phase == TRACE_UPDATE_PHASE && sides->device)
            sum += MIN(cost_of(&sides->device->operators[m], host_price),
                       cost_of(&sides->host->operators[m], host_price));
        else
            sum += cost_of(op, host_price);
    }
    return (uint64_t)(sum / BOUND_PRICE_SCALE);
}

uint64_t work_bound(const struct trace *trace, const struct platform *platform, uint64_t host_price)
{
    struct sides sides = sides_of(trace, platform);
    uint64_t ns = bound(&sides, host_price);

    sides_clear(&sides);
    return ns;
}

/* The bound is concave in the price. */
uint64_t work_bound_best(const struct trace *trace, const struct platform *platform,
                         uint64_t *host_price)
{
    struct sides sides = sides_of(trace, platform);
    uint64_t low = 0, high = BOUND_PRICE_SCALE;

    while (high - low > 2) {
        uint64_t third = (high - low) / 3;
        if (bound(&sides, low + third) < bound(&sides, high - third))
            low += third;
        else
            high -= third;
    }
    *host_price = low;
    for (uint64_t price = low + 1; price <= high; price++)
        if (bound(&sides, price) > bound(&sides, *host_price))
            *host_price = price;
    uint64_t ns = bound(&sides, *host_price);
    sides_clear(&sides);
    return ns;
}
