/* Gemma: a LLaMA with GELU gates, scaled embeddings, and norms that scale by 1 more than their
 * weight.
 */
#include "models/family.h"

static bool read_config(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    /* The first releases of Gemma say "gelu", but were trained with the approximation by tanh.
     * transformers reads them so, too. */
    static const struct config_defaults defaults = {.key_heads = 16,
                                                    .head_size = 256,
                                                    .rotary_base = 10000,
                                                    .epsilon = 1e-6,
                                                    .tied = true,
                                                    .activation_alias = "gelu"};
    return config_read_gemma(reader, &defaults, config, error);
}

const struct model_family family_gemma = {
    .type = "gemma",
    .architecture = "GemmaForCausalLM",
    .base = "GemmaModel",
    MODEL_LLAMA_NAMES,
    .modules = {MODEL_LLAMA_MODULES},
    .parts = {MODEL_GEMMA_PARTS},
    .read = read_config,
    .write = config_write_gemma,
};
