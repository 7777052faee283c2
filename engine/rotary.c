#include "engine/rotary.h"

#include <math.h>

static const double two_pi = 6.283185307179586;

/* Llama 3: waves that are longer than the first training's positions become `factor` times as long,
 * short ones stay, and those between are mixed. */
static double scale_llama3(const struct model_rotary *r, double frequency)
{
    double turns = r->original_positions * frequency / two_pi;
    if (turns < r->low_frequency)
        return frequency / r->factor;
    if (turns > r->high_frequency)
        return frequency;
    double smooth = (turns - r->low_frequency) / (r->high_frequency - r->low_frequency);
    return (1 - smooth) * frequency / r->factor + smooth * frequency;
}

/* Returns the pair, counted from 0, whose wave turns so often in the first training's positions. */
static double pair_that_turns(const struct model_rotary *r, double times)
{
    return r->columns * log(r->original_positions / (times * two_pi)) / (2 * log(r->base));
}

/* YaRN (Peng et al., 2023): a ramp over the pairs, from those that turn often, which stay, to those
 * that turn seldom, which become slower. */
static double scale_yarn(const struct model_rotary *r, uint32_t pair, double frequency)
{
    double low = pair_that_turns(r, r->beta_fast), high = pair_that_turns(r, r->beta_slow);
    if (r->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, r->columns - 1);
    if (low == high)
        high += 0.001; /* as transformers does */
    double ramp = fmin(fmax((pair - low) / (high - low), 0), 1);
    return ramp * frequency / r->factor + (1 - ramp) * frequency;
}

/* Dynamic scaling changes sequences that are longer than the model's positions, and there are none.
 */
static double frequency_of(const struct model_rotary *r, uint32_t positions, uint32_t pair)
{
    bool is_long = positions > r->original_positions;
    double frequency = 1 / pow(r->base, 2.0 * pair / r->columns);
    switch (r->scaling) {
    case MODEL_ROTARY_DEFAULT:
    case MODEL_ROTARY_DYNAMIC:
        return frequency;
    case MODEL_ROTARY_LINEAR:
        return frequency / r->factor;
    case MODEL_ROTARY_LLAMA3:
        return scale_llama3(r, frequency);
    case MODEL_ROTARY_YARN:
        return scale_yarn(r, pair, frequency);
    case MODEL_ROTARY_LONGROPE:
        return frequency / (is_long ? r->long_factors : r->short_factors)[pair];
    }
    g_assert_not_reached();
}

/* Angles are products of fp32, as in transformers. */
void rotary_fill(const struct model_rotary *rotary, uint32_t positions, float *cosines,
                 float *sines)
{
    const struct model_rotary *r = rotary;
    uint32_t pairs = r->columns / 2;
    for (uint32_t pair = 0; pair < pairs; pair++) {
        float frequency = (float)frequency_of(r, positions, pair);
        for (uint32_t t = 0; t < positions; t++) {
            double angle = (double)((float)t * frequency);
            cosines[(uint64_t)t * pairs + pair] = (float)(cos(angle) * r->magnitude);
            sines[(uint64_t)t * pairs + pair] = (float)(sin(angle) * r->magnitude);
        }
    }
}
