#include "planner/proof/bound.h"
#include "models/derive.h"
#include "planner/proof/routes.h"
#include "planner/schedule/placement.h"

#include <string.h>

/* The trace with all updates on either side; both are NULL if updates cannot be placed. */
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

static uint64_t bound_at(const struct sides *sides, uint64_t host_price)
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
    uint64_t ns = bound_at(&sides, host_price);
    sides_clear(&sides);
    return ns;
}

/* The bound is concave in the price, so thirds can be discarded. */
uint64_t work_bound_best(const struct trace *trace, const struct platform *platform,
                         uint64_t *host_price)
{
    struct sides sides = sides_of(trace, platform);
    uint64_t low = 0, high = BOUND_PRICE_SCALE;
    while (high - low > 2) {
        uint64_t third = (high - low) / 3;
        if (bound_at(&sides, low + third) < bound_at(&sides, high - third))
            low += third;
        else
            high -= third;
    }
    *host_price = low;
    for (uint64_t price = low + 1; price <= high; price++)
        if (bound_at(&sides, price) > bound_at(&sides, *host_price))
            *host_price = price;
    uint64_t ns = bound_at(&sides, *host_price);
    sides_clear(&sides);
    return ns;
}

/* Bytes times BOUND_PRICE_SCALE. Sums of prices stay below 2^64 and bytes below 2^61. */
__extension__ typedef __int128 scaled_bytes;

/* Above every cost. */
#define NEVER ((scaled_bytes)1 << 120)

/* Returns the sum of the prices before each moment: [moment_count + 1]. */
static uint64_t *sum_prices(const struct reuses *reuses, const uint64_t *price)
{
    uint64_t *paid = g_new0(uint64_t, reuses->moment_count + 1);
    for (uint32_t m = 0; m < reuses->moment_count; m++)
        paid[m + 1] = paid[m] + price[m];
    return paid;
}

/* Returns the price of a byte over the moments of the interval. */
static uint64_t span_price(const struct reuses *reuses, const struct reuse *reuse,
                           const uint64_t *paid)
{
    uint64_t before = paid[reuse->from + 1];
    if (reuse->to > reuse->from)
        return paid[reuse->to] - before;
    return paid[reuses->moment_count] - before + paid[reuse->to];
}

/* Advances over one interval: `cost` holds the least cost by whether the chunk is dirty (1) or not.
 */
static void pass(const struct reuse *reuse, scaled_bytes copy, scaled_bytes room,
                 scaled_bytes cost[2])
{
    scaled_bytes next[2] = {NEVER, NEVER};
    for (int before = 0; before < 2; before++) {
        bool dirty = (before || reuse->flags & REUSE_DIRTIES) && !(reuse->flags & REUSE_DEAD);
        for (int retained = 0; retained < (reuse_can_retain(reuse) ? 2 : 1); retained++) {
            bool cleans = dirty && (!retained || reuse->flags & REUSE_FLUSH);
            scaled_bytes fetch = reuse->flags & REUSE_REFETCH ? copy : 0;
            scaled_bytes total = cost[before] + (cleans ? copy : 0) + (retained ? room : fetch);
            int after = dirty && !cleans;
            next[after] = MIN(next[after], total);
        }
    }
    cost[0] = next[0];
    cost[1] = next[1];
}

/* Returns the cheapest way through the intervals of a chunk from state `start` back to it. */
static scaled_bytes cheapest_cycle(const struct reuses *reuses, uint32_t chunk,
                                   const uint64_t *paid, int start)
{
    scaled_bytes cost[2] = {start ? NEVER : 0, start ? 0 : NEVER};
    for (uint32_t g = reuses->first[chunk]; g < reuses->first[chunk + 1]; g++) {
        const struct reuse *reuse = &reuses->items[g];
        pass(reuse, (scaled_bytes)reuses->copy_bytes[chunk] * BOUND_PRICE_SCALE,
             (scaled_bytes)reuses->slot_bytes[chunk] * span_price(reuses, reuse, paid), cost);
    }
    return cost[start];
}

uint64_t bound_traffic(const struct reuses *reuses, const uint64_t *price)
{
    g_autofree uint64_t *paid = sum_prices(reuses, price);
    scaled_bytes bound = (scaled_bytes)reuses->activation_bytes * BOUND_PRICE_SCALE;
    for (uint32_t m = 0; m < reuses->moment_count; m++)
        bound -= (scaled_bytes)price[m] * reuses->room[m];
    for (uint32_t c = 0; c < reuses->chunk_count; c++)
        if (reuses->first[c] < reuses->first[c + 1])
            bound += MIN(cheapest_cycle(reuses, c, paid, 0), cheapest_cycle(reuses, c, paid, 1));
    /* Traffic is a whole number of bytes, and not negative. */
    return bound > 0 ? (uint64_t)((bound + BOUND_PRICE_SCALE - 1) / BOUND_PRICE_SCALE) : 0;
}

struct reuses *bound_reuses(const struct trace *trace, const struct plan *plan)
{
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, plan->layout, non_model->extent);
    g_autofree uint8_t *on_device = g_new0(uint8_t, plan->layout->chunk_count);
    struct homes *homes = homes_assign(trace, plan->layout, on_device);
    struct reuses *reuses = reuses_new(trace, plan->layout, accesses, homes, plan->device_budget);
    homes_free(homes);
    accesses_free(accesses);
    non_model_free(non_model);
    return reuses;
}
