#include "planner/proof/prices.h"

#include "planner/proof/bound.h"
#include "planner/proof/simplex.h"

#include <math.h>
#include <string.h>

/* The number of moments that the program begins with, and the number of rounds that add overfull
 * moments. A round that gains too little is the last. */
enum { FIRST_MOMENTS = 48, ROUNDS_MOST = 12 };
#define LITTLE  2e-5
#define TOO_FAR 1e-3 /* bytes beyond the room, in mean chunks */

/* The program knows the room of some moments only. Chunks whose reuse intervals span the same known
 * moments are identical to it, and form one column. Columns: bytes taken at each known moment;
 * then, for each interval that can be retained, how many of the identical chunks retain it; then
 * how many are written back in each epoch, from one write to the next. Rows: the balance of bytes
 * from one moment to the next; then an epoch is written back unless its interval is retained. */
struct traffic_program {
    const struct reuses *reuses;
    const struct copy_weights *weights;
    double unit;         /* bytes that count as 1 */
    GArray *moments;     /* uint32_t: moments whose room is known, ascending */
    uint32_t *place;     /* [moment_count + 1] number of known moments before each */
    uint32_t *chunks;    /* [chunk_count] identical chunks one after the other */
    uint32_t *identical; /* [chunk_count] for the first of identical chunks, how many they are; 0
                        for others */
    glp_prob *lp;
    int *retained;    /* [reuses->count] column; 0 if it cannot be retained, or if the chunk is
                         identical to another */
    double *share;    /* [reuses->count] retained in the solution */
    uint64_t *prices; /* [moment_count] of the solution */
};

static double in_units(const struct traffic_program *p, uint64_t bytes)
{
    return (double)bytes / p->unit;
}

/* Returns what a copy of the chunk counts, in units. */
static double counts(const struct traffic_program *p, chunk_id chunk, uint32_t weight)
{
    return in_units(p, p->reuses->copy_bytes[chunk]) * weight / BOUND_PRICE_SCALE;
}

static uint32_t known_moments(const struct traffic_program *p)
{
    return p->moments->len;
}

static uint32_t known_moment(const struct traffic_program *p, uint32_t index)
{
    return g_array_index(p->moments, uint32_t, index);
}

/* ---- identical chunks ---- */

/* The known moments that an interval spans: [begin, end), cyclic. */
struct known_range {
    uint32_t begin, end;
    bool wraps;
};

static struct known_range range_of(const struct traffic_program *p, const struct reuse *reuse)
{
    return (struct known_range){p->place[reuse->from + 1], p->place[reuse->to],
                                reuse->to <= reuse->from};
}

static int compare(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_reuses(const struct traffic_program *p, const struct reuse *a,
                          const struct reuse *b)
{
    const struct known_range x = range_of(p, a), y = range_of(p, b);
    int order = compare(a->flags, b->flags);
    order = order ? order : compare(x.begin, y.begin);
    order = order ? order : compare(x.end, y.end);
    return order ? order : compare(x.wraps, y.wraps);
}

static int compare_chunks(const struct traffic_program *p, uint32_t a, uint32_t b)
{
    const struct reuses *reuses = p->reuses;
    uint32_t count = reuses->first[a + 1] - reuses->first[a];
    int order = compare(count, reuses->first[b + 1] - reuses->first[b]);
    order = order ? order : compare(reuses->slot_bytes[a], reuses->slot_bytes[b]);
    order = order ? order : compare(reuses->copy_bytes[a], reuses->copy_bytes[b]);
    for (uint32_t i = 0; i < count && !order; i++)
        order = compare_reuses(p, &reuses->items[reuses->first[a] + i],
                               &reuses->items[reuses->first[b] + i]);
    return order;
}

static int identical_together(const void *left, const void *right, void *data)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    int order = compare_chunks(data, a, b);
    return order ? order : compare(a, b);
}

static void find_identical(struct traffic_program *p)
{
    uint32_t chunks = p->reuses->chunk_count, first = 0;
    for (uint32_t i = 0; i < chunks; i++)
        p->chunks[i] = i;
    g_qsort_with_data(p->chunks, (gint)chunks, sizeof *p->chunks, identical_together, p);
    memset(p->identical, 0, chunks * sizeof *p->identical);
    for (uint32_t i = 0; i < chunks; i++) {
        if (compare_chunks(p, p->chunks[first], p->chunks[i]))
            first = i;
        p->identical[p->chunks[first]]++;
    }
}

/* ---- the program ---- */

static int row_of(uint32_t index)
{
    return (int)index + 1;
}

/* Row i says that taken(i) - taken(i - 1) equals what begins in between less what ends there. The
 * first row says what spans the iteration's end, instead of the difference to it. */
static void add_moments(struct traffic_program *p)
{
    uint32_t count = known_moments(p);
    glp_add_rows(p->lp, (int)count);
    glp_add_cols(p->lp, (int)count);
    for (uint32_t i = 0; i < count; i++) {
        const double room = (double)MAX(p->reuses->room[known_moment(p, i)], 0) / p->unit;
        glp_set_row_bnds(p->lp, row_of(i), GLP_FX, 0, 0);
        glp_set_col_bnds(p->lp, row_of(i), room > 0 ? GLP_DB : GLP_FX, 0, room);
        int rows[3] = {0, row_of(i), row_of(i + 1)};
        const double values[3] = {0, 1, -1};
        glp_set_mat_col(p->lp, row_of(i), i + 1 < count ? 2 : 1, rows, values);
    }
}

/* The entries of a column. */
struct column_entries {
    int count, rows[4];
    double values[4];
};

/* Enters nothing beyond the last row, since such an interval does not span the iteration's end. */
static void enter(const struct traffic_program *p, struct column_entries *entries, uint32_t index,
                  double value)
{
    if (index < known_moments(p)) {
        entries->rows[++entries->count] = row_of(index);
        entries->values[entries->count] = value;
    }
}

/* Returns where the interval's bytes enter and leave the balance. */
static struct column_entries balance_of(const struct traffic_program *p, const struct reuse *reuse)
{
    const struct known_range range = range_of(p, reuse);
    const double bytes = in_units(p, p->reuses->slot_bytes[reuse->chunk]);
    struct column_entries entries = {0};
    if (range.begin != range.end) {
        enter(p, &entries, range.begin, -bytes);
        if (range.end > 0)
            enter(p, &entries, range.end, bytes);
    }
    if (range.wraps && range.end > 0)
        enter(p, &entries, 0, -bytes);
    return entries;
}

static void add_reuse(struct traffic_program *p, uint32_t g, double identical)
{
    const struct reuse *reuse = &p->reuses->items[g];
    if (!reuse_can_retain(reuse))
        return;
    const struct column_entries entries = balance_of(p, reuse);
    int column = p->retained[g] = glp_add_cols(p->lp, 1);
    glp_set_col_bnds(p->lp, column, GLP_DB, 0, identical);
    if (reuse->flags & REUSE_REFETCH)
        glp_set_obj_coef(p->lp, column, -counts(p, reuse->chunk, p->weights->fetched));
    glp_set_mat_col(p->lp, column, entries.count, entries.rows, entries.values);
}

static bool begins_epoch(const struct reuse *reuse)
{
    return reuse->flags & REUSE_DIRTIES && !(reuse->flags & REUSE_DEAD);
}

static uint32_t next_reuse(const struct reuses *reuses, uint32_t g)
{
    chunk_id chunk = reuses->items[g].chunk;
    return g + 1 < reuses->first[chunk + 1] ? g + 1 : reuses->first[chunk];
}

static bool ends_epoch(const struct reuses *reuses, uint32_t first, uint32_t g)
{
    return g == first || reuses->items[g].flags & (REUSE_DIRTIES | REUSE_DEAD);
}

static bool is_written_back(const struct traffic_program *p, uint32_t g)
{
    return !p->retained[g] || p->reuses->items[g].flags & REUSE_FLUSH;
}

/* The write-back column is at least 1 - retained for each interval up to the next write. If there
 * is only one interval, retaining it saves the write-back directly. */
static void add_epoch(struct traffic_program *p, uint32_t first, double identical)
{
    const struct reuses *reuses = p->reuses;
    const double used = counts(p, reuses->items[first].chunk, p->weights->written);
    uint32_t g = first;
    if (ends_epoch(reuses, first, next_reuse(reuses, first)) && !is_written_back(p, first)) {
        glp_set_obj_coef(p->lp, p->retained[first],
                         glp_get_obj_coef(p->lp, p->retained[first]) - used);
        return;
    }
    int column = glp_add_cols(p->lp, 1);
    glp_set_col_bnds(p->lp, column, GLP_DB, 0, identical);
    glp_set_obj_coef(p->lp, column, used);
    do {
        if (is_written_back(p, g)) {
            glp_set_col_bnds(p->lp, column, GLP_FX, identical, identical);
        } else {
            int row = glp_add_rows(p->lp, 1), columns[3] = {0, p->retained[g], column};
            const double values[3] = {0, 1, 1};
            glp_set_row_bnds(p->lp, row, GLP_LO, identical, 0);
            glp_set_mat_row(p->lp, row, 2, columns, values);
        }
        g = next_reuse(reuses, g);
    } while (!ends_epoch(reuses, first, g));
}

static void add_chunk(struct traffic_program *p, chunk_id chunk)
{
    const struct reuses *reuses = p->reuses;
    const double identical = p->identical[chunk];
    for (uint32_t g = reuses->first[chunk]; g < reuses->first[chunk + 1]; g++)
        add_reuse(p, g, identical);
    for (uint32_t g = reuses->first[chunk]; g < reuses->first[chunk + 1]; g++)
        if (begins_epoch(&reuses->items[g]))
            add_epoch(p, g, identical);
}

static uint64_t price_of(double dual)
{
    const double most = (double)BOUND_PRICE_MOST / BOUND_PRICE_SCALE;
    return (uint64_t)llround(CLAMP(dual, 0, most) * BOUND_PRICE_SCALE);
}

/* Identical chunks get equal shares. */
static void read_shares(struct traffic_program *p)
{
    const struct reuses *reuses = p->reuses;
    uint32_t first = 0;
    for (uint32_t i = 0; i < reuses->chunk_count; i++) {
        chunk_id chunk = p->chunks[i];
        first = p->identical[chunk] ? chunk : first;
        for (uint32_t g = 0; g < reuses->first[chunk + 1] - reuses->first[chunk]; g++) {
            int column = p->retained[reuses->first[first] + g];
            double retained = column ? glp_get_col_prim(p->lp, column) : 0;
            p->share[reuses->first[chunk] + g] = retained / p->identical[first];
        }
    }
}

/* Returns the least traffic in units, or NaN if there is no solution. */
static double solve(struct traffic_program *p)
{
    double least = NAN;
    p->lp = simplex_new();
    memset(p->retained, 0, p->reuses->count * sizeof *p->retained);
    find_identical(p);
    add_moments(p);
    for (uint32_t i = 0; i < p->reuses->chunk_count; i++)
        if (p->identical[p->chunks[i]])
            add_chunk(p, p->chunks[i]);
    if (simplex_solve(p->lp, SIMPLEX_COLD)) {
        least = glp_get_obj_val(p->lp);
        read_shares(p);
        for (uint32_t i = 0; i < known_moments(p); i++)
            p->prices[known_moment(p, i)] = price_of(-glp_get_col_dual(p->lp, row_of(i)));
    }
    glp_delete_prob(p->lp);
    return least;
}

/* ---- moments ---- */

static void know(struct traffic_program *p, moment_id moment)
{
    g_array_append_val(p->moments, moment);
}

static void find_places(struct traffic_program *p)
{
    uint32_t next = 0;
    for (uint32_t m = 0; m <= p->reuses->moment_count; m++) {
        p->place[m] = next;
        next += next < known_moments(p) && known_moment(p, next) == m;
    }
}

/* Picks the moment with the least room in each of several equal parts. */
static void know_first(struct traffic_program *p)
{
    uint32_t moments = p->reuses->moment_count, count = MIN(FIRST_MOMENTS, moments);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t least = (uint32_t)((uint64_t)i * moments / count);
        for (uint32_t m = least; m < (uint64_t)(i + 1) * moments / count; m++)
            least = p->reuses->room[m] < p->reuses->room[least] ? m : least;
        know(p, least);
    }
    find_places(p);
}

/* Returns for each moment how far the retained bytes exceed the room. */
static double *find_excess(const struct traffic_program *p)
{
    const struct reuses *reuses = p->reuses;
    double *excess = g_new0(double, reuses->moment_count + 1), held = 0;
    for (uint32_t g = 0; g < reuses->count; g++) {
        const struct reuse *reuse = &reuses->items[g];
        double bytes = p->share[g] * (double)reuses->slot_bytes[reuse->chunk];
        excess[reuse->from + 1] += bytes;
        excess[reuse->to] -= bytes;
        held += reuse->to <= reuse->from ? bytes : 0;
    }
    for (uint32_t m = 0; m < reuses->moment_count; m++) {
        held += excess[m];
        excess[m] = held - (double)MAX(reuses->room[m], 0);
    }
    return excess;
}

static int ascending(const void *left, const void *right)
{
    return compare(*(const uint32_t *)left, *(const uint32_t *)right);
}

/* Adds the fullest moment between each two known ones; returns whether any was too full. */
static bool know_more(struct traffic_program *p)
{
    g_autofree double *excess = find_excess(p);
    uint32_t known = known_moments(p), moments = p->reuses->moment_count;
    for (uint32_t i = 0; i <= known; i++) {
        uint32_t begin = i ? known_moment(p, i - 1) + 1 : 0, worst = begin;
        uint32_t end = i < known ? known_moment(p, i) : moments;
        for (uint32_t m = begin; m < end; m++)
            worst = excess[m] > excess[worst] ? m : worst;
        if (begin < end && excess[worst] > TOO_FAR * p->unit)
            know(p, worst);
    }
    g_array_sort(p->moments, ascending);
    find_places(p);
    return known_moments(p) > known;
}

static double mean_bytes(const struct reuses *reuses)
{
    double sum = 0;
    for (uint32_t c = 0; c < reuses->chunk_count; c++)
        sum += (double)reuses->slot_bytes[c] / reuses->chunk_count;
    return sum;
}

/* Returns the most traffic that is possible, in units; LITTLE is a share of it. */
static double most_traffic(const struct traffic_program *p)
{
    g_autofree uint8_t *keep = g_new0(uint8_t, MAX(p->reuses->count, 1));
    return in_units(p, reuses_traffic(p->reuses, keep));
}

uint64_t *traffic_prices_find(const struct reuses *reuses, const struct copy_weights *weights)
{
    uint32_t moments = reuses->moment_count, chunks = reuses->chunk_count,
             count = MAX(reuses->count, 1);
    struct traffic_program p = {.reuses = reuses,
                                .weights = weights,
                                .unit = mean_bytes(reuses),
                                .moments = g_array_new(FALSE, FALSE, sizeof(uint32_t)),
                                .place = g_new(uint32_t, moments + 1),
                                .chunks = g_new(uint32_t, chunks),
                                .identical = g_new(uint32_t, chunks),
                                .retained = g_new(int, count),
                                .share = g_new(double, count),
                                .prices = g_new0(uint64_t, moments)};
    double before = -INFINITY, little = LITTLE * most_traffic(&p);
    know_first(&p);
    for (int round = 0; round < ROUNDS_MOST; round++) {
        double least = solve(&p);
        if (!(least - before > little) || !know_more(&p))
            break;
        before = least;
    }
    glp_free_env(); /* frees this thread's */
    g_array_unref(p.moments);
    g_free(p.place);
    g_free(p.chunks);
    g_free(p.identical);
    g_free(p.retained);
    g_free(p.share);
    return p.prices;
}
