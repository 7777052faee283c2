/* Gemma: a LLaMA with GELU gates, scaled embeddings, and norms that scale by 1 more than their
 * weight.
 */
#include "models/family.h"

static bool read_config(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    static const char *const activations[] = {"gelu_pytorch_tanh", NULL};
    static const struct config_defaults defaults = {
        .key_heads = 16, .head_size = 256, .rotary_base = 10000, .epsilon = 1e-6, .tied = true};
    const json_t *activation = json_object_get(reader->root, "hidden_activation");
    bool biased;
    if ((!json_is_null(activation) &&
         !config_word(reader, "hidden_activation", activations, error)) ||
        !config_switch(reader, "use_bidirectional_attention", false, error) ||
        !config_read_llama(reader, &defaults, config, error) ||
        !config_bool(reader, "attention_bias", false, &biased, error))
        return false;
    config->unbiased_qkv = config->unbiased_output = !biased;
    return true;
}

static void write_config(const struct model_config *config, json_t *root)
{
    config_write_llama(config, root);
    json_object_set_new(root, "pad_token_id", json_null()); /* the default may be no token */
    json_object_set_new(root, "attention_bias", json_boolean(!config->unbiased_qkv));
}

const struct model_family family_gemma = {
    .type = "gemma",
    .architecture = "GemmaForCausalLM",
    .base = "GemmaModel",
    MODEL_LLAMA_NAMES,
    .modules = {MODEL_LLAMA_MODULES},
    .parts = {MODEL_GEMMA_PARTS},
    .read = read_config,
    .write = write_config,
};
