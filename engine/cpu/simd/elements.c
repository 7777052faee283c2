/* Loops over elements: GELU, gates, conversions, sums of squares, loss. */
#include "engine/cpu/simd/loops.h"
#include "engine/exponential.h"
#include "engine/gelu.h"
#include "engine/silu.h"
#include "engine/soft_cap.h"

/* ---- activations ---- */

static uint32_t tile_elements(uint64_t first, uint64_t end)
{
    return end - first < SIMD_TILE ? (uint32_t)(end - first) : SIMD_TILE;
}

/* Turns each element into the activation. */
static void activate(enum model_activation activation, float x[SIMD_TILE])
{
    switch (activation) {
    case MODEL_SILU:
        for (int i = 0; i < SIMD_TILE; i++)
            x[i] = silu(x[i]);
        break;
    case MODEL_GELU_TANH:
        for (int i = 0; i < SIMD_TILE; i++)
            x[i] = gelu(x[i]);
        break;
    case MODEL_GELU_EXACT:
        for (int i = 0; i < SIMD_TILE; i++)
            x[i] = gelu_exact(x[i]);
        break;
    }
}

static void activate_slope(enum model_activation activation, const float x[SIMD_TILE],
                           float slope[SIMD_TILE])
{
    switch (activation) {
    case MODEL_SILU:
        for (int i = 0; i < SIMD_TILE; i++)
            slope[i] = silu_slope(x[i]);
        break;
    case MODEL_GELU_TANH:
        for (int i = 0; i < SIMD_TILE; i++)
            slope[i] = gelu_slope(x[i]);
        break;
    case MODEL_GELU_EXACT:
        for (int i = 0; i < SIMD_TILE; i++)
            slope[i] = gelu_exact_slope(x[i]);
        break;
    }
}

void SIMD(gelu_forward)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_gelu *a = arguments;
    for (uint64_t e = first; e < end; e += SIMD_TILE) {
        uint32_t count = tile_elements(e, end);
        tile_fp32 x;
        tile_load(a->precision, a->pre, e, count, 0, x);
        activate(a->of, x);
        tile_store(a->precision, a->y, e, count, x);
    }
}

void SIMD(gelu_backward)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_gelu *a = arguments;
    for (uint64_t e = first; e < end; e += SIMD_TILE) {
        uint32_t count = tile_elements(e, end);
        tile_fp32 x, dy, slope;
        tile_load(a->precision, a->pre, e, count, 0, x);
        tile_load(a->precision, a->y, e, count, 0, dy);
        activate_slope(a->of, x, slope);
        tile_multiply(dy, slope);
        tile_store(a->precision, a->y, e, count, dy);
    }
}

/* ---- gates ---- */

/* Where a tile of a row is: in gate, up and their gradients, and in y and dy. */
struct gate_tile {
    uint64_t element, dense;
    uint32_t count;
};

static struct gate_tile gate_tile_of(const struct kernel_gate *gate, uint64_t item)
{
    uint64_t tiles = (gate->F + SIMD_TILE - 1) / SIMD_TILE;
    uint64_t row = item / tiles, column = item % tiles * SIMD_TILE;
    return (struct gate_tile){row * gate->row + column, row * gate->F + column,
                              tile_elements(column, gate->F)};
}

void SIMD(gate_forward)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_gate *a = arguments;
    for (uint64_t item = first; item < end; item++) {
        struct gate_tile at = gate_tile_of(&a->gate, item);
        tile_fp32 gate, up;
        tile_load(a->precision, a->gate.gate, at.element, at.count, 0, gate);
        tile_load(a->precision, a->gate.up, at.element, at.count, 0, up);
        activate(a->gate.activation, gate);
        tile_multiply(gate, up);
        tile_store(a->precision, a->y, at.dense, at.count, gate);
    }
}

void SIMD(gate_backward)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_gate *a = arguments;
    for (uint64_t item = first; item < end; item++) {
        struct gate_tile at = gate_tile_of(&a->gate, item);
        tile_fp32 gate, up, dy, slope;
        tile_load(a->precision, a->gate.gate, at.element, at.count, 0, gate);
        tile_load(a->precision, a->gate.up, at.element, at.count, 0, up);
        tile_load(a->precision, a->dy, at.dense, at.count, 0, dy);
        activate_slope(a->gate.activation, gate, slope);
        activate(a->gate.activation, gate);
        for (int i = 0; i < SIMD_TILE; i++) {
            up[i] = dy[i] * up[i] * slope[i];
            dy[i] = dy[i] * gate[i];
        }
        tile_store(a->precision, a->dgate, at.element, at.count, up);
        tile_store(a->precision, a->dup, at.element, at.count, dy);
    }
}

void SIMD(scale)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_scale *a = arguments;
    for (uint64_t e = first; e < end; e += SIMD_TILE) {
        uint32_t count = tile_elements(e, end);
        tile_fp32 x;
        tile_load(a->precision, a->x, e, count, 0, x);
        for (int i = 0; i < SIMD_TILE; i++)
            x[i] *= a->factor;
        tile_store(a->precision, a->x, e, count, x);
    }
}

/* ---- conversions ---- */

void SIMD(round)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_convert *a = arguments;
    const float *restrict from = a->from;
    uint16_t *restrict to = a->to;
    for (uint64_t i = first; i < end; i++)
        to[i] = bf16_round(from[i]);
}

void SIMD(widen)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_convert *a = arguments;
    const uint16_t *restrict from = a->from;
    float *restrict to = a->to;
    for (uint64_t i = first; i < end; i++)
        to[i] = bf16_widen(from[i]);
}

/* ---- sums of squares in fp64: a square of an fp32 is exact there ---- */

static void add_squares(double sum[SIMD_TILE], const float tile[SIMD_TILE])
{
    for (int i = 0; i < SIMD_TILE; i++)
        sum[i] += (double)tile[i] * (double)tile[i];
}

static uint64_t block_end(const struct simd_squares *a, uint64_t block)
{
    uint64_t end = (block + 1) * a->block;
    return end < a->elements ? end : a->elements;
}

void SIMD(squares)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_squares *a = arguments;
    for (uint64_t block = first; block < end; block++) {
        _Alignas(64) double sum[SIMD_TILE] = {0};
        for (uint64_t e = block * a->block; e < block_end(a, block); e += SIMD_TILE) {
            tile_fp32 tile;
            tile_load(a->precision, a->values, e, tile_elements(e, block_end(a, block)), 0, tile);
            add_squares(sum, tile);
        }
        a->sums[block] = pairwise_sum(SIMD_TILE, sum);
    }
}

void SIMD(round_squares)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_squares *a = arguments;
    for (uint64_t block = first; block < end; block++) {
        _Alignas(64) double sum[SIMD_TILE] = {0};
        for (uint64_t e = block * a->block; e < block_end(a, block); e += SIMD_TILE) {
            uint32_t count = tile_elements(e, block_end(a, block));
            tile_fp32 tile;
            tile_load(MODEL_FP32, a->values, e, count, 0, tile);
            tile_store_bf16(a->rounded + e, count, tile);
            for (int i = 0; i < SIMD_TILE; i++)
                tile[i] = bf16_widen(bf16_round(tile[i]));
            add_squares(sum, tile);
        }
        a->sums[block] = pairwise_sum(SIMD_TILE, sum);
    }
}

/* ---- loss ---- */

void SIMD(cap_logits)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_cap_logits *a = arguments;
    for (uint64_t n = first; n < end; n++)
        for (uint32_t t = 0; t < simd_tiles(a->V); t++) {
            struct tile_span span = tile_of(t, a->V);
            uint64_t element = n * a->row + span.first;
            tile_fp32 l;
            tile_load(a->precision, a->logits, element, span.count, 0, l);
            for (int i = 0; i < SIMD_TILE; i++)
                l[i] = soft_cap(l[i], a->cap);
            tile_store(a->precision, a->logits, element, span.count, l);
        }
}

/* The loss of a row is log(sum of exp(l - max)) + max - l[target]. Its gradient is exp(l - max) /
 * sum, less 1 at the target. */

struct softmax_row {
    float max;
    double sum; /* of exp(l - max) */
};

static float row_max(const struct simd_loss *a, uint64_t n)
{
    tile_fp32 max;
    tile_fill(max, -INFINITY);
    for (uint32_t t = 0; t < simd_tiles(a->V); t++) {
        struct tile_span span = tile_of(t, a->V);
        tile_fp32 l;
        tile_load(a->precision, a->logits, n * a->row + span.first, span.count, -INFINITY, l);
        for (int i = 0; i < SIMD_TILE; i++)
            max[i] = l[i] > max[i] ? l[i] : max[i];
    }
    return tile_max(max);
}

static struct softmax_row row_softmax(const struct simd_loss *a, uint64_t n)
{
    float max = row_max(a, n);
    tile_fp32 sum = {0};
    for (uint32_t t = 0; t < simd_tiles(a->V); t++) {
        struct tile_span span = tile_of(t, a->V);
        tile_fp32 l;
        tile_load(a->precision, a->logits, n * a->row + span.first, span.count, -INFINITY, l);
        for (int i = 0; i < SIMD_TILE; i++)
            sum[i] += exponential(l[i] - max);
    }
    double total = 0;
    for (int i = 0; i < SIMD_TILE; i++)
        total += (double)sum[i];
    return (struct softmax_row){max, total};
}

static double row_loss(const struct simd_loss *a, uint64_t n, struct softmax_row softmax)
{
    uint64_t target = n * a->row + a->targets[n];
    float logit = a->precision == MODEL_BF16 ? bf16_widen(((const uint16_t *)a->logits)[target])
                                             : ((const float *)a->logits)[target];
    return log(softmax.sum) + (double)softmax.max - (double)logit;
}

static void row_gradient(const struct simd_loss *a, uint64_t n, struct softmax_row softmax)
{
    float inverse = (float)(1 / softmax.sum);
    uint32_t target = a->targets[n];
    for (uint32_t t = 0; t < simd_tiles(a->V); t++) {
        struct tile_span span = tile_of(t, a->V);
        tile_fp32 l;
        tile_load(a->precision, a->logits, n * a->row + span.first, span.count, -INFINITY, l);
        tile_fp32 slope;
        if (a->cap > 0)
            for (int i = 0; i < SIMD_TILE; i++)
                slope[i] = soft_cap_slope(l[i], a->cap);
        for (int i = 0; i < SIMD_TILE; i++)
            l[i] = exponential(l[i] - softmax.max) * inverse;
        if (target / SIMD_TILE == t)
            l[target % SIMD_TILE] -= 1;
        for (int i = 0; i < SIMD_TILE; i++)
            l[i] *= a->scale;
        if (a->cap > 0)
            tile_multiply(l, slope);
        tile_store(a->precision, a->gradient, n * a->row + span.first, span.count, l);
    }
}

/* The row's target does not count. */
static void row_clear(const struct simd_loss *a, uint64_t n)
{
    const tile_fp32 zeros = {0};
    for (uint32_t t = 0; t < simd_tiles(a->V); t++) {
        struct tile_span span = tile_of(t, a->V);
        tile_store(a->precision, a->gradient, n * a->row + span.first, span.count, zeros);
    }
}

static uint64_t block_first(const struct simd_loss *a, uint64_t block)
{
    return block * a->N / a->blocks;
}

void SIMD(loss)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_loss *a = arguments;
    for (uint64_t block = first; block < end; block++) {
        a->losses[block] = 0;
        for (uint64_t n = block_first(a, block); n < block_first(a, block + 1); n++)
            if (a->targets[n] != KERNEL_NO_TARGET)
                a->losses[block] += row_loss(a, n, row_softmax(a, n));
    }
}

void SIMD(loss_backward)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_loss *a = arguments;
    for (uint64_t block = first; block < end; block++) {
        a->losses[block] = 0;
        for (uint64_t n = block_first(a, block); n < block_first(a, block + 1); n++) {
            if (a->targets[n] == KERNEL_NO_TARGET) {
                row_clear(a, n);
                continue;
            }
            struct softmax_row softmax = row_softmax(a, n);
            a->losses[block] += row_loss(a, n, softmax);
            row_gradient(a, n, softmax);
        }
    }
}
