#include "models/config.h"

G_DEFINE_QUARK(pstar_model_error, model_error)

void model_config_free(struct model_config *config)
{
    if (!config)
        return;
    g_free(config->name);
    g_free(config);
}

uint64_t model_config_parameters(const struct model_config *config)
{
    uint64_t h = config->width, f = config->inner, v = config->vocabulary;
    uint64_t norm = 2 * h;
    uint64_t attention = (h * 3 * h + 3 * h) + (h * h + h);
    uint64_t mlp = (h * f + f) + (f * h + h);
    uint64_t embeddings = v * h + config->positions * h;
    uint64_t classifier = config->tied ? 0 : v * h;
    return embeddings + config->layers * (2 * norm + attention + mlp) + norm + classifier;
}
