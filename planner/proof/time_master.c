#include "planner/proof/time_master.h"

#include "planner/proof/bound.h"
#include "planner/proof/simplex.h"

#include <math.h>

/* The greatest price of the host's memory, in copies of all chunks in both directions. */
#define HOST_WORTH 64

/* Room is also counted in whole units if that takes more than this part of it away. */
enum { LEAST_LOSS = 100 };

/* Rounds after which the program forgets a route that its mix has none of. */
enum { UNUSED_MOST = 4 };

static uint32_t window_count(const struct time_master *m)
{
    return m->model->windows->count;
}

double time_master_dual(const struct time_master *m, int row)
{
    return m->is_central ? glp_ipt_row_dual(m->lp, row) : glp_get_row_dual(m->lp, row);
}

/* Returns whether windows have a row for a resource. */
static bool is_limited(const struct time_master *m, int use)
{
    return (use != WINDOW_NETWORK || m->model->networked) &&
           (use != WINDOW_MEMORY || m->model->shares_memory);
}

static uint32_t rows_of_window(const struct time_master *m)
{
    return WINDOW_USES - !m->model->networked - !m->model->shares_memory;
}

int time_master_row(const struct time_master *m, uint32_t window, enum window_resource use)
{
    uint32_t row = (uint32_t)use - (use > WINDOW_NETWORK && !m->model->networked) -
                   (use > WINDOW_MEMORY && !m->model->shares_memory);
    return (int)(window * rows_of_window(m) + row) + 1;
}

static int row_of_kind(const struct time_master *m, uint32_t kind)
{
    return (int)(window_count(m) * rows_of_window(m) + kind) + 1;
}

int time_master_host_row(const struct time_master *m)
{
    return row_of_kind(m, m->model->kind_count);
}

int time_master_chain_row(const struct time_master *m, uint32_t chain)
{
    return time_master_host_row(m) + 1 + (int)chain;
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

uint64_t time_master_host_price_most(const struct time_master *m)
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
    const int rows[] = {0, time_master_host_row(m)}, column = (int)window_count(m) + 1;
    const double lacking[] = {0, -1};
    double most = (double)time_master_host_price_most(m) / BOUND_PRICE_SCALE * m->byte_unit /
                  m->ns_unit;
    glp_set_row_bnds(m->lp, rows[1], GLP_FR, 0, 0);
    glp_set_col_bnds(m->lp, column, GLP_LO, 0, 0);
    glp_set_obj_coef(m->lp, column, most);
    glp_set_mat_col(m->lp, column, 1, rows, lacking);
}

static void add_rows(struct time_master *m)
{
    const struct time_model *model = m->model;
    glp_add_rows(m->lp, time_master_host_row(m));
    glp_add_cols(m->lp, (int)window_count(m) + 1);
    for (uint32_t w = 0; w < window_count(m); w++) {
        int rows[WINDOW_ROOM + 1], count = 0;
        double ones[WINDOW_ROOM + 1];
        for (int use = 0; use < WINDOW_ROOM; use++) {
            double always = use == WINDOW_COMPUTE ? (double)model->compute_ns[w] / m->ns_unit : 0;
            if (!is_limited(m, use))
                continue;
            glp_set_row_bnds(m->lp, time_master_row(m, w, use), GLP_LO, always, 0);
            rows[++count] = time_master_row(m, w, use);
            ones[count] = 1;
        }
        uint64_t room = model->windows->items[w].room;
        glp_set_row_bnds(m->lp, time_master_row(m, w, WINDOW_ROOM), GLP_UP, 0,
                         (double)room / m->byte_unit);
        glp_set_row_bnds(m->lp, time_master_row(m, w, WINDOW_WHOLE), GLP_UP, 0,
                         (double)(m->units[w] ? room - room % m->units[w] : 0) / m->byte_unit);
        glp_set_col_bnds(m->lp, (int)w + 1, GLP_LO, 0, 0);
        glp_set_obj_coef(m->lp, (int)w + 1, 1);
        glp_set_mat_col(m->lp, (int)w + 1, count, rows, ones);
    }
    for (uint32_t k = 0; k < model->kind_count; k++)
        glp_set_row_bnds(m->lp, row_of_kind(m, k), GLP_FX, model->kinds[k].count,
                         model->kinds[k].count);
    add_host_row(m);
}

const struct time_chain *time_master_chain(const struct time_master *m, uint32_t r)
{
    return &g_array_index(m->chains, struct time_chain, r);
}

/* Returns the mean part of the blocks of a kind in a chain, if their updates run on the host. */
static double part_in_chain(const struct time_master *m, uint32_t r, uint32_t kind)
{
    return g_array_index(m->parts, double, r * m->model->kind_count + kind);
}

/* Writes the route of the kind found last as a column; returns its number of entries. */
static int fill_column(struct time_master *m, uint32_t kind)
{
    int count = 1;
    m->rows[1] = row_of_kind(m, kind);
    m->values[1] = 1;
    for (uint32_t w = 0; w < window_count(m); w++)
        for (int use = 0; use < WINDOW_USES; use++) {
            uint64_t amount = m->use.windows[(size_t)kind * window_count(m) + w][use];
            if (!amount)
                continue;
            m->rows[++count] = time_master_row(m, w, use);
            m->values[count] = use >= WINDOW_ROOM ? (double)amount / m->byte_unit
                                                  : -(double)amount / m->ns_unit;
        }
    if (m->use.host_bytes[kind]) {
        m->rows[++count] = time_master_host_row(m);
        m->values[count] = (double)m->use.host_bytes[kind] / m->byte_unit;
    }
    for (uint32_t r = 0; m->use.side[kind] == TIME_HOST && r < m->chains->len; r++)
        if (part_in_chain(m, r, kind) > 0) {
            m->rows[++count] = time_master_chain_row(m, r);
            m->values[count] = -part_in_chain(m, r, kind) / m->ns_unit;
        }
    return count;
}

static void append_column(struct time_master *m, uint32_t kind)
{
    const struct time_way way = {.kind = kind, .side = m->use.side[kind]};
    int entries = fill_column(m, kind);
    int column = glp_add_cols(m->lp, 1);
    glp_set_col_bnds(m->lp, column, GLP_LO, 0, 0);
    glp_set_mat_col(m->lp, column, entries, m->rows, m->values);
    g_array_append_val(m->ways, way);
}

void time_master_append(struct time_master *m)
{
    for (uint32_t k = 0; k < m->model->kind_count; k++)
        append_column(m, k);
}

int time_master_add_ways(struct time_master *m)
{
    int added = 0;
    for (uint32_t k = 0; k < m->model->kind_count; k++) {
        int entries = fill_column(m, k);
        double worth = 0;
        for (int i = 1; i <= entries; i++)
            worth += m->values[i] * time_master_dual(m, m->rows[i]);
        if (worth > 1e-9) {
            append_column(m, k);
            added++;
        }
    }
    return added;
}

void time_master_forget(struct time_master *m)
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

double time_master_share(const struct time_master *m, guint way)
{
    return glp_get_col_prim(m->lp, column_of_way(m, way));
}

static void add_parts(struct time_master *m, const struct time_chain *chain)
{
    const struct time_model *model = m->model;
    guint begin = m->parts->len;
    g_array_set_size(m->parts, begin + model->kind_count);
    for (uint32_t b = 0; b < model->block_count; b++)
        g_array_index(m->parts, double, begin + model->kind_of[b]) +=
            (double)chain->host_ns[b] / model->kinds[model->kind_of[b]].count;
}

void time_master_add_chain(struct time_master *m, struct time_chain *chain)
{
    int row = glp_add_rows(m->lp, 1), count = 0;
    add_parts(m, chain);
    g_autofree int *columns = g_new(int, window_count(m) + m->ways->len + 1);
    g_autofree double *values = g_new(double, window_count(m) + m->ways->len + 1);
    for (uint32_t i = 0; i < chain->span; i++) {
        columns[++count] = (int)((chain->window + i) % window_count(m)) + 1;
        values[count] = 1;
    }
    for (guint i = 0; i < m->ways->len; i++) {
        const struct time_way *way = &g_array_index(m->ways, struct time_way, i);
        if (way->side != TIME_HOST || part_in_chain(m, m->chains->len, way->kind) <= 0)
            continue;
        columns[++count] = column_of_way(m, i);
        values[count] = -part_in_chain(m, m->chains->len, way->kind) / m->ns_unit;
    }
    glp_set_row_bnds(m->lp, row, GLP_LO, (double)chain->always_ns / m->ns_unit, 0);
    glp_set_mat_row(m->lp, row, count, columns, values);
    g_array_append_val(m->chains, *chain);
    chain->host_ns = NULL;
}

struct time_master *time_master_new(const struct time_model *model, GArray *chains,
                                    uint32_t chains_most)
{
    uint32_t count = model->windows->count;
    struct time_master *m = g_new0(struct time_master, 1);
    size_t entries = (size_t)count * WINDOW_USES + chains_most + 3;
    m->model = model;
    m->lp = simplex_new();
    m->use =
        (struct time_use){g_malloc_n((size_t)model->kind_count * count, sizeof *m->use.windows),
                          g_new0(uint64_t, model->kind_count), g_new0(uint8_t, model->kind_count)};
    m->ways = g_array_new(FALSE, FALSE, sizeof(struct time_way));
    m->chains = chains ? g_array_ref(chains) : g_array_new(FALSE, FALSE, sizeof(struct time_chain));
    m->parts = g_array_new(FALSE, TRUE, sizeof(double));
    m->rows = g_new(int, entries);
    m->values = g_new(double, entries);
    m->units = g_new(uint64_t, count);
    for (uint32_t w = 0; w < count; w++)
        m->units[w] = choose_whole(model, &model->windows->items[w]);
    choose_units(m);
    add_rows(m);
    return m;
}

void time_master_free(struct time_master *m)
{
    glp_delete_prob(m->lp);
    glp_free_env(); /* frees this thread's */
    g_array_unref(m->ways);
    g_array_unref(m->chains);
    g_array_unref(m->parts);
    g_free(m->use.windows);
    g_free(m->use.host_bytes);
    g_free(m->use.side);
    g_free(m->rows);
    g_free(m->values);
    g_free(m->units);
    g_free(m);
}
