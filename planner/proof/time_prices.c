#include "planner/proof/bound.h"
#include "planner/proof/simplex.h"
#include "planner/proof/time_master.h"

#include <math.h>
#include <string.h>

enum { ROUNDS_MOST = 600 };

/* After so many steps without better prices, steps become shorter. If there are few blocks, optimal
 * prices of the master program, of which there are many, are then also taken from the middle of
 * them, by an interior point. With many blocks this takes too long, and is not needed. */
enum { IDLE_STEPS = 3, FEW_BLOCKS = 64 };

/* With few blocks, so many steps without better prices end the search; more if the best bound is
 * further below the mix. */
enum { IDLE_MOST = 20, IDLE_MOST_WIDE = 100 };
#define WIDE 0.05

/* Chains are added to the program at most so often, and at most so many at a time, if they are
 * longer than their windows in the mix, by more than this share of all of it. */
enum { CHAIN_ROUNDS = 8, CHAINS_AT_A_TIME = 4, CHAINS_MOST = CHAIN_ROUNDS * CHAINS_AT_A_TIME };
#define CHAIN_BREACH 5e-4

/* The step from the best prices towards the prices of the master program, which jump. */
#define SMOOTHING 0.9
#define SHORTER   0.8 /* times as long after each step that does not improve the prices, .. */
#define SHORTEST  0.1

/* The first prices: of each direction of the link and of the network, and of the host's memory;
 * compute has the rest. Where the master's prices do not improve on those of compute or memory
 * alone, these are the bound. */
static const struct {
    double link, memory;
} first_shares[] = {{0.3, 0}, {0, 0}, {0, 1}};

struct price_search {
    const struct time_model *model;
    struct time_master *program;
    struct certificate_window *best, *dual;
    uint64_t *best_chains, *dual_chains; /* [CHAINS_MOST] */
    uint64_t best_host, dual_host;       /* of a byte of the host's memory */
    scaled_ns best_bound, enough;
    bool may_be_central; /* takes prices from the middle of the optimal ones where that helps */
};

static uint32_t window_count(const struct price_search *s)
{
    return s->model->windows->count;
}

/* ---- prices ---- */

static uint64_t share_of(double dual)
{
    return (uint64_t)(CLAMP(dual, 0, 1) * BOUND_PRICE_SCALE);
}

/* Rounding may have made the prices of a window exceed their sum. */
static void cut_shares(struct certificate_window *price, uint64_t rest)
{
    price->h2d = MIN(price->h2d, rest);
    price->d2h = MIN(price->d2h, rest - price->h2d);
    price->host = MIN(price->host, rest - price->h2d - price->d2h);
    price->network = MIN(price->network, rest - price->h2d - price->d2h - price->host);
    price->memory = MIN(price->memory,
                        rest - price->h2d - price->d2h - price->host - price->network);
}

/* Lowers prices of windows, and then of chains, until those of no window exceed their sum. */
static void cut_prices(const struct price_search *s, struct certificate_window *prices,
                       uint64_t *chains)
{
    uint32_t count = window_count(s);
    g_autofree uint64_t *rest = g_new(uint64_t, count);
    for (uint32_t w = 0; w < count; w++)
        rest[w] = BOUND_PRICE_SCALE;
    for (uint32_t r = 0; r < s->program->chains->len; r++) {
        const struct time_chain *chain = time_master_chain(s->program, r);
        for (uint32_t i = 0; i < chain->span; i++)
            chains[r] = MIN(chains[r], rest[(chain->window + i) % count]);
        for (uint32_t i = 0; i < chain->span; i++)
            rest[(chain->window + i) % count] -= chains[r];
    }
    for (uint32_t w = 0; w < count; w++)
        cut_shares(&prices[w], rest[w]);
}

static void read_duals(struct price_search *s)
{
    double room_unit = s->program->ns_unit / s->program->byte_unit * BOUND_PRICE_SCALE;
    for (uint32_t w = 0; w < window_count(s); w++) {
        struct certificate_window *price = &s->dual[w];
        price->h2d =
            share_of(time_master_dual(s->program, time_master_row(s->program, w, WINDOW_H2D)));
        price->d2h =
            share_of(time_master_dual(s->program, time_master_row(s->program, w, WINDOW_D2H)));
        price->host =
            share_of(time_master_dual(s->program, time_master_row(s->program, w, WINDOW_HOST)));
        if (s->model->networked)
            price->network = share_of(
                time_master_dual(s->program, time_master_row(s->program, w, WINDOW_NETWORK)));
        if (s->model->shares_memory)
            price->memory = share_of(
                time_master_dual(s->program, time_master_row(s->program, w, WINDOW_MEMORY)));
        double room = -time_master_dual(s->program, time_master_row(s->program, w, WINDOW_ROOM)) *
                      room_unit;
        double whole = price->unit ? -time_master_dual(
                                         s->program, time_master_row(s->program, w, WINDOW_WHOLE)) *
                                         room_unit
                                   : 0;
        price->room = (uint64_t)CLAMP(room, 0, (double)CERTIFICATE_ROOM_PRICE_MOST);
        price->whole = (uint64_t)CLAMP(whole, 0, (double)CERTIFICATE_ROOM_PRICE_MOST);
    }
    s->dual_host =
        (uint64_t)CLAMP(-time_master_dual(s->program, time_master_host_row(s->program)) * room_unit,
                        0, (double)time_master_host_price_most(s->program));
    for (uint32_t r = 0; r < s->program->chains->len; r++)
        s->dual_chains[r] =
            share_of(time_master_dual(s->program, time_master_chain_row(s->program, r)));
    cut_prices(s, s->dual, s->dual_chains);
}

static uint64_t between(uint64_t a, uint64_t b, double share)
{
    return (uint64_t)((double)a + share * ((double)b - (double)a));
}

/* Goes part of the way from the best prices to the master's. Returns the price of a byte of the
 * host's memory. */
static uint64_t mix_prices(const struct price_search *s, double share,
                           struct certificate_window *mixed, uint64_t *chains)
{
    for (uint32_t w = 0; w < window_count(s); w++) {
        const struct certificate_window *from = &s->best[w], *to = &s->dual[w];
        mixed[w] =
            (struct certificate_window){.moment = from->moment,
                                        .begins = from->begins,
                                        .h2d = between(from->h2d, to->h2d, share),
                                        .d2h = between(from->d2h, to->d2h, share),
                                        .host = between(from->host, to->host, share),
                                        .network = between(from->network, to->network, share),
                                        .memory = between(from->memory, to->memory, share),
                                        .room = between(from->room, to->room, share),
                                        .unit = from->unit,
                                        .whole = between(from->whole, to->whole, share)};
    }
    for (uint32_t r = 0; r < s->program->chains->len; r++)
        chains[r] = between(s->best_chains[r], s->dual_chains[r], share);
    cut_prices(s, mixed, chains);
    return between(s->best_host, s->dual_host, share);
}

/* Returns whether these are the best prices so far. */
static bool try_prices(struct price_search *s, const struct certificate_window *prices,
                       const uint64_t *chains, uint64_t host_bytes)
{
    for (uint32_t r = 0; r < s->program->chains->len; r++)
        g_array_index(s->program->chains, struct time_chain, r).ends.price = chains[r];
    const struct time_prices all = {prices, (struct time_chain *)(void *)s->program->chains->data,
                                    s->program->chains->len, host_bytes};
    scaled_ns bound = time_model_bound(s->model, &all, &s->program->use);
    if (bound <= s->best_bound)
        return false;
    s->best_bound = bound;
    s->best_host = host_bytes;
    memcpy(s->best, prices, window_count(s) * sizeof *prices);
    memcpy(s->best_chains, chains, s->program->chains->len * sizeof *chains);
    return true;
}

/* ---- rounds ---- */

/* Adds routes that take no room, so that there is always a mix, and those for the first prices. */
static void begin(struct price_search *s, struct certificate_window *prices)
{
    const uint64_t no_chains[1] = {0};
    for (uint32_t w = 0; w < window_count(s); w++)
        s->best[w] = prices[w] = s->dual[w] =
            (struct certificate_window){.moment = s->model->windows->items[w].moment,
                                        .begins = s->model->windows->items[w].begins,
                                        .room = CERTIFICATE_ROOM_PRICE_MOST,
                                        .unit = s->program->units[w]};
    try_prices(s, prices, no_chains, 0);
    time_master_append(s->program);
    s->best_bound = -1;
    size_t count = G_N_ELEMENTS(first_shares) - !s->model->shares_memory;
    for (size_t i = 0; i < count; i++) {
        for (uint32_t w = 0; w < window_count(s); w++) {
            prices[w].room = 0;
            prices[w].h2d = prices[w].d2h = share_of(first_shares[i].link);
            prices[w].network = s->model->networked ? share_of(first_shares[i].link) : 0;
            prices[w].memory = share_of(first_shares[i].memory);
        }
        try_prices(s, prices, no_chains, 0);
        time_master_append(s->program);
    }
}

/* Solves the program. Returns false if there is no solution. */
static bool solve(struct price_search *s, int idle)
{
    if (!simplex_solve(s->program->lp, SIMPLEX_WARM))
        return false;
    s->program->is_central = s->may_be_central && idle >= IDLE_STEPS &&
                             simplex_find_middle(s->program->lp);
    return true;
}

/* Returns the step towards the master's prices after so many that improved nothing. */
static double step_after(int idle)
{
    if (idle < IDLE_STEPS)
        return SMOOTHING;
    return fmax(SMOOTHING * pow(SHORTER, idle - IDLE_STEPS), SHORTEST);
}

/* Returns whether the program was solved, and more is wanted and may be sought. */
static bool improve(struct price_search *s, double close, struct certificate_window *prices)
{
    uint64_t chains[CHAINS_MOST];
    double share = SMOOTHING;
    int idle = 0;
    for (int round = 0; round < ROUNDS_MOST; round++) {
        if (!solve(s, idle))
            return false;
        double optimum = glp_get_obj_val(s->program->lp) * s->program->ns_unit * BOUND_PRICE_SCALE;
        if (s->best_bound >= s->enough || !proof_goes_on(s->model->watch))
            return false;
        if (optimum - (double)s->best_bound <= close * optimum)
            return true;
        read_duals(s);
        time_master_forget(s->program);
        uint64_t host_bytes = mix_prices(s, share, prices, chains);
        idle = try_prices(s, prices, chains, host_bytes) ? 0 : idle + 1;
        bool more = time_master_add_ways(s->program) > 0;
        bool wide = (double)s->best_bound < (1 - WIDE) * optimum;
        if ((!more && share == 1) ||
            (idle > (wide ? IDLE_MOST_WIDE : IDLE_MOST) && s->model->block_count <= FEW_BLOCKS))
            return true;
        share = more ? step_after(idle) : 1;
    }
    return true;
}

/* ---- the host's memory ---- */

/* Limits the host's memory if the mix takes more than there is. */
static void limit_host(struct price_search *s, double close, struct certificate_window *prices)
{
    double limit = (double)s->model->host_bytes / s->program->byte_unit;
    if (s->model->host_bytes == UINT64_MAX ||
        glp_get_row_prim(s->program->lp, time_master_host_row(s->program)) <= limit)
        return;
    glp_set_row_bnds(s->program->lp, time_master_host_row(s->program), GLP_UP, 0, limit);
    memcpy(prices, s->best, window_count(s) * sizeof *prices);
    try_prices(s, prices, s->best_chains, time_master_host_price_most(s->program));
    time_master_append(s->program);
    improve(s, close, prices);
}

/* ---- chains ---- */

/* Returns the share of a block of each kind that the mix has on the host. */
static double *host_shares(const struct price_search *s)
{
    const struct time_model *model = s->model;
    double *shares = g_new0(double, model->kind_count);
    for (guint i = 0; i < s->program->ways->len; i++) {
        const struct time_way *way = &g_array_index(s->program->ways, struct time_way, i);
        shares[way->kind] += way->side == TIME_HOST
                                 ? time_master_share(s->program, i) / model->kinds[way->kind].count
                                 : 0;
    }
    return shares;
}

static void read_shares(const struct price_search *s, double *on_host)
{
    g_autofree double *shares = host_shares(s);
    for (uint32_t b = 0; b < s->model->block_count; b++)
        on_host[b] = shares[s->model->kind_of[b]];
}

/* Returns by how much the chain is longer than its windows in the mix, in units of the program. */
static double breach_of(const struct price_search *s, const struct time_chain *chain,
                        const double *shares)
{
    double length = (double)chain->always_ns, windows = 0;
    for (uint32_t b = 0; b < s->model->block_count; b++)
        length += (double)chain->host_ns[b] * shares[s->model->kind_of[b]];
    for (uint32_t i = 0; i < chain->span; i++)
        windows += glp_get_col_prim(s->program->lp,
                                    (int)((chain->window + i) % window_count(s)) + 1);
    return length / s->program->ns_unit - windows;
}

/* Adds the proposed chains that the mix breaks the most. Returns whether there are any. */
static bool add_chains(struct price_search *s, GArray *proposed)
{
    g_autofree double *shares = host_shares(s);
    double least = CHAIN_BREACH * glp_get_obj_val(s->program->lp);
    bool added = false;
    for (int i = 0; i < CHAINS_AT_A_TIME; i++) {
        struct time_chain *worst = NULL;
        double most = least;
        for (guint r = 0; r < proposed->len; r++) {
            struct time_chain *chain = &g_array_index(proposed, struct time_chain, r);
            double breach = chain->host_ns ? breach_of(s, chain, shares) : 0;
            worst = breach > most ? chain : worst;
            most = fmax(most, breach);
        }
        if (!worst)
            break;
        time_master_add_chain(s->program, worst);
        added = true;
    }
    return added;
}

/* Tries shares of the chain's windows as its price, which the best prices leave to it. */
static void try_chain(struct price_search *s, uint32_t r, struct certificate_window *prices)
{
    const struct time_chain *chain = time_master_chain(s->program, r);
    uint64_t chains[CHAINS_MOST];
    for (int eighths = 8; eighths > 0; eighths /= 2) {
        double rest = 1 - eighths / 8.0;
        memcpy(prices, s->best, window_count(s) * sizeof *prices);
        memcpy(chains, s->best_chains, s->program->chains->len * sizeof *chains);
        for (uint32_t i = 0; i < chain->span; i++) {
            struct certificate_window *price = &prices[(chain->window + i) % window_count(s)];
            price->h2d = between(0, price->h2d, rest);
            price->d2h = between(0, price->d2h, rest);
            price->host = between(0, price->host, rest);
            price->network = between(0, price->network, rest);
            price->memory = between(0, price->memory, rest);
        }
        for (uint32_t other = 0; other < s->program->chains->len; other++)
            chains[other] = between(0, chains[other], rest);
        chains[r] += (uint64_t)(BOUND_PRICE_SCALE / 8 * eighths);
        cut_prices(s, prices, chains);
        if (try_prices(s, prices, chains, between(0, s->best_host, rest)))
            time_master_append(s->program);
    }
}

static void improve_with_chains(struct price_search *s, double close,
                                struct certificate_window *prices)
{
    GArray *proposed = chains_propose(s->model->chain_operators, s->model->windows);
    for (int round = 0; round < CHAIN_ROUNDS; round++) {
        uint32_t before = s->program->chains->len;
        if (!add_chains(s, proposed))
            break;
        for (uint32_t r = before; r < s->program->chains->len; r++)
            try_chain(s, r, prices);
        if (!improve(s, close, prices))
            break;
    }
    g_array_unref(proposed);
}

/* Gives the chains the best prices found, and removes those without a price. */
static void keep_chains(struct price_search *s)
{
    for (guint r = s->program->chains->len; r-- > 0;) {
        g_array_index(s->program->chains, struct time_chain, r).ends.price = s->best_chains[r];
        if (!s->best_chains[r])
            g_array_remove_index(s->program->chains, r);
    }
}

struct certificate_window *time_prices_find(const struct time_model *model, double close,
                                            uint64_t enough_ns, GArray *chains,
                                            uint64_t *host_bytes, double *on_host, bool central)
{
    uint32_t count = model->windows->count;
    g_autofree struct certificate_window *prices = g_new0(struct certificate_window, count);
    struct price_search search = {.model = model,
                                  .program = time_master_new(model, chains, CHAINS_MOST),
                                  .best = g_new0(struct certificate_window, count),
                                  .dual = g_new0(struct certificate_window, count),
                                  .best_chains = g_new0(uint64_t, CHAINS_MOST),
                                  .dual_chains = g_new0(uint64_t, CHAINS_MOST),
                                  .enough = (scaled_ns)enough_ns * BOUND_PRICE_SCALE,
                                  .may_be_central = central && model->block_count <= FEW_BLOCKS};
    begin(&search, prices);
    bool more = improve(&search, close, prices);
    if (on_host)
        read_shares(&search, on_host + model->block_count);
    if (more)
        limit_host(&search, close, prices);
    if (more && chains)
        improve_with_chains(&search, close, prices);
    keep_chains(&search);
    *host_bytes = search.best_host;
    if (on_host)
        read_shares(&search, on_host);
    time_master_free(search.program);
    g_free(search.dual);
    g_free(search.best_chains);
    g_free(search.dual_chains);
    return search.best;
}
