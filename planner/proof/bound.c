#include "planner/proof/bound.h"

/* Bytes times BOUND_PRICE_SCALE: sums of prices below 2^64, of bytes below 2^61, have room in it.
 */
__extension__ typedef __int128 scaled;

/* Above every cost. */
#define NEVER ((scaled)1 << 120)

/* Sum of the prices before each moment: [moment_count + 1]. */
static uint64_t *sum_prices(const struct gaps *gaps, const uint64_t *price)
{
    uint64_t *paid = g_new0(uint64_t, gaps->moment_count + 1);
    for (uint32_t m = 0; m < gaps->moment_count; m++)
        paid[m + 1] = paid[m] + price[m];
    return paid;
}

/* What the moments of the gap's span cost, a byte. */
static uint64_t span_price(const struct gaps *gaps, const struct gap *gap, const uint64_t *paid)
{
    uint64_t before = paid[gap->from + 1];
    if (gap->to > gap->from)
        return paid[gap->to] - before;
    return paid[gaps->moment_count] - before + paid[gap->to];
}

/* One gap: `cost` by what the chunk is before the use (1: dirty) becomes that before the next. */
static void pass(const struct gap *gap, scaled copy, scaled room, scaled cost[2])
{
    scaled next[2] = {NEVER, NEVER};

    for (int before = 0; before < 2; before++) {
        bool dirty = (before || gap->flags & GAP_DIRTIES) && !(gap->flags & GAP_DEAD);
        for (int kept = 0; kept < (gaps_can_keep(gap) ? 2 : 1); kept++) {
            bool cleans = dirty && (!kept || gap->flags & GAP_FLUSH);
            scaled fetch = gap->flags & GAP_REFETCH ? copy : 0;
            scaled total = cost[before] + (cleans ? copy : 0) + (kept ? room : fetch);
            int after = dirty && !cleans;
            next[after] = MIN(next[after], total);
        }
    }
    cost[0] = next[0];
    cost[1] = next[1];
}

/* The cheapest way through the gaps of a chunk from state `start` back to it. */
static scaled cheapest_cycle(const struct gaps *gaps, uint32_t chunk, const uint64_t *paid,
                             int start)
{
    scaled cost[2] = {start ? NEVER : 0, start ? 0 : NEVER};

    for (uint32_t g = gaps->first[chunk]; g < gaps->first[chunk + 1]; g++) {
        const struct gap *gap = &gaps->items[g];
        pass(gap, (scaled)gaps->used[chunk] * BOUND_PRICE_SCALE,
             (scaled)gaps->bytes[chunk] * span_price(gaps, gap, paid), cost);
    }
    return cost[start];
}

uint64_t bound_traffic(const struct gaps *gaps, const uint64_t *price)
{
    g_autofree uint64_t *paid = sum_prices(gaps, price);
    scaled bound = (scaled)gaps->activation_bytes * BOUND_PRICE_SCALE;

    for (uint32_t m = 0; m < gaps->moment_count; m++)
        bound -= (scaled)price[m] * gaps->room[m];
    for (uint32_t c = 0; c < gaps->chunk_count; c++)
        if (gaps->first[c] < gaps->first[c + 1])
            bound += MIN(cheapest_cycle(gaps, c, paid, 0), cheapest_cycle(gaps, c, paid, 1));
    /* Traffic is whole bytes, and not negative. */
    return bound > 0 ? (uint64_t)((bound + BOUND_PRICE_SCALE - 1) / BOUND_PRICE_SCALE) : 0;
}

struct gaps *bound_gaps(const struct trace *trace, const struct plan *plan)
{
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, plan->layout, non_model->extent);
    g_autofree uint8_t *on_device = g_new0(uint8_t, plan->layout->chunk_count);
    struct homes *homes = homes_assign(trace, plan->layout, on_device);
    struct gaps *gaps = gaps_new(trace, plan->layout, accesses, homes, plan->device_budget);

    homes_free(homes);
    accesses_free(accesses);
    non_model_free(non_model);
    return gaps;
}
