#include "planner/proof/bound.h"
#include "models/derive.h"
#include "planner/proof/routes.h"
#include "planner/schedule/placement.h"

/* How long the operators of a trace take with all updates on either side; both arrays
 * [operator_count] are NULL if updates cannot be placed. */
struct sides {
    const struct trace *trace;
    uint64_t *device_ns, *host_ns;
};

static struct sides sides_of(const struct trace *trace, const struct platform *platform)
{
    struct sides sides = {.trace = trace};
    if (placement_is_possible(trace, platform)) {
        sides.device_ns = model_update_times(trace, TRACE_ON_DEVICE, platform);
        sides.host_ns = model_update_times(trace, TRACE_ON_HOST, platform);
    }
    return sides;
}

static void sides_clear(struct sides *sides)
{
    g_free(sides->device_ns);
    g_free(sides->host_ns);
}

static scaled_ns cost_of(const struct sides *sides, uint32_t m, uint64_t host_price)
{
    const struct trace_operator *op = &sides->trace->operators[m];
    if (trace_operator_reduces(op)) /* in the network's queue */
        return 0;
    uint64_t price = op->place == TRACE_ON_HOST ? host_price : BOUND_PRICE_SCALE - host_price;
    if (op->phase != TRACE_UPDATE_PHASE || !op->access_count || !sides->device_ns)
        return (scaled_ns)op->duration_ns * price;
    return MIN((scaled_ns)sides->device_ns[m] * (BOUND_PRICE_SCALE - host_price),
               (scaled_ns)sides->host_ns[m] * host_price);
}

static uint64_t bound_at(const struct sides *sides, uint64_t host_price)
{
    scaled_ns sum = 0;
    for (uint32_t m = 0; m < sides->trace->operator_count; m++)
        sum += cost_of(sides, m, host_price);
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

/* ---- memory ---- */

/* What any plan must hold, with the least chunks: one a tensor. Updates that can be placed count on
 * no side. */
struct memory_need {
    struct trace *trace; /* with these updates on the device */
    bool placed;         /* updates can be placed */
    struct layout *layout;
    struct accesses *accesses;
    uint8_t *on_host;                /* [chunk_count] an operator uses the chunk there */
    uint8_t *settled;                /* [chunk_count] it has a home for the whole iteration */
    uint64_t home_bytes, host_bytes; /* of settled chunks and staging; of the host's */
};

static void settle_tensor(struct memory_need *need, enum trace_list list, tensor_id tensor)
{
    for (uint32_t b = 0; b < trace_blocks(need->trace, list, tensor); b++) {
        uint32_t place = layout_place_index(need->layout, list, tensor, b);
        need->settled[need->layout->places[list][place].chunk] = 1;
    }
}

/* Marks the chunks with model data. A tensor that a list lacks has a chunk there, too, in which
 * there is nothing; a layout with larger chunks has none. Gathered chunks have no home. */
static void settle_tensors(struct memory_need *need)
{
    for (int list = 0; list < TRACE_GATHERED; list++)
        for (tensor_id t = 0; t < need->trace->tensor_count; t++)
            if (trace_has(need->trace, (enum trace_list)list, t))
                settle_tensor(need, (enum trace_list)list, t);
}

/* Gradients that are dead when the iteration begins need no home (plan_is_transient), unless an
 * operator uses them on the host. If the first use needs the old bytes, they are alive then. */
static void unsettle_gradients(struct memory_need *need)
{
    const struct accesses *accesses = need->accesses;
    g_autofree uint8_t *alive = g_new0(uint8_t, need->layout->chunk_count);
    for (uint32_t a = accesses->count; a-- > 0;)
        alive[accesses->items[a].chunk] = !(accesses->items[a].flags & ACCESS_FRESH);
    for (uint32_t c = 0; c < need->layout->chunk_count; c++)
        if (need->layout->chunks[c].list == TRACE_GRAD)
            need->settled[c] &= alive[c] || need->on_host[c];
}

static void sum_bytes(struct memory_need *need)
{
    const struct layout *layout = need->layout;
    struct staging staging = staging_of(need->trace);
    need->home_bytes = staging.bytes;
    staging_clear(&staging);
    need->host_bytes = homes_least_host_bytes(need->trace, layout, need->accesses);
    for (uint32_t a = 0; a < need->accesses->count; a++)
        if (need->accesses->items[a].flags & ACCESS_ON_HOST)
            need->on_host[need->accesses->items[a].chunk] = 1;
    settle_tensors(need);
    unsettle_gradients(need);
    for (uint32_t c = 0; c < layout->chunk_count; c++)
        need->home_bytes += need->settled[c] ? layout->chunks[c].copy_bytes : 0;
}

static struct memory_need memory_need_of(const struct trace *trace, const struct platform *platform)
{
    struct memory_need need = {.placed = placement_is_possible(trace, platform)};
    struct layout_spec spec = {.order = NULL};
    g_autofree uint8_t *nowhere = g_new0(uint8_t, trace->tensor_count);
    for (int list = 0; list < TRACE_LISTS; list++)
        spec.chunk_bytes[list] = LAYOUT_ALIGNMENT;
    need.trace = need.placed ? model_place_updates(trace, nowhere, platform, NULL)
                             : trace_copy(trace);
    need.layout = layout_pack(need.trace, &spec, NULL);
    struct non_model *non_model = non_model_place(need.trace);
    need.accesses = accesses_new(need.trace, need.layout, non_model->extent);
    need.on_host = g_new0(uint8_t, need.layout->chunk_count);
    need.settled = g_new0(uint8_t, need.layout->chunk_count);
    non_model_free(non_model);
    sum_bytes(&need);
    return need;
}

static void memory_need_clear(struct memory_need *need)
{
    accesses_free(need->accesses);
    layout_free(need->layout);
    trace_free(need->trace);
    g_free(need->on_host);
    g_free(need->settled);
}

/* Returns the bytes that the device holds at least at this moment, if `at_home` bytes of model data
 * live there. The operator's own may be among them, unless they have a slot on the host or no home.
 */
static uint64_t bytes_at(const struct memory_need *need, moment_id moment, uint64_t at_home)
{
    const struct accesses *accesses = need->accesses;
    uint64_t homeless = accesses->non_model[moment], any = 0;
    for (uint32_t a = accesses->first[moment]; a < accesses->first[moment + 1]; a++) {
        const struct chunk_access *access = &accesses->items[a];
        const struct chunk *chunk = &need->layout->chunks[access->chunk];
        if (access->flags & ACCESS_ON_HOST)
            continue;
        if (need->settled[access->chunk] && !need->on_host[access->chunk])
            any += chunk->slot_bytes;
        else
            homeless += chunk->slot_bytes;
    }
    return homeless + MAX(any, at_home);
}

bool bound_excludes(const struct trace *trace, const struct platform *platform,
                    uint64_t device_budget, uint64_t host_budget)
{
    struct memory_need need = memory_need_of(trace, platform);
    uint64_t at_home = need.home_bytes > host_budget ? need.home_bytes - host_budget : 0;
    bool excluded = need.host_bytes > host_budget;
    for (uint32_t m = 0; m < need.trace->operator_count && !excluded; m++)
        if (!need.placed || need.trace->operators[m].phase != TRACE_UPDATE_PHASE)
            excluded = bytes_at(&need, m, at_home) > device_budget;
    memory_need_clear(&need);
    return excluded;
}

/* ---- traffic ---- */

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

/* What a chunk's copies cost. */
struct copy_costs {
    scaled_bytes fetch, write;
};

/* Advances over one interval: `cost` holds the least cost by whether the chunk is dirty (1) or not.
 */
static void pass(const struct reuse *reuse, const struct copy_costs *copies, scaled_bytes room,
                 scaled_bytes cost[2])
{
    scaled_bytes next[2] = {NEVER, NEVER};
    for (int before = 0; before < 2; before++) {
        bool dirty = (before || reuse->flags & REUSE_DIRTIES) && !(reuse->flags & REUSE_DEAD);
        for (int retained = 0; retained < (reuse_can_retain(reuse) ? 2 : 1); retained++) {
            bool cleans = dirty && (!retained || reuse->flags & REUSE_FLUSH);
            scaled_bytes fetch = reuse->flags & REUSE_REFETCH ? copies->fetch : 0;
            scaled_bytes total = cost[before] + (cleans ? copies->write : 0) +
                                 (retained ? room : fetch);
            int after = dirty && !cleans;
            next[after] = MIN(next[after], total);
        }
    }
    cost[0] = next[0];
    cost[1] = next[1];
}

/* Returns the cheapest way through the intervals of a chunk from state `start` back to it. */
static scaled_bytes cheapest_cycle(const struct reuses *reuses, uint32_t chunk,
                                   const struct copy_weights *weights, const uint64_t *paid,
                                   int start)
{
    const scaled_bytes bytes = (scaled_bytes)reuses->copy_bytes[chunk];
    const struct copy_costs copies = {bytes * weights->fetched, bytes * weights->written};
    scaled_bytes cost[2] = {start ? NEVER : 0, start ? 0 : NEVER};
    for (uint32_t g = reuses->first[chunk]; g < reuses->first[chunk + 1]; g++) {
        const struct reuse *reuse = &reuses->items[g];
        pass(reuse, &copies,
             (scaled_bytes)reuses->slot_bytes[chunk] * span_price(reuses, reuse, paid), cost);
    }
    return cost[start];
}

scaled_bytes bound_copies(const struct reuses *reuses, const struct copy_weights *weights,
                          const uint64_t *price)
{
    g_autofree uint64_t *paid = sum_prices(reuses, price);
    scaled_bytes bound = 0;
    for (uint32_t m = 0; m < reuses->moment_count; m++)
        bound -= (scaled_bytes)price[m] * reuses->room[m];
    for (uint32_t c = 0; c < reuses->chunk_count; c++)
        if (reuses->first[c] < reuses->first[c + 1])
            bound += MIN(cheapest_cycle(reuses, c, weights, paid, 0),
                         cheapest_cycle(reuses, c, weights, paid, 1));
    return bound;
}

uint64_t bound_traffic(const struct reuses *reuses, const uint64_t *price)
{
    scaled_bytes bound = (scaled_bytes)reuses->activation_bytes * BOUND_PRICE_SCALE +
                         bound_copies(reuses, &COPIES_COUNT_ALIKE, price);
    /* Traffic is a whole number of bytes, and not negative. */
    return bound > 0 ? (uint64_t)((bound + BOUND_PRICE_SCALE - 1) / BOUND_PRICE_SCALE) : 0;
}

struct reuses *bound_reuses(const struct trace *trace, const struct plan *plan)
{
    struct non_model *non_model = non_model_place(trace);
    struct accesses *accesses = accesses_new(trace, plan->layout, non_model->extent);
    g_autofree uint8_t *on_device = g_new0(uint8_t, plan->layout->chunk_count);
    struct homes *homes = homes_assign(trace, plan->layout, on_device, NULL);
    struct reuses *reuses = reuses_new(trace, plan->layout, accesses, homes, NULL,
                                       plan->device_budget);
    homes_free(homes);
    accesses_free(accesses);
    non_model_free(non_model);
    return reuses;
}
