#include "planner/traffic_prices.h"

#include "planner/bound.h"

#include <glpk.h>
#include <math.h>

/* Columns: the bytes taken at each moment, then a share kept of each gap that can be, then a
 * write-back of each epoch: from a write on the device to the next. Rows: a balance of the bytes
 * taken from moment to moment, then a gap's epoch is written back unless the gap is kept. */
struct program {
    const struct gaps *gaps;
    glp_prob *lp;
    double unit; /* bytes that count as 1 */
    int *kept;   /* [gaps->count] column; 0: cannot be kept */
};

static double in_units(const struct program *p, uint64_t bytes)
{
    return (double)bytes / p->unit;
}

static int row_of(uint32_t moment)
{
    return (int)moment + 1;
}

/* Row m says taken(m) - taken(m - 1) = what begins to be kept at m - what ends there; that of
 * moment 0, what is kept over it: instead of the difference to the iteration's end. */
static void add_moments(struct program *p)
{
    uint32_t moments = p->gaps->moment_count;
    glp_add_rows(p->lp, (int)moments);
    glp_add_cols(p->lp, (int)moments);
    for (uint32_t m = 0; m < moments; m++) {
        const double room = (double)MAX(p->gaps->room[m], 0) / p->unit;
        glp_set_row_bnds(p->lp, row_of(m), GLP_FX, 0, 0);
        glp_set_col_bnds(p->lp, row_of(m), room > 0 ? GLP_DB : GLP_FX, 0, room);
        int rows[3] = {0, row_of(m), row_of(m + 1)};
        const double values[3] = {0, 1, -1};
        glp_set_mat_col(p->lp, row_of(m), m + 1 < moments ? 2 : 1, rows, values);
    }
}

/* Of a gap that takes room: where its bytes come and go in the balance. */
static int fill_balance(const struct program *p, const struct gap *gap, int rows[4],
                        double values[4])
{
    uint32_t begin = gap->from + 1;
    double bytes = in_units(p, p->gaps->bytes[gap->chunk]);
    int count = 0;

    if (gaps_span(p->gaps, gap) == 0)
        return 0;
    if (begin < p->gaps->moment_count) {
        rows[++count] = row_of(begin);
        values[count] = -bytes;
    }
    if (gap->to <= gap->from && gap->to > 0) {
        rows[++count] = row_of(0);
        values[count] = -bytes;
    }
    if (gap->to > 0) {
        rows[++count] = row_of(gap->to);
        values[count] = bytes;
    }
    return count;
}

static void add_gaps(struct program *p)
{
    const struct gaps *gaps = p->gaps;
    for (uint32_t g = 0; g < gaps->count; g++) {
        const struct gap *gap = &gaps->items[g];
        if (!gaps_can_keep(gap))
            continue;
        int rows[4], column = glp_add_cols(p->lp, 1);
        double values[4];
        p->kept[g] = column;
        glp_set_col_bnds(p->lp, column, GLP_DB, 0, 1);
        glp_set_obj_coef(p->lp, column, -in_units(p, gaps->used[gap->chunk]));
        glp_set_mat_col(p->lp, column, fill_balance(p, gap, rows, values), rows, values);
    }
}

static bool begins_epoch(const struct gap *gap)
{
    return gap->flags & GAP_DIRTIES && !(gap->flags & GAP_DEAD);
}

static uint32_t next_gap(const struct gaps *gaps, uint32_t g)
{
    uint32_t chunk = gaps->items[g].chunk;
    return g + 1 < gaps->first[chunk + 1] ? g + 1 : gaps->first[chunk];
}

/* The column of the write-back is at least 1 - kept in every gap up to the next write. */
static void add_epoch(struct program *p, uint32_t first)
{
    const struct gaps *gaps = p->gaps;
    int column = glp_add_cols(p->lp, 1);
    uint32_t g = first;

    glp_set_col_bnds(p->lp, column, GLP_DB, 0, 1);
    glp_set_obj_coef(p->lp, column, in_units(p, gaps->used[gaps->items[g].chunk]));
    do {
        if (!p->kept[g] || gaps->items[g].flags & GAP_FLUSH) {
            glp_set_col_bnds(p->lp, column, GLP_FX, 1, 1);
        } else {
            int row = glp_add_rows(p->lp, 1), columns[3] = {0, p->kept[g], column};
            const double values[3] = {0, 1, 1};
            glp_set_row_bnds(p->lp, row, GLP_LO, 1, 0);
            glp_set_mat_row(p->lp, row, 2, columns, values);
        }
        g = next_gap(gaps, g);
    } while (g != first && !(gaps->items[g].flags & (GAP_DIRTIES | GAP_DEAD)));
}

static uint64_t price_of(double dual)
{
    const double most = (double)BOUND_PRICE_MOST / BOUND_PRICE_SCALE;
    return (uint64_t)llround(CLAMP(dual, 0, most) * BOUND_PRICE_SCALE);
}

static uint64_t *read_prices(const struct program *p)
{
    uint32_t moments = p->gaps->moment_count;
    uint64_t *prices = g_new0(uint64_t, moments);
    if (glp_get_status(p->lp) != GLP_OPT)
        return prices;
    for (uint32_t m = 0; m < moments; m++)
        prices[m] = price_of(-glp_get_col_dual(p->lp, row_of(m)));
    return prices;
}

static double mean_bytes(const struct gaps *gaps)
{
    double sum = 0;
    for (uint32_t c = 0; c < gaps->chunk_count; c++)
        sum += (double)gaps->bytes[c] / gaps->chunk_count;
    return sum;
}

uint64_t *traffic_prices_find(const struct gaps *gaps)
{
    struct program p = {.gaps = gaps,
                        .lp = glp_create_prob(),
                        .unit = mean_bytes(gaps),
                        .kept = g_new0(int, MAX(gaps->count, 1))};
    glp_smcp options;

    add_moments(&p);
    add_gaps(&p);
    for (uint32_t g = 0; g < gaps->count; g++)
        if (begins_epoch(&gaps->items[g]))
            add_epoch(&p, g);
    glp_init_smcp(&options);
    options.msg_lev = GLP_MSG_OFF;
    options.presolve = GLP_ON;
    options.meth = GLP_DUALP;
    glp_simplex(p.lp, &options);
    uint64_t *prices = read_prices(&p);
    glp_delete_prob(p.lp);
    g_free(p.kept);
    return prices;
}
