/* Loops over rows, tile by tile: embedding, residual, sums of columns, layer norm, RMS norm. */
#include "engine/cpu/simd/loops.h"

/* ---- embedding ---- */

void SIMD(embed_forward)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_embed_forward *a = arguments;
    uint32_t tiles = simd_tiles(a->H);
    for (uint64_t n = first; n < end; n++) {
        uint64_t token = (uint64_t)a->tokens[n] * a->H, position = n % a->T * a->H;
        for (uint32_t t = 0; t < tiles; t++) {
            struct tile_span span = tile_of(t, a->H);
            tile_fp32 x, p;
            tile_load(a->precision, a->wte, token + span.first, span.count, 0, x);
            if (a->wpe) {
                tile_load(a->precision, a->wpe, position + span.first, span.count, 0, p);
                tile_add(x, p);
            }
            dropout_tile(&a->dropout, n, tiles, t, x);
            tile_store(a->precision, a->x, n * a->H + span.first, span.count, x);
        }
    }
}

/* Adds tile `t` of one row of dx, under the forward's mask, to `sum`. */
static void add_gradient(enum model_precision precision, uint32_t H, const void *dx,
                         const struct simd_dropout *dropout, uint64_t row, uint32_t t,
                         float sum[SIMD_TILE])
{
    struct tile_span span = tile_of(t, H);
    tile_fp32 dy;
    tile_load(precision, dx, row * H + span.first, span.count, 0, dy);
    dropout_tile(dropout, row, simd_tiles(H), t, dy);
    tile_add(sum, dy);
}

void SIMD(embed_tokens)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_embed_tokens *a = arguments;
    for (uint32_t t = (uint32_t)first; t < end; t++) {
        struct tile_span span = tile_of(t, a->H);
        for (uint32_t i = 0; i < a->N;) {
            uint64_t token = a->order[i] >> 32;
            tile_fp32 sum = {0};
            for (; i < a->N && a->order[i] >> 32 == token; i++)
                add_gradient(a->precision, a->H, a->dx, &a->dropout, (uint32_t)a->order[i], t, sum);
            tile_store_gradient(a->gradient, a->dwte, token * a->H + span.first, span.count, sum);
        }
    }
}

void SIMD(embed_positions)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_embed_positions *a = arguments;
    uint32_t tiles = simd_tiles(a->H);
    for (uint64_t position = first; position < end; position++)
        for (uint32_t t = 0; t < tiles; t++) {
            struct tile_span span = tile_of(t, a->H);
            tile_fp32 sum = {0};
            for (uint32_t b = 0; b < a->B; b++)
                add_gradient(a->precision, a->H, a->dx, &a->dropout, (uint64_t)b * a->T + position,
                             t, sum);
            tile_store_gradient(a->gradient, a->dwpe, position * a->H + span.first, span.count,
                                sum);
        }
}

/* ---- residual and dropout ---- */

void SIMD(residual)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_residual *a = arguments;
    uint32_t tiles = simd_tiles(a->H);
    for (uint64_t n = first; n < end; n++)
        for (uint32_t t = 0; t < tiles; t++) {
            struct tile_span span = tile_of(t, a->H);
            uint64_t element = n * a->H + span.first;
            tile_fp32 y, residual;
            tile_load(a->precision, a->from, element, span.count, 0, y);
            dropout_tile(&a->dropout, n, tiles, t, y);
            if (a->residual) {
                tile_load(a->precision, a->residual, element, span.count, 0, residual);
                tile_add(y, residual);
            }
            tile_store(a->precision, a->y, element, span.count, y);
        }
}

/* ---- sums of columns ---- */

/* The sum of a tile of columns over many rows. Rows are summed in blocks and then the blocks are
 * summed, which keeps the error of a long sum small. */
enum { COLUMN_BLOCK = 64 };

/* Begin with all zeros. `total` is complete after column_sum_end. */
struct column_sum {
    tile_fp32 block, total;
    uint32_t rows; /* in the block */
};

static inline void column_sum_end(struct column_sum *sum)
{
    tile_add(sum->total, sum->block);
    tile_fill(sum->block, 0);
    sum->rows = 0;
}

static inline void column_sum_add(struct column_sum *sum, const float row[SIMD_TILE])
{
    tile_add(sum->block, row);
    if (++sum->rows == COLUMN_BLOCK)
        column_sum_end(sum);
}

void SIMD(column_sums)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_column_sums *a = arguments;
    for (uint32_t t = (uint32_t)first; t < end; t++) {
        struct tile_span span = tile_of(t, a->O);
        struct column_sum sum = {0};
        for (uint64_t n = 0; n < a->N; n++) {
            tile_fp32 dy;
            tile_load(a->precision, a->dy, n * a->row + span.first, span.count, 0, dy);
            column_sum_add(&sum, dy);
        }
        column_sum_end(&sum);
        tile_store_gradient(a->gradient, a->dbias, span.first, span.count, sum.total);
    }
}

/* ---- layer norm (Ba, Kiros, Hinton 2016): y = weight (x - mean) / sqrt(variance + epsilon) + bias
 * ---- */

static float row_mean(const struct simd_norm_forward *a, uint64_t n)
{
    tile_fp32 sum = {0};
    for (uint32_t t = 0; t < simd_tiles(a->H); t++) {
        struct tile_span span = tile_of(t, a->H);
        tile_fp32 x;
        tile_load(a->precision, a->x, n * a->H + span.first, span.count, 0, x);
        tile_add(sum, x);
    }
    return tile_sum(sum) / (float)a->H;
}

static float row_variance(const struct simd_norm_forward *a, uint64_t n, float mean)
{
    tile_fp32 sum = {0};
    for (uint32_t t = 0; t < simd_tiles(a->H); t++) {
        struct tile_span span = tile_of(t, a->H);
        tile_fp32 x;
        tile_load(a->precision, a->x, n * a->H + span.first, span.count, mean, x);
        for (int i = 0; i < SIMD_TILE; i++)
            sum[i] = fmaf(x[i] - mean, x[i] - mean, sum[i]);
    }
    return tile_sum(sum) / (float)a->H;
}

void SIMD(norm_forward)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_norm_forward *a = arguments;
    for (uint64_t n = first; n < end; n++) {
        float mean = row_mean(a, n);
        float inverse = 1 / sqrtf(row_variance(a, n, mean) + a->epsilon);
        a->stats[n] = mean;
        a->stats[a->N + n] = inverse;
        for (uint32_t t = 0; t < simd_tiles(a->H); t++) {
            struct tile_span span = tile_of(t, a->H);
            tile_fp32 x, weight, bias;
            tile_load(a->precision, a->x, n * a->H + span.first, span.count, 0, x);
            tile_load(a->precision, a->weight, span.first, span.count, 0, weight);
            tile_load(a->precision, a->bias, span.first, span.count, 0, bias);
            for (int i = 0; i < SIMD_TILE; i++)
                x[i] = fmaf((x[i] - mean) * inverse, weight[i], bias[i]);
            tile_store(a->precision, a->y, n * a->H + span.first, span.count, x);
        }
    }
}

/* Computes one tile of g = dy weight, and of x normalised. */
static void input_tile(const struct simd_norm_input *a, uint64_t n, struct tile_span span,
                       float g[SIMD_TILE], float normal[SIMD_TILE])
{
    float mean = a->stats[n], inverse = a->stats[a->N + n];
    tile_fp32 weight;
    tile_load(a->precision, a->dy, n * a->H + span.first, span.count, 0, g);
    tile_load(a->precision, a->weight, span.first, span.count, 0, weight);
    tile_load(a->precision, a->x, n * a->H + span.first, span.count, mean, normal);
    for (int i = 0; i < SIMD_TILE; i++) {
        g[i] *= weight[i];
        normal[i] = (normal[i] - mean) * inverse;
    }
}

/* dx = (g - mean(g) - normal mean(g normal)) / deviation */
void SIMD(norm_input)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_norm_input *a = arguments;
    for (uint64_t n = first; n < end; n++) {
        tile_fp32 sum = {0}, sum_normal = {0};
        tile_fp32 g, normal;
        for (uint32_t t = 0; t < simd_tiles(a->H); t++) {
            input_tile(a, n, tile_of(t, a->H), g, normal);
            for (int i = 0; i < SIMD_TILE; i++) {
                sum[i] += g[i];
                sum_normal[i] = fmaf(g[i], normal[i], sum_normal[i]);
            }
        }
        float mean_g = tile_sum(sum) / (float)a->H;
        float mean_normal = tile_sum(sum_normal) / (float)a->H;
        float inverse = a->stats[a->N + n];
        for (uint32_t t = 0; t < simd_tiles(a->H); t++) {
            struct tile_span span = tile_of(t, a->H);
            tile_fp32 dx = {0};
            input_tile(a, n, span, g, normal);
            if (a->add)
                tile_load(a->precision, a->dx, n * a->H + span.first, span.count, 0, dx);
            for (int i = 0; i < SIMD_TILE; i++)
                dx[i] = fmaf(fmaf(-normal[i], mean_normal, g[i] - mean_g), inverse, dx[i]);
            tile_store(a->precision, a->dx, n * a->H + span.first, span.count, dx);
        }
    }
}

void SIMD(norm_parameters)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_norm_parameters *a = arguments;
    for (uint32_t t = (uint32_t)first; t < end; t++) {
        struct tile_span span = tile_of(t, a->H);
        struct column_sum weight = {0}, bias = {0};
        for (uint64_t n = 0; n < a->N; n++) {
            float mean = a->stats[n], inverse = a->stats[a->N + n];
            tile_fp32 dy, x;
            tile_load(a->precision, a->dy, n * a->H + span.first, span.count, 0, dy);
            tile_load(a->precision, a->x, n * a->H + span.first, span.count, mean, x);
            for (int i = 0; i < SIMD_TILE; i++)
                x[i] = dy[i] * ((x[i] - mean) * inverse);
            column_sum_add(&weight, x);
            column_sum_add(&bias, dy);
        }
        column_sum_end(&weight);
        column_sum_end(&bias);
        tile_store_gradient(a->gradient, a->dweight, span.first, span.count, weight.total);
        tile_store_gradient(a->gradient, a->dbias, span.first, span.count, bias.total);
    }
}

/* ---- RMS norm: y = (weight + offset) x / sqrt(mean square + epsilon) ---- */

static float row_squares(const struct simd_rms_forward *a, uint64_t n)
{
    tile_fp32 sum = {0};
    for (uint32_t t = 0; t < simd_tiles(a->H); t++) {
        struct tile_span span = tile_of(t, a->H);
        tile_fp32 x;
        tile_load(a->precision, a->x, n * a->H + span.first, span.count, 0, x);
        for (int i = 0; i < SIMD_TILE; i++)
            sum[i] = fmaf(x[i], x[i], sum[i]);
    }
    return tile_sum(sum) / (float)a->H;
}

void SIMD(rms_forward)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_rms_forward *a = arguments;
    for (uint64_t n = first; n < end; n++) {
        float inverse = 1 / sqrtf(row_squares(a, n) + a->epsilon);
        a->stats[n] = inverse;
        for (uint32_t t = 0; t < simd_tiles(a->H); t++) {
            struct tile_span span = tile_of(t, a->H);
            tile_fp32 x, weight;
            tile_load(a->precision, a->x, n * a->H + span.first, span.count, 0, x);
            tile_load(a->precision, a->weight, span.first, span.count, 0, weight);
            for (int i = 0; i < SIMD_TILE; i++)
                x[i] = x[i] * inverse * (weight[i] + a->offset);
            tile_store(a->precision, a->y, n * a->H + span.first, span.count, x);
        }
    }
}

/* Computes one tile of g = dy weight, and of x normalised. */
static void rms_tile(const struct simd_norm_input *a, uint64_t n, struct tile_span span,
                     float g[SIMD_TILE], float normal[SIMD_TILE])
{
    tile_fp32 weight;
    tile_load(a->precision, a->dy, n * a->H + span.first, span.count, 0, g);
    tile_load(a->precision, a->weight, span.first, span.count, 0, weight);
    tile_load(a->precision, a->x, n * a->H + span.first, span.count, 0, normal);
    for (int i = 0; i < SIMD_TILE; i++) {
        g[i] *= weight[i] + a->offset;
        normal[i] *= a->stats[n];
    }
}

/* dx = (g - normal mean(g normal)) / root mean square */
void SIMD(rms_input)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_norm_input *a = arguments;
    for (uint64_t n = first; n < end; n++) {
        tile_fp32 sum = {0}, g, normal;
        for (uint32_t t = 0; t < simd_tiles(a->H); t++) {
            rms_tile(a, n, tile_of(t, a->H), g, normal);
            for (int i = 0; i < SIMD_TILE; i++)
                sum[i] = fmaf(g[i], normal[i], sum[i]);
        }
        float mean = tile_sum(sum) / (float)a->H, inverse = a->stats[n];
        for (uint32_t t = 0; t < simd_tiles(a->H); t++) {
            struct tile_span span = tile_of(t, a->H);
            tile_fp32 dx = {0};
            rms_tile(a, n, span, g, normal);
            if (a->add)
                tile_load(a->precision, a->dx, n * a->H + span.first, span.count, 0, dx);
            for (int i = 0; i < SIMD_TILE; i++)
                dx[i] = fmaf(fmaf(-normal[i], mean, g[i]), inverse, dx[i]);
            tile_store(a->precision, a->dx, n * a->H + span.first, span.count, dx);
        }
    }
}

void SIMD(rms_weight)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_norm_parameters *a = arguments;
    for (uint32_t t = (uint32_t)first; t < end; t++) {
        struct tile_span span = tile_of(t, a->H);
        struct column_sum weight = {0};
        for (uint64_t n = 0; n < a->N; n++) {
            float inverse = a->stats[n];
            tile_fp32 dy, x;
            tile_load(a->precision, a->dy, n * a->H + span.first, span.count, 0, dy);
            tile_load(a->precision, a->x, n * a->H + span.first, span.count, 0, x);
            for (int i = 0; i < SIMD_TILE; i++)
                x[i] = dy[i] * (x[i] * inverse);
            column_sum_add(&weight, x);
        }
        column_sum_end(&weight);
        tile_store_gradient(a->gradient, a->dweight, span.first, span.count, weight.total);
    }
}
