#include "planner/proof/joint.h"

#include "planner/proof/joint_copies.h"

#include <string.h>

/* States that stay take the device in at most about so many steps. */
enum { KEPT_STEPS = 12 };

static scaled_ns work_cost(const struct joint_work *work, const struct certificate_joint *prices)
{
    uint64_t compute = BOUND_PRICE_SCALE - prices->h2d - prices->d2h - prices->host;
    return (scaled_ns)compute * work->compute_ns + (scaled_ns)prices->host * work->host_ns +
           (scaled_ns)prices->h2d * work->h2d_ns + (scaled_ns)prices->d2h * work->d2h_ns;
}

static scaled_ns moving_cost(const struct joint_state *state,
                             const struct certificate_joint *prices)
{
    return (scaled_ns)prices->h2d * state->h2d_ns + (scaled_ns)prices->d2h * state->d2h_ns;
}

/* Returns what the group takes on the cheaper side. A state moves, or pays for its room. */
static scaled_ns group_cost(const struct joint_model *model, uint32_t g,
                            const struct certificate_joint *prices)
{
    scaled_ns least = JOINT_IMPOSSIBLE;
    for (uint32_t side = 0; side < model->side_count; side++) {
        const struct joint_work *work = &model->works[side][g];
        scaled_ns cost = work_cost(work, prices);
        for (guint i = 0; i < work->states->len; i++) {
            const struct joint_state *state = &g_array_index(work->states, struct joint_state, i);
            scaled_ns moved = moving_cost(state, prices);
            scaled_ns stays = (scaled_ns)prices->kept * state->bytes;
            cost += MIN(moved, stays);
        }
        least = MIN(least, cost);
    }
    return least;
}

static uint64_t kept_step(const struct joint_model *model)
{
    return MAX(model->state_least, model->job->plan->device_budget / KEPT_STEPS);
}

/* Lowers *least, the cost of the copies if no state stays, to the least cost of the copies less the
 * price of the room of the states that stay, however much that is. Returns false if it is given up.
 */
static bool keep_states(const struct joint_model *model, const struct certificate_joint *prices,
                        scaled_ns *least)
{
    uint64_t step = kept_step(model);
    for (uint64_t from = model->state_least; from <= model->state_bytes; from += step) {
        scaled_ns copies;
        if (!joint_copies_cost(model, prices, from, &copies))
            return false;
        if (copies == JOINT_IMPOSSIBLE)
            break;
        scaled_ns cost = copies - (scaled_ns)prices->kept * MIN(from + step, model->state_bytes);
        *least = MIN(*least, cost);
    }
    return true;
}

/* Returns the bound of these prices in nanoseconds; 0 if it is given up, or if it is at most
 * `least_ns`, which shows soon. */
static uint64_t joint_bound(const struct joint_model *model, const struct certificate_joint *prices,
                            uint64_t least_ns)
{
    scaled_ns copies, works = work_cost(&model->always, prices);
    for (uint32_t g = 0; g < model->group_count; g++)
        works += group_cost(model, g, prices);
    if (!joint_copies_cost(model, prices, 0, &copies) || copies == JOINT_IMPOSSIBLE ||
        copies + works <= (scaled_ns)least_ns * BOUND_PRICE_SCALE ||
        !keep_states(model, prices, &copies))
        return 0;
    scaled_ns bound = copies + works;
    return bound > 0 ? (uint64_t)(bound / BOUND_PRICE_SCALE) : 0;
}

const char *joint_recompute(const struct time_job *job, const struct certificate_joint *stated,
                            uint64_t *bound)
{
    *bound = 0;
    if (!stated->chunks)
        return NULL;
    if (stated->h2d + stated->d2h + stated->host > BOUND_PRICE_SCALE)
        return "the prices of the largest chunks exceed the iteration's time";
    struct joint_model *model = joint_model_new(job, stated->chunks);
    if (!model)
        return "the largest chunks have prices, but no bound";
    *bound = joint_bound(model, stated, 0);
    joint_model_free(model);
    return NULL;
}

/* ---- the search ---- */

/* Shares of the time are multiples of one in SHARES. */
enum { SHARES = 32, FIRST_STEP = 8, LAST_STEP = 2, CHUNKS_LEAST = 4, CHUNKS_FEWER = 3 };

/* The best prices so far. */
struct joint_search {
    const struct joint_model *model;
    struct certificate_joint best;
    uint64_t bound;
    int shares[4]; /* of both directions, the host and the device */
};

/* Returns the price of a byte at which it is best for every state to move. */
static uint64_t dearest_room(const struct joint_model *model,
                             const struct certificate_joint *prices)
{
    uint64_t most = 0;
    for (uint32_t g = 0; g < model->group_count; g++)
        for (guint i = 0; i < model->works[0][g].states->len; i++) {
            const struct joint_state *state = &g_array_index(model->works[0][g].states,
                                                             struct joint_state, i);
            uint64_t price = (uint64_t)(moving_cost(state, prices) / state->bytes) + 1;
            most = MAX(most, price);
        }
    return MIN(most, CERTIFICATE_ROOM_PRICE_MOST);
}

/* Tries the shares with several prices of room. Returns whether that is better. */
static bool try_shares(struct joint_search *search, const int shares[4])
{
    const uint64_t one = BOUND_PRICE_SCALE / SHARES;
    struct certificate_joint prices = {.chunks = search->model->chunk_count,
                                       .h2d = one * (uint64_t)shares[0],
                                       .d2h = one * (uint64_t)shares[1],
                                       .host = one * (uint64_t)shares[2]};
    uint64_t dearest = dearest_room(search->model, &prices);
    bool better = false;
    for (uint64_t quarters = 4; quarters > 0; quarters--) {
        prices.kept = dearest / 4 * quarters;
        uint64_t bound = joint_bound(search->model, &prices, search->bound);
        if (bound <= search->bound)
            break;
        search->bound = bound;
        search->best = prices;
        memcpy(search->shares, shares, sizeof search->shares);
        better = true;
    }
    return better;
}

/* Moves a part of the time from one resource to another. */
static bool try_move(struct joint_search *search, int from, int to, int step)
{
    int shares[4];
    memcpy(shares, search->shares, sizeof shares);
    shares[from] -= step;
    shares[to] += step;
    return shares[from] >= 0 && try_shares(search, shares);
}

static void seek_prices(struct joint_search *search)
{
    static const int first[][4] = {
        {SHARES, 0, 0, 0}, {0, SHARES, 0, 0}, {SHARES / 2, SHARES / 2, 0, 0}};
    for (size_t i = 0; i < G_N_ELEMENTS(first); i++)
        try_shares(search, first[i]);
    for (int step = FIRST_STEP; step >= LAST_STEP && search->best.chunks; step /= 2)
        for (int way = 0; way < 16; way++)
            if (way / 4 != way % 4)
                while (try_move(search, way / 4, way % 4, step))
                    continue;
}

uint64_t joint_prove(const struct time_job *job, uint64_t least_ns, struct certificate_joint *found)
{
    struct joint_search search = {.bound = least_ns};
    for (int most = CERTIFICATE_JOINT_MOST; most >= CHUNKS_LEAST && !search.best.chunks;
         most -= CHUNKS_FEWER) {
        struct joint_model *model = joint_model_new(job, (uint32_t)most);
        if (!model)
            break;
        search.model = model;
        most = MIN(most, (int)model->chunk_count);
        if (model->chunk_count)
            seek_prices(&search);
        joint_model_free(model);
    }
    *found = search.best;
    return search.bound;
}
