#include "engine/train/sampling.h"

#include "engine/random.h"

#include <math.h>

/* Sharpens a little: fewer of the unlikely tokens that a small model overrates. */
#define TEMPERATURE 0.8

/* One token of the distribution softmax(logits / TEMPERATURE), at the place `uniform` in [0, 1). */
static uint32_t draw(const float *logits, uint32_t vocabulary, double uniform)
{
    double greatest = -INFINITY, sum = 0, below = 0;
    for (uint32_t v = 0; v < vocabulary; v++)
        greatest = logits[v] > greatest ? logits[v] : greatest;
    for (uint32_t v = 0; v < vocabulary; v++)
        sum += exp((logits[v] - greatest) / TEMPERATURE);
    for (uint32_t v = 0; v < vocabulary; v++) {
        below += exp((logits[v] - greatest) / TEMPERATURE) / sum;
        if (uniform < below)
            return v;
    }
    return vocabulary - 1;
}

/* The last tokens of `text` fill the first row; the others stay zero: their logits are not read. */
static uint32_t fill_window(const GArray *text, uint32_t sequence, uint32_t *tokens)
{
    uint32_t used = MIN(text->len, sequence);
    memcpy(tokens, &g_array_index(text, uint32_t, text->len - used), used * sizeof *tokens);
    return used;
}

bool sampling_continue(struct engine *engine, const struct model_iteration *iteration,
                       uint64_t seed, uint32_t count, GArray *text, GError **error)
{
    const struct model_job *job = &iteration->job;
    uint32_t V = iteration->config->vocabulary;
    struct random_stream stream = {.seed = seed, .pass = 0, .site = UINT32_MAX};
    g_autofree uint32_t *tokens = g_new0(uint32_t, 2 * (size_t)job->choices.batch * job->sequence);
    g_autofree float *logits = g_new(float, V);
    g_assert(text->len > 0);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t used = fill_window(text, job->sequence, tokens);
        if (!engine_logits(engine, tokens, used - 1, 1, logits, error))
            return false;
        uint32_t token = draw(logits, V, random_word(&stream, i) * 0x1p-32);
        g_array_append_val(text, token);
    }
    return true;
}
