#include "planner/proof/prices.h"

#include "planner/proof/bound.h"
#include "planner/proof/simplex.h"

#include <math.h>
#include <string.h>

enum { ROUNDS_MOST = 600 };

/* The greatest price of the host's memory, in copies of all chunks in both directions. */
#define HOST_WORTH 64

/* Room is also counted in whole units if that takes more than this part of it away. */
enum { LEAST_LOSS = 100 };

/* After so many steps without better prices, steps become shorter. If there are few blocks, optimal
 * prices of the master program, of which there are many, are then also taken from the middle of
 * them, by an interior point. With many blocks this takes too long, and is not needed. */
enum { IDLE_STEPS = 3, FEW_BLOCKS = 64 };

/* With few blocks, so many steps without better prices end the search; more if the best bound is
 * further below the mix. */
enum { IDLE_MOST = 20, IDLE_MOST_WIDE = 100 };
#define WIDE 0.05

/* Rounds after which the program forgets a route that its mix has none of. */
enum { UNUSED_MOST = 4 };

/* Chains are added to the program at most so often, and at most so many at a time, if they are
 * longer than their windows in the mix, by more than this share of all of it. */
enum { CHAIN_ROUNDS = 8, CHAINS_AT_A_TIME = 4, CHAINS_MOST = CHAIN_ROUNDS * CHAINS_AT_A_TIME };
#define CHAIN_BREACH 5e-4

/* The step from the best prices towards the prices of the master program, which jump. */
#define SMOOTHING 0.9
#define SHORTER   0.8 /* times as long after each step that does not improve the prices, .. */
#define SHORTEST  0.1

/* The first prices of each direction of the link, and of the network; compute has the rest. Where
 * the master's prices do not improve on those of compute alone, these are the bound. */
static const double first_shares[] = {0.3, 0};

/* Rows: for each window and resource, the window's length less what blocks take is at least what is
 * always there. Then the room of each window. Then each block takes one route. Then the host's
 * memory. Then the windows that contain a chain are at least as long. Columns: lengths of the
 * windows, whose sum is minimised, memory that the host lacks, which costs more than anything else,
 * then shares of routes. */
struct time_master {
    const struct time_model *model;
    glp_prob *lp;
    double ns_unit, byte_unit;
    struct time_use use; /* of the routes found last */
    GArray *ways;        /* struct time_way of the columns after those of the windows */
    GArray *chains;      /* struct time_chain of the rows, with the prices at hand */
    struct certificate_window *best, *dual;
    uint64_t *best_chains, *dual_chains; /* [CHAINS_MOST] */
    uint64_t best_host, dual_host;       /* of a byte of the host's memory */
    scaled_ns best_bound, enough;
    bool is_central; /* the duals at hand are those of the interior point */
    int *rows;       /* scratch space for a column */
    double *values;
};

struct time_way {
    uint32_t block;
    uint16_t unused; /* rounds in a row in which the mix has none of it */
    uint8_t side;    /* enum time_side */
};

static uint32_t window_count(const struct time_master *m)
{
    return m->model->windows->count;
}

static double row_dual(const struct time_master *m, int row)
{
    return m->is_central ? glp_ipt_row_dual(m->lp, row) : glp_get_row_dual(m->lp, row);
}

/* Without a network, windows have no row for it. */
static uint32_t rows_of_window(const struct time_master *m)
{
    return WINDOW_USES - !m->model->networked;
}

static int row_of(const struct time_master *m, uint32_t window, enum window_resource use)
{
    uint32_t row = (uint32_t)use - (use > WINDOW_NETWORK && !m->model->networked);
    return (int)(window * rows_of_window(m) + row) + 1;
}

static int row_of_block(const struct time_master *m, uint32_t block)
{
    return (int)(window_count(m) * rows_of_window(m) + block) + 1;
}

static int row_of_host(const struct time_master *m)
{
    return row_of_block(m, m->model->block_count);
}

static int row_of_chain(const struct time_master *m, uint32_t chain)
{
    return row_of_host(m) + 1 + (int)chain;
}

static int column_of_way(const struct time_master *m, guint way)
{
    return (int)(window_count(m) + way) + 2;
}

static void choose_units(struct time_master *m)
{
    const struct time_model *model = m->model;
    for (uint32_t w = 0; w < window_count(m); w++) {
        m->ns_unit += (double)model->compute_ns[w] / window_count(m);
        m->byte_unit += (double)model->windows->items[w].room / window_count(m);
    }
    for (uint32_t c = 0; c < model->chunk_count; c++)
        m->ns_unit += (double)model->chunks[c].fetch_ns / window_count(m);
    m->ns_unit = fmax(1, m->ns_unit);
    m->byte_unit = fmax(1, m->byte_unit);
}

/* Returns the unit of room in which chunks of about its size lose the most: what is left of the
 * room when it is full of them. 0 if all chunks of that size fit, or nearly nothing is lost. */
static uint64_t choose_whole(const struct time_model *model, const struct time_window *window)
{
    uint64_t best = 0, most = window->room / LEAST_LOSS;
    for (uint32_t c = 0; c < model->chunk_count; c++) {
        uint64_t unit = model->chunks[c].bytes, loss = window->room % unit, whole = 0;
        bool seen = c > 0 && unit == model->chunks[c - 1].bytes;
        if (loss <= most || seen || window->of_update)
            continue;
        for (uint32_t other = 0; other < model->chunk_count; other++)
            whole += model->chunks[other].bytes / unit;
        if (whole > window->room / unit) {
            most = loss;
            best = unit;
        }
    }
    return best;
}

/* Returns a price of a byte of the host's memory above which no schedule pays: copying all chunks
 * in both directions HOST_WORTH times costs less. */
static uint64_t host_price_most(const struct time_master *m)
{
    double ns = 0, bytes = 1;
    for (uint32_t c = 0; c < m->model->chunk_count; c++) {
        ns += (double)m->model->chunks[c].fetch_ns + (double)m->model->chunks[c].d2h_ns;
        bytes += (double)m->model->chunks[c].host_bytes;
    }
    return (uint64_t)fmin(HOST_WORTH * ns / bytes * BOUND_PRICE_SCALE,
                          (double)CERTIFICATE_ROOM_PRICE_MOST);
}

/* Bytes that the host lacks cost as much as the greatest price of one. The row has no limit yet. */
static void add_host_row(struct time_master *m)
{
    const int rows[] = {0, row_of_host(m)}, column = (int)window_count(m) + 1;
    const double lacking[] = {0, -1};
    double most = (double)host_price_most(m) / BOUND_PRICE_SCALE * m->byte_unit / m->ns_unit;
    glp_set_row_bnds(m->lp, rows[1], GLP_FR, 0, 0);
    glp_set_col_bnds(m->lp, column, GLP_LO, 0, 0);
    glp_set_obj_coef(m->lp, column, most);
    glp_set_mat_col(m->lp, column, 1, rows, lacking);
}

static void add_rows(struct time_master *m)
{
    const struct time_model *model = m->model;
    glp_add_rows(m->lp, row_of_host(m));
    glp_add_cols(m->lp, (int)window_count(m) + 1);
    for (uint32_t w = 0; w < window_count(m); w++) {
        int rows[WINDOW_ROOM + 1], count = 0;
        double ones[WINDOW_ROOM + 1];
        for (int use = 0; use < WINDOW_ROOM; use++) {
            double always = use == WINDOW_COMPUTE ? (double)model->compute_ns[w] / m->ns_unit : 0;
            if (use == WINDOW_NETWORK && !model->networked)
                continue;
            glp_set_row_bnds(m->lp, row_of(m, w, use), GLP_LO, always, 0);
            rows[++count] = row_of(m, w, use);
            ones[count] = 1;
        }
        uint64_t room = model->windows->items[w].room;
        glp_set_row_bnds(m->lp, row_of(m, w, WINDOW_ROOM), GLP_UP, 0, (double)room / m->byte_unit);
        glp_set_row_bnds(m->lp, row_of(m, w, WINDOW_WHOLE), GLP_UP, 0,
                         (double)window_whole(&m->best[w], room) / m->byte_unit);
        glp_set_col_bnds(m->lp, (int)w + 1, GLP_LO, 0, 0);
        glp_set_obj_coef(m->lp, (int)w + 1, 1);
        glp_set_mat_col(m->lp, (int)w + 1, count, rows, ones);
    }
    for (uint32_t b = 0; b < model->block_count; b++)
        glp_set_row_bnds(m->lp, row_of_block(m, b), GLP_FX, 1, 1);
    add_host_row(m);
}

static const struct time_chain *chain_at(const struct time_master *m, uint32_t r)
{
    return &g_array_index(m->chains, struct time_chain, r);
}

/* Writes the route of the block found last as a column; returns its number of entries. */
static int fill_column(struct time_master *m, uint32_t block)
{
    int count = 1;
    m->rows[1] = row_of_block(m, block);
    m->values[1] = 1;
    for (uint32_t w = 0; w < window_count(m); w++)
        for (int use = 0; use < WINDOW_USES; use++) {
            uint64_t amount = m->use.windows[(size_t)block * window_count(m) + w][use];
            if (!amount)
                continue;
            m->rows[++count] = row_of(m, w, use);
            m->values[count] = use >= WINDOW_ROOM ? (double)amount / m->byte_unit
                                                  : -(double)amount / m->ns_unit;
        }
    if (m->use.host_bytes[block]) {
        m->rows[++count] = row_of_host(m);
        m->values[count] = (double)m->use.host_bytes[block] / m->byte_unit;
    }
    for (uint32_t r = 0; m->use.side[block] == TIME_HOST && r < m->chains->len; r++)
        if (chain_at(m, r)->host_ns[block]) {
            m->rows[++count] = row_of_chain(m, r);
            m->values[count] = -(double)chain_at(m, r)->host_ns[block] / m->ns_unit;
        }
    return count;
}

static void append_column(struct time_master *m, uint32_t block)
{
    const struct time_way way = {.block = block, .side = m->use.side[block]};
    int entries = fill_column(m, block);
    int column = glp_add_cols(m->lp, 1);
    glp_set_col_bnds(m->lp, column, GLP_LO, 0, 0);
    glp_set_mat_col(m->lp, column, entries, m->rows, m->values);
    g_array_append_val(m->ways, way);
}

static void append_columns(struct time_master *m)
{
    for (uint32_t b = 0; b < m->model->block_count; b++)
        append_column(m, b);
}

/* Adds routes that would shorten the mix at the master's prices; returns how many. */
static int add_ways(struct time_master *m)
{
    int added = 0;
    for (uint32_t b = 0; b < m->model->block_count; b++) {
        int entries = fill_column(m, b);
        double worth = 0;
        for (int i = 1; i <= entries; i++)
            worth += m->values[i] * row_dual(m, m->rows[i]);
        if (worth > 1e-9) {
            append_column(m, b);
            added++;
        }
    }
    return added;
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
}

/* Lowers prices of windows, and then of chains, until those of no window exceed their sum. */
static void cut_prices(const struct time_master *m, struct certificate_window *prices,
                       uint64_t *chains)
{
    uint32_t count = window_count(m);
    g_autofree uint64_t *rest = g_new(uint64_t, count);
    for (uint32_t w = 0; w < count; w++)
        rest[w] = BOUND_PRICE_SCALE;
    for (uint32_t r = 0; r < m->chains->len; r++) {
        const struct time_chain *chain = chain_at(m, r);
        for (uint32_t i = 0; i < chain->span; i++)
            chains[r] = MIN(chains[r], rest[(chain->window + i) % count]);
        for (uint32_t i = 0; i < chain->span; i++)
            rest[(chain->window + i) % count] -= chains[r];
    }
    for (uint32_t w = 0; w < count; w++)
        cut_shares(&prices[w], rest[w]);
}

static void read_duals(struct time_master *m)
{
    double room_unit = m->ns_unit / m->byte_unit * BOUND_PRICE_SCALE;
    for (uint32_t w = 0; w < window_count(m); w++) {
        struct certificate_window *price = &m->dual[w];
        price->h2d = share_of(row_dual(m, row_of(m, w, WINDOW_H2D)));
        price->d2h = share_of(row_dual(m, row_of(m, w, WINDOW_D2H)));
        price->host = share_of(row_dual(m, row_of(m, w, WINDOW_HOST)));
        if (m->model->networked)
            price->network = share_of(row_dual(m, row_of(m, w, WINDOW_NETWORK)));
        double room = -row_dual(m, row_of(m, w, WINDOW_ROOM)) * room_unit;
        double whole = price->unit ? -row_dual(m, row_of(m, w, WINDOW_WHOLE)) * room_unit : 0;
        price->room = (uint64_t)CLAMP(room, 0, (double)CERTIFICATE_ROOM_PRICE_MOST);
        price->whole = (uint64_t)CLAMP(whole, 0, (double)CERTIFICATE_ROOM_PRICE_MOST);
    }
    m->dual_host = (uint64_t)CLAMP(-row_dual(m, row_of_host(m)) * room_unit, 0,
                                   (double)host_price_most(m));
    for (uint32_t r = 0; r < m->chains->len; r++)
        m->dual_chains[r] = share_of(row_dual(m, row_of_chain(m, r)));
    cut_prices(m, m->dual, m->dual_chains);
}

static uint64_t between(uint64_t a, uint64_t b, double share)
{
    return (uint64_t)((double)a + share * ((double)b - (double)a));
}

/* Goes part of the way from the best prices to the master's. Returns the price of a byte of the
 * host's memory. */
static uint64_t mix_prices(const struct time_master *m, double share,
                           struct certificate_window *mixed, uint64_t *chains)
{
    for (uint32_t w = 0; w < window_count(m); w++) {
        const struct certificate_window *from = &m->best[w], *to = &m->dual[w];
        mixed[w] =
            (struct certificate_window){.moment = from->moment,
                                        .begins = from->begins,
                                        .h2d = between(from->h2d, to->h2d, share),
                                        .d2h = between(from->d2h, to->d2h, share),
                                        .host = between(from->host, to->host, share),
                                        .network = between(from->network, to->network, share),
                                        .room = between(from->room, to->room, share),
                                        .unit = from->unit,
                                        .whole = between(from->whole, to->whole, share)};
    }
    for (uint32_t r = 0; r < m->chains->len; r++)
        chains[r] = between(m->best_chains[r], m->dual_chains[r], share);
    cut_prices(m, mixed, chains);
    return between(m->best_host, m->dual_host, share);
}

/* Returns whether these are the best prices so far. */
static bool try_prices(struct time_master *m, const struct certificate_window *prices,
                       const uint64_t *chains, uint64_t host_bytes)
{
    for (uint32_t r = 0; r < m->chains->len; r++)
        g_array_index(m->chains, struct time_chain, r).ends.price = chains[r];
    const struct time_prices all = {prices, (struct time_chain *)(void *)m->chains->data,
                                    m->chains->len, host_bytes};
    scaled_ns bound = time_model_bound(m->model, &all, &m->use);
    if (bound <= m->best_bound)
        return false;
    m->best_bound = bound;
    m->best_host = host_bytes;
    memcpy(m->best, prices, window_count(m) * sizeof *prices);
    memcpy(m->best_chains, chains, m->chains->len * sizeof *chains);
    return true;
}

/* ---- rounds ---- */

/* Adds routes that take no room, so that there is always a mix, and those for the first prices. */
static void begin(struct time_master *m, struct certificate_window *prices)
{
    const uint64_t no_chains[1] = {0};
    for (uint32_t w = 0; w < window_count(m); w++)
        m->best[w] = prices[w] = m->dual[w] =
            (struct certificate_window){.moment = m->model->windows->items[w].moment,
                                        .begins = m->model->windows->items[w].begins,
                                        .room = CERTIFICATE_ROOM_PRICE_MOST,
                                        .unit = m->best[w].unit};
    try_prices(m, prices, no_chains, 0);
    append_columns(m);
    m->best_bound = -1;
    for (size_t i = 0; i < G_N_ELEMENTS(first_shares); i++) {
        for (uint32_t w = 0; w < window_count(m); w++) {
            prices[w].room = 0;
            prices[w].h2d = prices[w].d2h = share_of(first_shares[i]);
            prices[w].network = m->model->networked ? share_of(first_shares[i]) : 0;
        }
        try_prices(m, prices, no_chains, 0);
        append_columns(m);
    }
}

/* Solves the program. Returns false if there is no solution. */
static bool solve(struct time_master *m, int idle)
{
    glp_iptcp interior;
    glp_init_iptcp(&interior);
    interior.msg_lev = GLP_MSG_OFF;
    if (!simplex_solve(m->lp, SIMPLEX_WARM))
        return false;
    m->is_central = idle >= IDLE_STEPS && m->model->block_count <= FEW_BLOCKS &&
                    glp_interior(m->lp, &interior) == 0 && glp_ipt_status(m->lp) == GLP_OPT;
    return true;
}

/* Removes routes that the mix has had none of for some rounds. Prices that want them again find
 * them again, and the program keeps a size that does not grow with the rounds. */
static void forget_ways(struct time_master *m)
{
    g_autoptr(GArray) kept = g_array_new(FALSE, FALSE, sizeof(struct time_way));
    g_autofree int *columns = g_new(int, m->ways->len + 1);
    int count = 0;
    for (guint i = 0; i < m->ways->len; i++) {
        struct time_way *way = &g_array_index(m->ways, struct time_way, i);
        bool is_basic = glp_get_col_stat(m->lp, column_of_way(m, i)) == GLP_BS;
        way->unused = is_basic ? 0 : (uint16_t)(way->unused + 1);
        if (way->unused >= UNUSED_MOST)
            columns[++count] = column_of_way(m, i);
        else
            g_array_append_val(kept, *way);
    }
    if (count)
        glp_del_cols(m->lp, count, columns);
    g_array_set_size(m->ways, 0);
    g_array_append_vals(m->ways, kept->data, kept->len);
}

/* Returns the step towards the master's prices after so many that improved nothing. */
static double step_after(int idle)
{
    if (idle < IDLE_STEPS)
        return SMOOTHING;
    return fmax(SMOOTHING * pow(SHORTER, idle - IDLE_STEPS), SHORTEST);
}

/* Returns whether the program was solved, and more is wanted. */
static bool improve(struct time_master *m, double close, struct certificate_window *prices)
{
    uint64_t chains[CHAINS_MOST];
    double share = SMOOTHING;
    int idle = 0;
    for (int round = 0; round < ROUNDS_MOST; round++) {
        if (!solve(m, idle))
            return false;
        double optimum = glp_get_obj_val(m->lp) * m->ns_unit * BOUND_PRICE_SCALE;
        if (m->best_bound >= m->enough)
            return false;
        if (optimum - (double)m->best_bound <= close * optimum)
            return true;
        read_duals(m);
        forget_ways(m);
        uint64_t host_bytes = mix_prices(m, share, prices, chains);
        idle = try_prices(m, prices, chains, host_bytes) ? 0 : idle + 1;
        bool more = add_ways(m) > 0;
        bool wide = (double)m->best_bound < (1 - WIDE) * optimum;
        if ((!more && share == 1) ||
            (idle > (wide ? IDLE_MOST_WIDE : IDLE_MOST) && m->model->block_count <= FEW_BLOCKS))
            return true;
        share = more ? step_after(idle) : 1;
    }
    return true;
}

static double share_at(const struct time_master *m, guint way)
{
    return glp_get_col_prim(m->lp, column_of_way(m, way));
}

/* ---- the host's memory ---- */

/* Limits the host's memory if the mix takes more than there is. */
static void limit_host(struct time_master *m, double close, struct certificate_window *prices)
{
    double limit = (double)m->model->host_bytes / m->byte_unit;
    if (m->model->host_bytes == UINT64_MAX || glp_get_row_prim(m->lp, row_of_host(m)) <= limit)
        return;
    glp_set_row_bnds(m->lp, row_of_host(m), GLP_UP, 0, limit);
    memcpy(prices, m->best, window_count(m) * sizeof *prices);
    try_prices(m, prices, m->best_chains, host_price_most(m));
    append_columns(m);
    improve(m, close, prices);
}

/* ---- chains ---- */

/* Returns the share of each block that the mix has on the host. */
static double *host_shares(const struct time_master *m)
{
    double *shares = g_new0(double, m->model->block_count);
    for (guint i = 0; i < m->ways->len; i++) {
        const struct time_way *way = &g_array_index(m->ways, struct time_way, i);
        shares[way->block] += way->side == TIME_HOST ? share_at(m, i) : 0;
    }
    return shares;
}

static void read_shares(const struct time_master *m, double *on_host)
{
    g_autofree double *shares = host_shares(m);
    memcpy(on_host, shares, m->model->block_count * sizeof *on_host);
}

/* Returns by how much the chain is longer than its windows in the mix, in units of the program. */
static double breach_of(const struct time_master *m, const struct time_chain *chain,
                        const double *shares)
{
    double length = (double)chain->always_ns, windows = 0;
    for (uint32_t b = 0; b < m->model->block_count; b++)
        length += (double)chain->host_ns[b] * shares[b];
    for (uint32_t i = 0; i < chain->span; i++)
        windows += glp_get_col_prim(m->lp, (int)((chain->window + i) % window_count(m)) + 1);
    return length / m->ns_unit - windows;
}

/* Makes the chain a row; *chain passes to the program. */
static void add_row(struct time_master *m, struct time_chain *chain)
{
    int row = glp_add_rows(m->lp, 1), count = 0;
    g_autofree int *columns = g_new(int, window_count(m) + m->ways->len + 1);
    g_autofree double *values = g_new(double, window_count(m) + m->ways->len + 1);
    for (uint32_t i = 0; i < chain->span; i++) {
        columns[++count] = (int)((chain->window + i) % window_count(m)) + 1;
        values[count] = 1;
    }
    for (guint i = 0; i < m->ways->len; i++) {
        const struct time_way *way = &g_array_index(m->ways, struct time_way, i);
        if (way->side != TIME_HOST || !chain->host_ns[way->block])
            continue;
        columns[++count] = column_of_way(m, i);
        values[count] = -(double)chain->host_ns[way->block] / m->ns_unit;
    }
    glp_set_row_bnds(m->lp, row, GLP_LO, (double)chain->always_ns / m->ns_unit, 0);
    glp_set_mat_row(m->lp, row, count, columns, values);
    m->best_chains[m->chains->len] = 0;
    g_array_append_val(m->chains, *chain);
    chain->host_ns = NULL;
}

/* Adds the proposed chains that the mix breaks the most. Returns whether there are any. */
static bool add_chains(struct time_master *m, GArray *proposed)
{
    g_autofree double *shares = host_shares(m);
    double least = CHAIN_BREACH * glp_get_obj_val(m->lp);
    bool added = false;
    for (int i = 0; i < CHAINS_AT_A_TIME; i++) {
        struct time_chain *worst = NULL;
        double most = least;
        for (guint r = 0; r < proposed->len; r++) {
            struct time_chain *chain = &g_array_index(proposed, struct time_chain, r);
            double breach = chain->host_ns ? breach_of(m, chain, shares) : 0;
            worst = breach > most ? chain : worst;
            most = fmax(most, breach);
        }
        if (!worst)
            break;
        add_row(m, worst);
        added = true;
    }
    return added;
}

/* Tries shares of the chain's windows as its price, which the best prices leave to it. */
static void try_chain(struct time_master *m, uint32_t r, struct certificate_window *prices)
{
    const struct time_chain *chain = chain_at(m, r);
    uint64_t chains[CHAINS_MOST];
    for (int eighths = 8; eighths > 0; eighths /= 2) {
        double rest = 1 - eighths / 8.0;
        memcpy(prices, m->best, window_count(m) * sizeof *prices);
        memcpy(chains, m->best_chains, m->chains->len * sizeof *chains);
        for (uint32_t i = 0; i < chain->span; i++) {
            struct certificate_window *price = &prices[(chain->window + i) % window_count(m)];
            price->h2d = between(0, price->h2d, rest);
            price->d2h = between(0, price->d2h, rest);
            price->host = between(0, price->host, rest);
            price->network = between(0, price->network, rest);
        }
        for (uint32_t other = 0; other < m->chains->len; other++)
            chains[other] = between(0, chains[other], rest);
        chains[r] += (uint64_t)(BOUND_PRICE_SCALE / 8 * eighths);
        cut_prices(m, prices, chains);
        if (try_prices(m, prices, chains, between(0, m->best_host, rest)))
            append_columns(m);
    }
}

static void improve_with_chains(struct time_master *m, double close,
                                struct certificate_window *prices)
{
    GArray *proposed = chains_propose(m->model->chain_operators, m->model->windows);
    for (int round = 0; round < CHAIN_ROUNDS; round++) {
        uint32_t before = m->chains->len;
        if (!add_chains(m, proposed))
            break;
        for (uint32_t r = before; r < m->chains->len; r++)
            try_chain(m, r, prices);
        if (!improve(m, close, prices))
            break;
    }
    g_array_unref(proposed);
}

/* Gives the chains the best prices found, and removes those without a price. */
static void keep_chains(struct time_master *m)
{
    for (guint r = m->chains->len; r-- > 0;) {
        g_array_index(m->chains, struct time_chain, r).ends.price = m->best_chains[r];
        if (!m->best_chains[r])
            g_array_remove_index(m->chains, r);
    }
}

struct certificate_window *time_prices_find(const struct time_model *model, double close,
                                            uint64_t enough_ns, GArray *chains,
                                            uint64_t *host_bytes, double *on_host)
{
    uint32_t count = model->windows->count;
    g_autofree struct certificate_window *prices = g_new0(struct certificate_window, count);
    struct time_master master = {
        .model = model,
        .enough = (scaled_ns)enough_ns * BOUND_PRICE_SCALE,
        .lp = simplex_new(),
        .use = {g_malloc_n((size_t)model->block_count * count, sizeof *master.use.windows),
                g_new0(uint64_t, model->block_count), g_new0(uint8_t, model->block_count)},
        .ways = g_array_new(FALSE, FALSE, sizeof(struct time_way)),
        .chains = chains ? g_array_ref(chains)
                         : g_array_new(FALSE, FALSE, sizeof(struct time_chain)),
        .best = g_new0(struct certificate_window, count),
        .dual = g_new0(struct certificate_window, count),
        .best_chains = g_new0(uint64_t, CHAINS_MOST),
        .dual_chains = g_new0(uint64_t, CHAINS_MOST),
        .rows = g_new(int, (size_t)count *WINDOW_USES + CHAINS_MOST + 3),
        .values = g_new(double, (size_t)count *WINDOW_USES + CHAINS_MOST + 3)};
    choose_units(&master);
    for (uint32_t w = 0; w < count; w++)
        master.best[w].unit = choose_whole(model, &model->windows->items[w]);
    add_rows(&master);
    begin(&master, prices);
    bool more = improve(&master, close, prices);
    if (on_host)
        read_shares(&master, on_host + model->block_count);
    if (more)
        limit_host(&master, close, prices);
    if (more && chains)
        improve_with_chains(&master, close, prices);
    keep_chains(&master);
    *host_bytes = master.best_host;
    if (on_host)
        read_shares(&master, on_host);
    glp_delete_prob(master.lp);
    glp_free_env(); /* frees this thread's */
    g_array_unref(master.ways);
    g_array_unref(master.chains);
    g_free(master.use.windows);
    g_free(master.use.host_bytes);
    g_free(master.use.side);
    g_free(master.dual);
    g_free(master.best_chains);
    g_free(master.dual_chains);
    g_free(master.rows);
    g_free(master.values);
    return master.best;
}
