/* Cross-entropy of a softmax: log(sum of exp(l - max)) + max - l[target]; its gradient is
 * exp(l - max) / sum, less 1 at the target. */
#include "engine/cpu/simd/loops.h"
#include "engine/cpu/simd/tile.h"
#include "engine/exponential.h"

struct softmax {
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

static struct softmax row_softmax(const struct simd_loss *a, uint64_t n)
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
    return (struct softmax){max, total};
}

static double row_loss(const struct simd_loss *a, uint64_t n, struct softmax softmax)
{
    uint64_t target = n * a->row + a->targets[n];
    float logit = a->precision == MODEL_BF16 ? bf16_widen(((const uint16_t *)a->logits)[target])
                                             : ((const float *)a->logits)[target];
    return log(softmax.sum) + (double)softmax.max - (double)logit;
}

static void row_gradient(const struct simd_loss *a, uint64_t n, struct softmax softmax)
{
    float inverse = (float)(1 / softmax.sum);
    uint32_t target = a->targets[n];
    for (uint32_t t = 0; t < simd_tiles(a->V); t++) {
        struct tile_span span = tile_of(t, a->V);
        tile_fp32 l;
        tile_load(a->precision, a->logits, n * a->row + span.first, span.count, -INFINITY, l);
        for (int i = 0; i < SIMD_TILE; i++)
            l[i] = exponential(l[i] - softmax.max) * inverse;
        if (target / SIMD_TILE == t)
            l[target % SIMD_TILE] -= 1;
        for (int i = 0; i < SIMD_TILE; i++)
            l[i] *= a->scale;
        tile_store(a->precision, a->gradient, n * a->row + span.first, span.count, l);
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
            a->losses[block] += row_loss(a, n, row_softmax(a, n));
    }
}

void SIMD(loss_backward)(const void *arguments, uint64_t first, uint64_t end)
{
    const struct simd_loss *a = arguments;
    for (uint64_t block = first; block < end; block++) {
        a->losses[block] = 0;
        for (uint64_t n = block_first(a, block); n < block_first(a, block + 1); n++) {
            struct softmax softmax = row_softmax(a, n);
            a->losses[block] += row_loss(a, n, softmax);
            row_gradient(a, n, softmax);
        }
    }
}
