/* Gemma 2: norms around attention and MLP, a window in every other layer, and soft caps of scores
 * and logits. */
#include "models/family.h"

enum { EVERY = 2 }; /* layer that attends to all positions */

static bool read_config(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    static const struct config_defaults defaults = {
        .key_heads = 4, .head_size = 256, .rotary_base = 10000, .epsilon = 1e-6, .tied = true};
    return config_read_gemma(reader, &defaults, config, error) &&
           config_read_gemma_attention(reader, EVERY, config, error) &&
           config_cap(reader, "attn_logit_softcapping", 50, &config->score_cap, error) &&
           config_cap(reader, "final_logit_softcapping", 30, &config->logit_cap, error);
}

static void write_config(const struct model_config *config, json_t *root)
{
    config_write_gemma(config, root);
    config_write_gemma_attention(config, root);
    config_write_cap(config->score_cap, "attn_logit_softcapping", root);
    config_write_cap(config->logit_cap, "final_logit_softcapping", root);
}

const struct model_family family_gemma2 = {
    .type = "gemma2",
    .architecture = "Gemma2ForCausalLM",
    .base = "Gemma2Model",
    MODEL_LLAMA_NAMES,
    .modules = {MODEL_GEMMA2_MODULES},
    .parts = {MODEL_GEMMA_PARTS, .norm_places = MODEL_NORMS_AROUND},
    .soft_caps = true,
    .read = read_config,
    .write = write_config,
};
