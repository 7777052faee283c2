/* Gives small models the parts of a family. */
#ifndef PSTAR_TESTS_MODELS_FAMILY_PARTS_H
#define PSTAR_TESTS_MODELS_FAMILY_PARTS_H

#include "models/family.h"

/* Sets windows, where the family has any: in all layers, in those behind the first one, or in every
 * other layer. */
static inline void set_window(const struct model_family *family, uint32_t window,
                              struct model_config *config)
{
    if (family == &family_gemma2 || family == &family_gemma3) {
        config->score_cap = family == &family_gemma2 ? 3 : 0;
        config->logit_cap = 2;
        config->window = window;
        config->full_every = 2;
        config->query_scalar = 6;
        if (family == &family_gemma2)
            return;
        config->local_rotary = config->rotary;
        config->local_rotary.base = 30;
        return;
    }
    bool all = family == &family_mistral || family == &family_phi3 || family->experts;
    if (all || family == &family_qwen2 || family == &family_qwen3)
        config->window = window;
    config->first_window = config->window && !all ? 1 : 0;
}

static inline bool drops_residual(const struct model_family *family)
{
    return family == &family_phi3 || family == &family_phi || family == &family_gpt_neox ||
           family == &family_bert;
}

static inline bool drops_embedding(const struct model_family *family)
{
    return drops_residual(family) && family != &family_phi3;
}

/* Sets heads that turn, of which groups share keys. Heads that are interleaved share none, and
 * divide the width. */
static inline void set_turned_heads(const struct model_family *family, uint32_t head_size,
                                    struct model_config *config)
{
    config->key_heads = family->parts.interleaved ? 4 : 2;
    config->head_size = family->parts.interleaved ? config->width / 8 * 2 : head_size;
    config->rotary = (struct model_rotary){
        .columns = config->head_size, .base = 100, .factor = 1, .magnitude = 1};
}

/* Replaces the parts of a config by the family's, with 4 heads of which two share keys if they
 * turn, and keeps its sizes. */
static inline void set_family(const struct model_family *family, uint32_t head_size,
                              uint32_t window, struct model_config *config)
{
    struct model_config sizes = *config;
    *config = family->parts;
    config->name = sizes.name;
    config->family = family;
    config->layers = sizes.layers;
    config->width = sizes.width;
    config->inner = sizes.inner;
    config->positions = sizes.positions;
    config->vocabulary = sizes.vocabulary;
    config->tied = sizes.tied && (family == &family_bert || !family->parts.classifier_bias);
    config->attention_dropout = sizes.attention_dropout;
    config->residual_dropout = drops_residual(family) ? sizes.residual_dropout : 0;
    config->embedding_dropout = drops_embedding(family) ? config->residual_dropout : 0;
    config->norm_epsilon = sizes.norm_epsilon;
    config->initializer_range = sizes.initializer_range;
    config->heads = 4;
    if (!family->positions)
        set_turned_heads(family, head_size, config);
    if (family == &family_gpt_neox)
        config->activation = MODEL_GELU_EXACT;
    config->experts = family->experts ? 4 : 0;
    config->experts_per_token = family->experts ? 2 : 0;
    config->unturned_every = family->unturned_layers ? 2 : 0;
    set_window(family, window, config);
}

#endif
