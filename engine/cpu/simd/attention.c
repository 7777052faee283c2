/* Attention by tiles of 64 queries and 64 keys of one head, in fp32 on the thread's stack (Dao et
 * al., FlashAttention, NeurIPS 2022). The backward takes two passes, by tiles of queries for dq and
 * by tiles of keys for dk and dv, so that nothing is summed across threads. */
#include "engine/cpu/simd/loops.h"
#include "engine/exponential.h"
#include "engine/soft_cap.h"

/* ---- products of small fp32 matrices that lie in a thread's cache ---- */

enum {
    PRODUCT_VECTORS = 2, /* vectors of a row that are held in registers */
    PRODUCT_COLUMNS = PRODUCT_VECTORS * VECTOR_LANES, /* divides 32 */
};

/* Element [row, column] of an operand is data[row * row_stride + column * column_stride]. */
struct product_operand {
    const float *data;
    uint32_t row_stride, column_stride;
};

/* Computes `rows` <= PRODUCT_ROWS rows and one step of columns. `rows` is a constant at each place
 * of use. */
static inline __attribute__((always_inline)) void product_block(int rows, uint32_t depth,
                                                                struct product_operand a,
                                                                const float *b, uint32_t b_stride,
                                                                float *c, uint32_t c_stride)
{
    vector sum[PRODUCT_ROWS][PRODUCT_VECTORS];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < PRODUCT_VECTORS; v++)
            sum[r][v] = vector_load(c + r * c_stride + v * VECTOR_LANES);
    for (uint32_t k = 0; k < depth; k++) {
        vector row[PRODUCT_VECTORS];
        for (int v = 0; v < PRODUCT_VECTORS; v++)
            row[v] = vector_load(b + k * b_stride + v * VECTOR_LANES);
        for (int r = 0; r < rows; r++) {
            vector factor = vector_set(a.data[r * a.row_stride + k * a.column_stride]);
            for (int v = 0; v < PRODUCT_VECTORS; v++)
                sum[r][v] = vector_fma(factor, row[v], sum[r][v]);
        }
    }
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < PRODUCT_VECTORS; v++)
            vector_store(c + r * c_stride + v * VECTOR_LANES, sum[r][v]);
}

/* Computes c[rows, columns] += a[rows, depth] b[depth, columns], adding terms in ascending order.
 * `columns` is a multiple of 32; rows of b and c are contiguous. */
static inline void product_add(uint32_t rows, uint32_t columns, uint32_t depth,
                               struct product_operand a, const float *b, uint32_t b_stride,
                               float *c, uint32_t c_stride)
{
    for (uint32_t column = 0; column < columns; column += PRODUCT_COLUMNS) {
        struct product_operand at = a;
        float *to = c + column;
        uint32_t r = 0;
        for (; r + PRODUCT_ROWS <= rows; r += PRODUCT_ROWS) {
            product_block(PRODUCT_ROWS, depth, at, b + column, b_stride, to, c_stride);
            at.data += (uint64_t)PRODUCT_ROWS * a.row_stride;
            to += (uint64_t)PRODUCT_ROWS * c_stride;
        }
        for (; r < rows; r++) {
            product_block(1, depth, at, b + column, b_stride, to, c_stride);
            at.data += a.row_stride;
            to += c_stride;
        }
    }
}

/* A 4 x 4 square of fp32 is transposed in registers that every machine has. */
enum { SQUARE = 4 };

typedef float square_row __attribute__((vector_size(16)));

static inline square_row square_load(const float *from)
{
    square_row row;
    memcpy(&row, from, sizeof row);
    return row;
}

static inline void square_transpose(const float *from, size_t from_stride, float *to,
                                    size_t to_stride)
{
    square_row a = square_load(from), b = square_load(from + from_stride);
    square_row c = square_load(from + 2 * from_stride), d = square_load(from + 3 * from_stride);
    square_row ab_low = __builtin_shufflevector(a, b, 0, 4, 1, 5);
    square_row ab_high = __builtin_shufflevector(a, b, 2, 6, 3, 7);
    square_row cd_low = __builtin_shufflevector(c, d, 0, 4, 1, 5);
    square_row cd_high = __builtin_shufflevector(c, d, 2, 6, 3, 7);
    square_row columns[SQUARE] = {
        __builtin_shufflevector(ab_low, cd_low, 0, 1, 4, 5),
        __builtin_shufflevector(ab_low, cd_low, 2, 3, 6, 7),
        __builtin_shufflevector(ab_high, cd_high, 0, 1, 4, 5),
        __builtin_shufflevector(ab_high, cd_high, 2, 3, 6, 7),
    };
    for (int i = 0; i < SQUARE; i++)
        memcpy(to + i * to_stride, &columns[i], sizeof columns[i]);
}

/* ---- heads and tiles ---- */

enum {
    HEAD_STEP = 32, /* heads are padded with zeros to a multiple of it */
    HEAD_LIMIT = CPU_HEAD_LIMIT,
};

/* One head of one sequence. */
struct simd_head {
    const struct simd_attention *arguments;
    uint64_t head; /* b*A + a */
    uint64_t row;  /* of the sequence's first token */
    uint32_t padded, tiles;
};

/* Rows of a tile in fp32: [64, padded], with zeros behind the sequence's end and behind D. */
typedef float attention_rows[SIMD_TILE * HEAD_LIMIT] __attribute__((aligned(64)));

/* Such rows transposed: [padded, 64]. */
typedef float attention_columns[SIMD_TILE * HEAD_LIMIT] __attribute__((aligned(64)));

struct attention_scores {
    _Alignas(64) float at[SIMD_TILE][SIMD_TILE]; /* [query][key] */
};

/* Returns one of a sequence's heads: number `head` of all sequences' heads. */
static inline struct simd_head attention_head(const struct simd_attention *arguments, uint64_t head)
{
    return (struct simd_head){
        .arguments = arguments,
        .head = head,
        .row = head / arguments->A * arguments->T,
        .padded = (arguments->D + HEAD_STEP - 1) / HEAD_STEP * HEAD_STEP,
        .tiles = simd_tiles(arguments->T),
    };
}

/* Returns an item's head, and its tile. */
static inline struct simd_head attention_head_of(const struct simd_attention *arguments,
                                                 uint64_t item, uint32_t *tile)
{
    uint32_t tiles = simd_tiles(arguments->T);
    *tile = (uint32_t)(item % tiles);
    return attention_head(arguments, item / tiles);
}

/* Return the first element of the head's part in row `t` of the sequence, in q, k or v, and in o.
 */
static inline uint64_t attention_part_at(const struct simd_head *h, enum kernel_qkv part,
                                         uint32_t t)
{
    const struct simd_attention *a = h->arguments;
    uint64_t head = h->head % a->A;
    if (part != KERNEL_Q)
        head /= a->A / a->K;
    const struct simd_heads *heads = &a->parts[part];
    return (h->row + t) * heads->stride + heads->first + head * heads->apart;
}

static inline uint64_t attention_o_at(const struct simd_head *h, uint32_t t)
{
    const struct simd_attention *a = h->arguments;
    return (h->row + t) * a->A * a->D + h->head % a->A * a->D;
}

/* Turns a row by its position, or back: pairs of columns, `pairs` apart. */
static inline void attention_turn(const struct simd_attention *a, uint32_t t, bool back, float *row)
{
    const float *cosines = a->cosines + (uint64_t)t * a->pairs;
    const float *sines = a->sines + (uint64_t)t * a->pairs;
    for (uint32_t i = 0; i < a->pairs; i++) {
        float x = row[i], y = row[i + a->pairs], sine = back ? -sines[i] : sines[i];
        row[i] = fmaf(x, cosines[i], -(y * sine));
        row[i + a->pairs] = fmaf(y, cosines[i], x * sine);
    }
}

/* Loads a row of D elements, times `scale`, and pads it with zeros to `padded`. */
static inline void attention_load_row(const struct simd_head *h, const void *from, uint64_t element,
                                      float scale, float *row)
{
    for (uint32_t d = 0; d < h->padded; d += SIMD_TILE) {
        uint32_t D = h->arguments->D;
        uint32_t left = d < D ? D - d : 0, room = h->padded - d;
        tile_fp32 tile;
        tile_load(h->arguments->precision, from, element + d, left < SIMD_TILE ? left : SIMD_TILE,
                  0, tile);
        for (uint32_t i = 0; i < SIMD_TILE; i++)
            tile[i] *= scale;
        tile_store_fp32(row + d, room < SIMD_TILE ? room : SIMD_TILE, tile);
    }
}

static inline void attention_store_row(const struct simd_head *h, void *to, uint64_t element,
                                       float scale, const float *row)
{
    uint32_t D = h->arguments->D;
    for (uint32_t d = 0; d < D; d += SIMD_TILE) {
        uint32_t count = D - d < SIMD_TILE ? D - d : SIMD_TILE;
        tile_fp32 tile;
        tile_load_fp32(row + d, count, tile);
        for (uint32_t i = 0; i < count; i++)
            tile[i] *= scale;
        tile_store(h->arguments->precision, to, element + d, count, tile);
    }
}

static inline uint32_t attention_rows_in(const struct simd_head *h, uint32_t tile)
{
    return tile_of(tile, h->arguments->T).count;
}

static inline void attention_load(const struct simd_head *h, enum kernel_qkv part, uint32_t tile,
                                  float scale, attention_rows rows)
{
    uint32_t count = attention_rows_in(h, tile);
    for (uint32_t r = 0; r < count; r++) {
        uint32_t t = tile * SIMD_TILE + r;
        float *row = rows + r * h->padded;
        attention_load_row(h, h->arguments->parts[part].at, attention_part_at(h, part, t), scale,
                           row);
        if (part != KERNEL_V)
            attention_turn(h->arguments, t, false, row);
    }
    memset(rows + count * h->padded, 0, (SIMD_TILE - count) * h->padded * sizeof *rows);
}

static inline void attention_transpose(const struct simd_head *h, const attention_rows rows,
                                       attention_columns columns)
{
    for (uint32_t r = 0; r < SIMD_TILE; r += SQUARE)
        for (uint32_t d = 0; d < h->padded; d += SQUARE)
            square_transpose(rows + r * h->padded + d, h->padded, columns + d * SIMD_TILE + r,
                             SIMD_TILE);
}

/* scores = rows columns, for the first `count` rows. */
static inline void attention_product(const struct simd_head *h, uint32_t count,
                                     const attention_rows rows, const attention_columns columns,
                                     struct attention_scores *scores)
{
    memset(scores, 0, count * sizeof scores->at[0]);
    product_add(count, SIMD_TILE, h->arguments->D, (struct product_operand){rows, h->padded, 1},
                columns, SIMD_TILE, scores->at[0], SIMD_TILE);
}

static inline void attention_cap(const struct simd_head *h, float scores[SIMD_TILE])
{
    float cap = h->arguments->cap;
    if (cap > 0)
        for (int i = 0; i < SIMD_TILE; i++)
            scores[i] = soft_cap(scores[i], cap);
}

/* The keys of a tile that a query attends to: [first, end). */
struct visible_keys {
    uint32_t first, end;
};

/* Returns those of tile `keys` for the query in row `r` of tile `queries`. */
static inline struct visible_keys attention_visible(const struct simd_head *h, uint32_t queries,
                                                    uint32_t r, uint32_t keys)
{
    struct visible_keys visible = {0, keys < queries ? SIMD_TILE : r + 1};
    uint32_t window = h->arguments->window, query = queries * SIMD_TILE + r;
    if (window && query >= window && query - window + 1 > keys * SIMD_TILE) {
        uint32_t hidden = query - window + 1 - keys * SIMD_TILE;
        visible.first = hidden < visible.end ? hidden : visible.end;
    }
    return visible;
}

/* Returns the first tile of keys that a tile of queries attends to, and the last tile of queries
 * that attends to a tile of keys. */
static inline uint32_t attention_first_keys(const struct simd_head *h, uint32_t queries)
{
    uint32_t window = h->arguments->window, first = queries * SIMD_TILE;
    return window && first >= window ? (first - window + 1) / SIMD_TILE : 0;
}

static inline uint32_t attention_last_queries(const struct simd_head *h, uint32_t keys)
{
    uint64_t window = h->arguments->window, last = keys * SIMD_TILE + SIMD_TILE - 1;
    uint64_t tile = (last + window - 1) / SIMD_TILE;
    return window && tile < h->tiles ? (uint32_t)tile : h->tiles - 1;
}

/* Gives minus infinity to the keys that are not visible. */
static inline void attention_hide(struct visible_keys visible, float scores[SIMD_TILE])
{
    for (uint32_t i = 0; i < visible.first; i++)
        scores[i] = -INFINITY;
    for (uint32_t i = visible.end; i < SIMD_TILE; i++)
        scores[i] = -INFINITY;
}

/* Computes the dropout's factors for the probabilities of one query and a tile of keys. */
static inline void attention_factors(const struct simd_head *h, uint32_t query, uint32_t keys,
                                     float factors[SIMD_TILE])
{
    const struct simd_attention *a = h->arguments;
    dropout_factors(&a->dropout, h->head * a->T + query, h->tiles, keys, factors);
}

/* ---- forward ---- */

/* The progress of a tile of queries over the keys: the greatest score, the sum of the exponentials
 * relative to it, and the sum of the values weighted by them. */
struct query_progress {
    tile_fp32 max, sum;
    attention_rows o;
};

/* Turns the scores of row r into exponentials relative to the new maximum, and scales earlier sums,
 * which were relative to the old one. */
static void advance(const struct simd_head *h, struct query_progress *p, uint32_t queries,
                    uint32_t r, uint32_t keys, float scores[SIMD_TILE])
{
    struct visible_keys visible = attention_visible(h, queries, r, keys);
    if (visible.first >= visible.end) {
        tile_fill(scores, 0);
        return;
    }
    attention_cap(h, scores);
    attention_hide(visible, scores);
    float greatest = tile_max(scores);
    float max = greatest > p->max[r] ? greatest : p->max[r];
    float old = exponential(p->max[r] - max);
    for (int i = 0; i < SIMD_TILE; i++)
        scores[i] = exponential(scores[i] - max);
    p->max[r] = max;
    p->sum[r] = fmaf(p->sum[r], old, tile_sum(scores));
    float *o = p->o + r * h->padded;
    for (uint32_t d = 0; d < h->padded; d++)
        o[d] *= old;
    if (dropout_drops(&h->arguments->dropout)) {
        tile_fp32 factors;
        attention_factors(h, queries * SIMD_TILE + r, keys, factors);
        tile_multiply(scores, factors);
    }
}

static void store(const struct simd_head *h, const struct query_progress *p, uint32_t queries)
{
    const struct simd_attention *a = h->arguments;
    for (uint32_t r = 0; r < attention_rows_in(h, queries); r++) {
        uint32_t t = queries * SIMD_TILE + r;
        attention_store_row(h, a->o, attention_o_at(h, t), 1 / p->sum[r], p->o + r * h->padded);
        a->lse[h->head * a->T + t] = (float)((double)p->max[r] + log((double)p->sum[r]));
    }
}

static void forward(const struct simd_head *h, uint32_t queries)
{
    struct query_progress p;
    attention_rows q, rows;
    attention_columns k;
    struct attention_scores scores;
    uint32_t count = attention_rows_in(h, queries);
    attention_load(h, KERNEL_Q, queries, h->arguments->scale, q);
    tile_fill(p.max, -INFINITY);
    tile_fill(p.sum, 0);
    memset(p.o, 0, count * h->padded * sizeof *p.o);
    for (uint32_t keys = attention_first_keys(h, queries); keys <= queries; keys++) {
        attention_load(h, KERNEL_K, keys, 1, rows);
        attention_transpose(h, rows, k);
        attention_product(h, count, q, k, &scores);
        for (uint32_t r = 0; r < count; r++)
            advance(h, &p, queries, r, keys, scores.at[r]);
        attention_load(h, KERNEL_V, keys, 1, rows);
        product_add(count, h->padded, attention_rows_in(h, keys),
                    (struct product_operand){scores.at[0], SIMD_TILE, 1}, rows, h->padded, p.o,
                    h->padded);
    }
    store(h, &p, queries);
}

void SIMD(attention_forward)(const void *arguments, uint64_t first, uint64_t end)
{
    for (uint64_t item = first; item < end; item++) {
        uint32_t queries;
        struct simd_head head = attention_head_of(arguments, item, &queries);
        forward(&head, queries);
    }
}

/* ---- backward ---- */

/* With P the probabilities, M the dropout's mask times its scale, and O = (M P) V: dV = (M P)^T dO,
 * dP = M (dO V^T), dS = P (dP - delta), times the slope of a cap, where delta is the row sums of dO
 * O, dQ = scale dS K, dK = dS^T (scale Q). */

struct query_tile {
    uint32_t tile, count;
    attention_rows q, dout; /* q is scaled */
    tile_fp32 delta, lse;
};

struct key_tile {
    uint32_t tile, count;
    attention_columns k, v;
};

/* Scores of a tile of queries and a tile of keys. */
struct pair_scores {
    struct attention_scores p, ds; /* M P, and dS */
};

static float row_delta(const struct simd_head *h, const float *dout, uint64_t o)
{
    tile_fp32 sum = {0};
    for (uint32_t d = 0; d < h->arguments->D; d += SIMD_TILE) {
        uint32_t left = h->arguments->D - d, count = left < SIMD_TILE ? left : SIMD_TILE;
        tile_fp32 tile, gradient = {0};
        tile_load(h->arguments->precision, h->arguments->o_read, o + d, count, 0, tile);
        tile_load_fp32(dout + d, count, gradient);
        for (int i = 0; i < SIMD_TILE; i++)
            sum[i] = fmaf(tile[i], gradient[i], sum[i]);
    }
    return tile_sum(sum);
}

static void load_queries(const struct simd_head *h, uint32_t tile, struct query_tile *queries)
{
    const struct simd_attention *a = h->arguments;
    queries->tile = tile;
    queries->count = attention_rows_in(h, tile);
    attention_load(h, KERNEL_Q, tile, a->scale, queries->q);
    for (uint32_t r = 0; r < queries->count; r++) {
        uint32_t t = tile * SIMD_TILE + r;
        float *dout = queries->dout + r * h->padded;
        attention_load_row(h, a->dout, attention_o_at(h, t), 1, dout);
        queries->delta[r] = row_delta(h, dout, attention_o_at(h, t));
        queries->lse[r] = a->lse_read[h->head * a->T + t];
    }
}

/* Loads k in rows, too. */
static void load_keys(const struct simd_head *h, uint32_t tile, struct key_tile *keys, float *k)
{
    float *v = k;
    keys->tile = tile;
    keys->count = attention_rows_in(h, tile);
    attention_load(h, KERNEL_V, tile, 1, v);
    attention_transpose(h, v, keys->v);
    attention_load(h, KERNEL_K, tile, 1, k);
    attention_transpose(h, k, keys->k);
}

/* For one query: p holds the scores, and ds the gradient after the dropout. They become M P and
 * dS. */
static void compute_row(const struct simd_head *h, const struct query_tile *queries, uint32_t r,
                        uint32_t keys, float p[SIMD_TILE], float ds[SIMD_TILE])
{
    bool drops = dropout_drops(&h->arguments->dropout);
    float cap = h->arguments->cap;
    tile_fp32 factors, slope;
    attention_cap(h, p);
    if (cap > 0)
        for (int i = 0; i < SIMD_TILE; i++)
            slope[i] = soft_cap_slope(p[i], cap);
    attention_hide(attention_visible(h, queries->tile, r, keys), p);
    if (drops) {
        attention_factors(h, queries->tile * SIMD_TILE + r, keys, factors);
        tile_multiply(ds, factors);
    }
    for (int i = 0; i < SIMD_TILE; i++) {
        p[i] = exponential(p[i] - queries->lse[r]);
        ds[i] = p[i] * (ds[i] - queries->delta[r]);
    }
    if (cap > 0)
        tile_multiply(ds, slope);
    if (drops)
        tile_multiply(p, factors);
}

static void compute_pair(const struct simd_head *h, const struct query_tile *queries,
                         const struct key_tile *keys, struct pair_scores *pair)
{
    attention_product(h, queries->count, queries->q, keys->k, &pair->p);
    attention_product(h, queries->count, queries->dout, keys->v, &pair->ds);
    for (uint32_t r = 0; r < queries->count; r++)
        compute_row(h, queries, r, keys->tile, pair->p.at[r], pair->ds.at[r]);
}

/* Stores the gradient of a row of queries, keys or values, turned back. */
static void store_gradient(const struct simd_head *h, enum kernel_qkv part, uint32_t t, float scale,
                           float *row)
{
    const struct simd_attention *a = h->arguments;
    if (part != KERNEL_V)
        attention_turn(a, t, true, row);
    attention_store_row(h, a->gradients[part], attention_part_at(h, part, t), scale, row);
}

static void backward_queries(const struct simd_head *h, uint32_t tile)
{
    const struct simd_attention *a = h->arguments;
    struct query_tile queries;
    struct key_tile keys;
    attention_rows k, dq;
    struct pair_scores pair;
    load_queries(h, tile, &queries);
    memset(dq, 0, queries.count * h->padded * sizeof *dq);
    for (uint32_t j = attention_first_keys(h, tile); j <= tile; j++) {
        load_keys(h, j, &keys, k);
        compute_pair(h, &queries, &keys, &pair);
        product_add(queries.count, h->padded, keys.count,
                    (struct product_operand){pair.ds.at[0], SIMD_TILE, 1}, k, h->padded, dq,
                    h->padded);
    }
    for (uint32_t r = 0; r < queries.count; r++)
        store_gradient(h, KERNEL_Q, tile * SIMD_TILE + r, a->scale, dq + r * h->padded);
}

/* Adds what the queries of one head leave to the gradients of a tile of keys and values. */
static void add_backward_keys(const struct simd_head *h, const struct key_tile *keys, float *dk,
                              float *dv)
{
    struct query_tile queries;
    struct pair_scores pair;
    uint32_t last = attention_last_queries(h, keys->tile);
    for (uint32_t i = keys->tile; i <= last; i++) {
        load_queries(h, i, &queries);
        compute_pair(h, &queries, keys, &pair);
        product_add(keys->count, h->padded, queries.count,
                    (struct product_operand){pair.p.at[0], 1, SIMD_TILE}, queries.dout, h->padded,
                    dv, h->padded);
        product_add(keys->count, h->padded, queries.count,
                    (struct product_operand){pair.ds.at[0], 1, SIMD_TILE}, queries.q, h->padded, dk,
                    h->padded);
    }
}

/* The heads of a group come one after the other. */
static void backward_keys(const struct simd_attention *a, uint64_t head, uint32_t tile)
{
    struct key_tile keys;
    attention_rows dk, dv;
    struct simd_head h = attention_head(a, head);
    load_keys(&h, tile, &keys, dk);
    memset(dk, 0, keys.count * h.padded * sizeof *dk);
    memset(dv, 0, keys.count * h.padded * sizeof *dv);
    for (uint64_t i = 0; i < a->A / a->K; i++) {
        h = attention_head(a, head + i);
        add_backward_keys(&h, &keys, dk, dv);
    }
    for (uint32_t r = 0; r < keys.count; r++) {
        uint32_t t = tile * SIMD_TILE + r;
        store_gradient(&h, KERNEL_K, t, 1, dk + r * h.padded);
        store_gradient(&h, KERNEL_V, t, 1, dv + r * h.padded);
    }
}

void SIMD(attention_backward_queries)(const void *arguments, uint64_t first, uint64_t end)
{
    for (uint64_t item = first; item < end; item++) {
        uint32_t tile;
        struct simd_head head = attention_head_of(arguments, item, &tile);
        backward_queries(&head, tile);
    }
}

void SIMD(attention_backward_keys)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_attention *a = arguments;
    uint32_t tiles = simd_tiles(a->T);
    for (uint64_t item = first; item < end; item++)
        backward_keys(a, item / tiles * (a->A / a->K), (uint32_t)(item % tiles));
}
