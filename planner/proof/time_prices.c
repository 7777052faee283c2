#include "planner/proof/prices.h"

#include "planner/proof/bound.h"

#include <glpk.h>
#include <math.h>
#include <string.h>

enum { ROUNDS_MOST = 600 };

/* The step from the best prices towards the prices of the master program, which jump. */
#define SMOOTHING   0.9
#define FIRST_SHARE 0.3 /* of each direction of the link */

/* Rows: for each window and resource, the window's length less what blocks take is at least what is
 * always there. Then the room of each window. Then each block takes one route. Columns: lengths of
 * the windows, whose sum is minimised, then shares of routes. */
struct time_master {
    const struct time_model *model;
    glp_prob *lp;
    double ns_unit, byte_unit;
    uint64_t (*use)[WINDOW_USES]; /* [block_count * window count] of the routes found last */
    struct certificate_window *best, *dual;
    scaled_ns best_bound;
    int *rows; /* scratch space for a column */
    double *values;
};

static uint32_t window_count(const struct time_master *m)
{
    return m->model->windows->count;
}

static int row_of(uint32_t window, enum window_resource use)
{
    return (int)(window * WINDOW_USES + use) + 1;
}

static int row_of_block(const struct time_master *m, uint32_t block)
{
    return (int)(window_count(m) * WINDOW_USES + block) + 1;
}

static void choose_units(struct time_master *m)
{
    const struct time_model *model = m->model;
    for (uint32_t w = 0; w < window_count(m); w++) {
        m->ns_unit += (double)model->compute_ns[w] / window_count(m);
        m->byte_unit += (double)model->windows->items[w].room / window_count(m);
    }
    for (uint32_t c = 0; c < model->chunk_count; c++)
        m->ns_unit += (double)model->chunks[c].h2d_ns / window_count(m);
    m->ns_unit = fmax(1, m->ns_unit);
    m->byte_unit = fmax(1, m->byte_unit);
}

static void add_rows(struct time_master *m)
{
    const struct time_model *model = m->model;
    glp_add_rows(m->lp, row_of_block(m, model->block_count) - 1);
    glp_add_cols(m->lp, (int)window_count(m));
    for (uint32_t w = 0; w < window_count(m); w++) {
        int rows[WINDOW_ROOM + 1];
        double ones[WINDOW_ROOM + 1];
        for (int use = 0; use < WINDOW_ROOM; use++) {
            double always = use == WINDOW_COMPUTE ? (double)model->compute_ns[w] / m->ns_unit : 0;
            glp_set_row_bnds(m->lp, row_of(w, use), GLP_LO, always, 0);
            rows[use + 1] = row_of(w, use);
            ones[use + 1] = 1;
        }
        glp_set_row_bnds(m->lp, row_of(w, WINDOW_ROOM), GLP_UP, 0,
                         (double)model->windows->items[w].room / m->byte_unit);
        glp_set_col_bnds(m->lp, (int)w + 1, GLP_LO, 0, 0);
        glp_set_obj_coef(m->lp, (int)w + 1, 1);
        glp_set_mat_col(m->lp, (int)w + 1, WINDOW_ROOM, rows, ones);
    }
    for (uint32_t b = 0; b < model->block_count; b++)
        glp_set_row_bnds(m->lp, row_of_block(m, b), GLP_FX, 1, 1);
}

/* Writes the route of the block found last as a column; returns its number of entries. */
static int fill_column(struct time_master *m, uint32_t block)
{
    int count = 1;
    m->rows[1] = row_of_block(m, block);
    m->values[1] = 1;
    for (uint32_t w = 0; w < window_count(m); w++)
        for (int use = 0; use < WINDOW_USES; use++) {
            uint64_t amount = m->use[(size_t)block * window_count(m) + w][use];
            if (!amount)
                continue;
            m->rows[++count] = row_of(w, use);
            m->values[count] = use == WINDOW_ROOM ? (double)amount / m->byte_unit
                                                  : -(double)amount / m->ns_unit;
        }
    return count;
}

static void append_column(struct time_master *m, int entries)
{
    int column = glp_add_cols(m->lp, 1);
    glp_set_col_bnds(m->lp, column, GLP_LO, 0, 0);
    glp_set_mat_col(m->lp, column, entries, m->rows, m->values);
}

/* Adds routes that would shorten the mix at the master's prices; returns how many. */
static int add_ways(struct time_master *m)
{
    int added = 0;
    for (uint32_t b = 0; b < m->model->block_count; b++) {
        int entries = fill_column(m, b);
        double worth = 0;
        for (int i = 1; i <= entries; i++)
            worth += m->values[i] * glp_get_row_dual(m->lp, m->rows[i]);
        if (worth > 1e-9) {
            append_column(m, entries);
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
static void cut_shares(struct certificate_window *price)
{
    price->d2h = MIN(price->d2h, BOUND_PRICE_SCALE - price->h2d);
    price->host = MIN(price->host, BOUND_PRICE_SCALE - price->h2d - price->d2h);
}

static void read_duals(struct time_master *m)
{
    double room_unit = m->ns_unit / m->byte_unit * BOUND_PRICE_SCALE;
    for (uint32_t w = 0; w < window_count(m); w++) {
        struct certificate_window *price = &m->dual[w];
        price->h2d = share_of(glp_get_row_dual(m->lp, row_of(w, WINDOW_H2D)));
        price->d2h = share_of(glp_get_row_dual(m->lp, row_of(w, WINDOW_D2H)));
        price->host = share_of(glp_get_row_dual(m->lp, row_of(w, WINDOW_HOST)));
        double room = -glp_get_row_dual(m->lp, row_of(w, WINDOW_ROOM)) * room_unit;
        price->room = (uint64_t)CLAMP(room, 0, (double)CERTIFICATE_ROOM_PRICE_MOST);
        cut_shares(price);
    }
}

static uint64_t between(uint64_t a, uint64_t b, double share)
{
    return (uint64_t)((double)a + share * ((double)b - (double)a));
}

/* Goes part of the way from the best prices to the master's. */
static void mix_prices(const struct time_master *m, double share, struct certificate_window *mixed)
{
    for (uint32_t w = 0; w < window_count(m); w++) {
        const struct certificate_window *from = &m->best[w], *to = &m->dual[w];
        mixed[w] = (struct certificate_window){
            from->moment, between(from->h2d, to->h2d, share), between(from->d2h, to->d2h, share),
            between(from->host, to->host, share), between(from->room, to->room, share)};
        cut_shares(&mixed[w]);
    }
}

static void try_prices(struct time_master *m, const struct certificate_window *prices)
{
    scaled_ns bound = time_model_bound(m->model, prices, m->use);
    if (bound > m->best_bound) {
        m->best_bound = bound;
        memcpy(m->best, prices, window_count(m) * sizeof *prices);
    }
}

/* ---- rounds ---- */

/* Adds routes that take no room, so that there is always a mix, and those for the first prices. */
static void begin(struct time_master *m, struct certificate_window *prices)
{
    for (uint32_t w = 0; w < window_count(m); w++)
        m->best[w] = prices[w] = m->dual[w] = (struct certificate_window){
            .moment = m->model->windows->items[w].moment, .room = CERTIFICATE_ROOM_PRICE_MOST};
    time_model_bound(m->model, prices, m->use);
    for (uint32_t b = 0; b < m->model->block_count; b++)
        append_column(m, fill_column(m, b));
    for (uint32_t w = 0; w < window_count(m); w++) {
        prices[w].room = 0;
        prices[w].h2d = prices[w].d2h = share_of(FIRST_SHARE);
    }
    m->best_bound = -1;
    memcpy(m->best, prices, window_count(m) * sizeof *prices);
    try_prices(m, prices);
    for (uint32_t b = 0; b < m->model->block_count; b++)
        append_column(m, fill_column(m, b));
}

static void improve(struct time_master *m, double close, struct certificate_window *prices)
{
    glp_smcp options;
    double share = SMOOTHING;
    glp_init_smcp(&options);
    options.msg_lev = GLP_MSG_OFF;
    for (int round = 0; round < ROUNDS_MOST; round++) {
        if (glp_simplex(m->lp, &options) != 0 || glp_get_status(m->lp) != GLP_OPT)
            return;
        double optimum = glp_get_obj_val(m->lp) * m->ns_unit * BOUND_PRICE_SCALE;
        if (optimum - (double)m->best_bound <= close * optimum)
            return;
        read_duals(m);
        mix_prices(m, share, prices);
        try_prices(m, prices);
        bool more = add_ways(m) > 0;
        if (!more && share == 1)
            return;
        share = more ? SMOOTHING : 1;
    }
}

static void read_shares(struct time_master *m, double *on_host)
{
    memset(on_host, 0, m->model->block_count * sizeof *on_host);
    for (int column = (int)window_count(m) + 1; column <= glp_get_num_cols(m->lp); column++) {
        double share = glp_get_col_prim(m->lp, column);
        int entries = share > 0 ? glp_get_mat_col(m->lp, column, m->rows, m->values) : 0;
        int block = 0;
        bool host = false;
        for (int i = 1; i <= entries; i++) {
            block = MAX(block, m->rows[i] - row_of_block(m, 0));
            host |= m->rows[i] < row_of_block(m, 0) &&
                    (m->rows[i] - 1) % WINDOW_USES == WINDOW_HOST;
        }
        on_host[block] += host ? share : 0;
    }
}

struct certificate_window *time_prices_find(const struct time_model *model, double close,
                                            double *on_host)
{
    uint32_t count = model->windows->count;
    g_autofree struct certificate_window *prices = g_new0(struct certificate_window, count);
    struct time_master master = {
        .model = model,
        .lp = glp_create_prob(),
        .use = g_malloc_n((size_t)model->block_count * count, sizeof *master.use),
        .best = g_new0(struct certificate_window, count),
        .dual = g_new0(struct certificate_window, count),
        .rows = g_new(int, (size_t)count *WINDOW_USES + 2),
        .values = g_new(double, (size_t)count *WINDOW_USES + 2)};
    choose_units(&master);
    add_rows(&master);
    begin(&master, prices);
    improve(&master, close, prices);
    if (on_host)
        read_shares(&master, on_host);
    glp_delete_prob(master.lp);
    glp_free_env(); /* frees this thread's */
    g_free(master.use);
    g_free(master.dual);
    g_free(master.rows);
    g_free(master.values);
    return master.best;
}
