#include "planner/proof/bound.h"
#include "planner/proof/prices.h"

#include <string.h>

struct bound_evaluation {
    const struct time_model *model;
    const struct time_prices *prices;
    uint64_t *compute_price;       /* [window count] what other prices leave */
    uint8_t (*from)[ROUTE_STATES]; /* [longest] */
};

static void set_compute_prices(const struct bound_evaluation *e)
{
    uint32_t count = e->model->windows->count;
    for (uint32_t w = 0; w < count; w++) {
        const struct certificate_window *price = &e->prices->windows[w];
        e->compute_price[w] = BOUND_PRICE_SCALE - window_prices(price);
    }
    for (uint32_t r = 0; r < e->prices->chain_count; r++) {
        const struct time_chain *chain = &e->prices->chains[r];
        for (uint32_t i = 0; i < chain->span; i++)
            e->compute_price[(chain->window + i) % count] -= chain->ends.price;
    }
}

/* Puts the time for which the device is idle into the cheapest of its windows. */
static scaled_ns place_idle(const struct bound_evaluation *e, const struct time_work *work,
                            uint64_t (*use)[WINDOW_USES])
{
    uint32_t count = e->model->windows->count, best = work->idle_window;
    for (uint32_t i = 1; i <= work->idle_span; i++) {
        uint32_t w = (work->idle_window + i) % count;
        best = e->compute_price[w] < e->compute_price[best] ? w : best;
    }
    if (use)
        use[best][WINDOW_COMPUTE] += work->idle_ns;
    return (scaled_ns)e->compute_price[best] * work->idle_ns;
}

/* Puts the work into the cheapest of its windows, the first and `span` others; `use` may be NULL.
 */
static scaled_ns place_work(const struct bound_evaluation *e, const struct time_work *work,
                            uint32_t span, enum window_resource resource, uint64_t ns,
                            uint64_t (*use)[WINDOW_USES])
{
    const struct certificate_window *prices = e->prices->windows;
    uint32_t count = e->model->windows->count, best = work->window;
    for (uint32_t i = 1; i <= span; i++) {
        uint32_t w = (work->window + i) % count;
        if (window_price(&prices[w], resource) < window_price(&prices[best], resource))
            best = w;
    }
    if (use)
        use[best][resource] += ns;
    return (scaled_ns)window_price(&prices[best], resource) * ns;
}

static scaled_ns work_cost(const struct bound_evaluation *e, const struct time_work *work,
                           uint64_t (*use)[WINDOW_USES])
{
    scaled_ns cost = (scaled_ns)e->compute_price[work->window] * work->compute_ns;
    if (use)
        use[work->window][WINDOW_COMPUTE] += work->compute_ns;
    cost += place_work(e, work, work->span, WINDOW_HOST, work->host_ns, use);
    cost += place_work(e, work, work->span, WINDOW_H2D, work->h2d_ns, use);
    cost += place_work(e, work, work->span, WINDOW_NETWORK, work->network_ns, use);
    cost += place_work(e, work, work->span, WINDOW_MEMORY, work->memory_ns, use);
    cost += work->idle_ns ? place_idle(e, work, use) : 0;
    return cost + place_work(e, work, work->d2h_span, WINDOW_D2H, work->d2h_ns, use);
}

/* Returns the price of the block's part in chains, if its updates run on the host. */
static scaled_ns chains_cost(const struct bound_evaluation *e, uint32_t block)
{
    scaled_ns cost = 0;
    for (uint32_t r = 0; r < e->prices->chain_count; r++) {
        const struct time_chain *chain = &e->prices->chains[r];
        cost += (scaled_ns)chain->ends.price * chain->host_ns[block];
    }
    return cost;
}

/* What a block takes. */
struct block_use {
    uint64_t (*windows)[WINDOW_USES]; /* [window count] */
    uint64_t host_bytes;
};

static void use_chunk(const struct bound_evaluation *e, int side, uint32_t c, bool has_host_slot,
                      struct block_use *use)
{
    const struct route_chunk *chunk = &e->model->chunks[c];
    route_follow(&e->model->routes[side][c], chunk, e->prices->windows, e->from, use->windows);
    use->host_bytes += has_host_slot ? chunk->host_bytes : 0;
}

/* Returns the cost of a chunk on its cheapest route, with a place on the host or, if it is never
 * copied, without. */
static scaled_ns chunk_cost(const struct bound_evaluation *e, int side, uint32_t c, bool routed,
                            bool *has_host_slot)
{
    const struct route *route = &e->model->routes[side][c];
    const struct route_chunk *chunk = &e->model->chunks[c];
    const struct certificate_window *prices = e->prices->windows;
    scaled_ns cost = route_cheapest(route, chunk, prices, true, routed ? e->from : NULL) +
                     (scaled_ns)e->prices->host_bytes * chunk->host_bytes;
    *has_host_slot = true;
    if (!route->used_on_host && e->prices->host_bytes &&
        route_cheapest(route, chunk, prices, false, NULL) < cost) {
        cost = route_cheapest(route, chunk, prices, false, routed ? e->from : NULL);
        *has_host_slot = false;
    }
    return cost;
}

/* Returns the cost of the chunks of a block. The optimizer states of a group are alike, and lie one
 * behind the other. */
static scaled_ns chunks_cost(const struct bound_evaluation *e, int side, const GArray *chunks,
                             struct block_use *use)
{
    scaled_ns cost = 0, of_one = 0;
    bool has_host_slot = false;
    for (guint i = 0; i < chunks->len; i++) {
        uint32_t c = g_array_index(chunks, uint32_t, i);
        if (!i || !time_chunks_are_alike(e->model, side, c, g_array_index(chunks, uint32_t, i - 1)))
            of_one = chunk_cost(e, side, c, use != NULL, &has_host_slot);
        if (use)
            use_chunk(e, side, c, has_host_slot, use);
        cost += of_one;
    }
    return cost;
}

/* Returns the cost of a block on one side without its parts in chains. */
static scaled_ns side_cost(const struct bound_evaluation *e, uint32_t b, int side,
                           struct block_use *use)
{
    const struct time_block *block = &e->model->blocks[b];
    scaled_ns cost = 0;
    for (guint i = 0; i < block->work[side]->len; i++)
        cost += work_cost(e, &g_array_index(block->work[side], struct time_work, i),
                          use ? use->windows : NULL);
    return cost + chunks_cost(e, side, block->chunks, use);
}

/* What a block of a kind costs on each side, and how many of them take that of the host. */
struct kind_cost {
    scaled_ns on[TIME_SIDES];
    uint32_t on_host;
};

static struct kind_cost kind_cost(const struct bound_evaluation *e, const struct time_kind *kind)
{
    const bool *excluded = e->model->blocks[kind->first].excluded;
    struct kind_cost cost = {.on = {side_cost(e, kind->first, TIME_DEVICE, NULL)}};
    if (e->model->side_count > 1 && !excluded[TIME_HOST])
        cost.on[TIME_HOST] = side_cost(e, kind->first, TIME_HOST, NULL);
    return cost;
}

static scaled_ns block_cost(const struct bound_evaluation *e, uint32_t b, struct kind_cost *kind)
{
    const bool *excluded = e->model->blocks[b].excluded;
    if (e->model->side_count == 1 || excluded[TIME_HOST])
        return kind->on[TIME_DEVICE];
    scaled_ns on_host = kind->on[TIME_HOST] + chains_cost(e, b);
    if (on_host >= kind->on[TIME_DEVICE] && !excluded[TIME_DEVICE])
        return kind->on[TIME_DEVICE];
    kind->on_host++;
    return on_host;
}

static void use_kind(const struct bound_evaluation *e, uint32_t k, const struct kind_cost *cost,
                     const struct time_use *use)
{
    const struct time_kind *kind = &e->model->kinds[k];
    struct block_use taken = {use->windows + (size_t)k * e->model->windows->count, 0};
    int side = 2 * cost->on_host > kind->count ? TIME_HOST : TIME_DEVICE;
    side_cost(e, kind->first, side, &taken);
    use->host_bytes[k] = taken.host_bytes;
    use->side[k] = (uint8_t)side;
}

static scaled_ns blocks_cost(const struct bound_evaluation *e, const struct time_use *use)
{
    const struct time_model *model = e->model;
    g_autofree struct kind_cost *costs = g_new(struct kind_cost, MAX(model->kind_count, 1));
    scaled_ns sum = 0;
    for (uint32_t k = 0; k < model->kind_count; k++)
        costs[k] = kind_cost(e, &model->kinds[k]);
    for (uint32_t b = 0; b < model->block_count; b++)
        sum += block_cost(e, b, &costs[model->kind_of[b]]);
    for (uint32_t k = 0; use && k < model->kind_count; k++)
        use_kind(e, k, &costs[k], use);
    return sum;
}

scaled_ns time_model_bound(const struct time_model *model, const struct time_prices *prices,
                           const struct time_use *use)
{
    uint32_t count = model->windows->count;
    g_autofree uint8_t(*from)[ROUTE_STATES] = g_malloc0(MAX(model->longest, 1) * sizeof *from);
    g_autofree uint64_t *compute_price = g_new(uint64_t, count);
    const struct bound_evaluation evaluation = {model, prices, compute_price, from};
    scaled_ns bound = 0;
    if (use)
        memset(use->windows, 0, (size_t)model->kind_count * count * sizeof *use->windows);
    set_compute_prices(&evaluation);
    for (uint32_t w = 0; w < count; w++) {
        const struct certificate_window *price = &prices->windows[w];
        uint64_t room = model->windows->items[w].room;
        bound += (scaled_ns)compute_price[w] * model->compute_ns[w] -
                 (scaled_ns)price->room * room -
                 (scaled_ns)price->whole * window_whole(price, room);
    }
    for (uint32_t r = 0; r < prices->chain_count; r++)
        bound += (scaled_ns)prices->chains[r].ends.price * prices->chains[r].always_ns;
    if (model->host_bytes != UINT64_MAX)
        bound -= (scaled_ns)prices->host_bytes * model->host_bytes;
    return bound + blocks_cost(&evaluation, use);
}

uint64_t time_model_bound_ns(const struct time_model *model, const struct time_prices *prices)
{
    scaled_ns bound = time_model_bound(model, prices, NULL);
    return bound > 0 ? (uint64_t)(bound / BOUND_PRICE_SCALE) : 0;
}
