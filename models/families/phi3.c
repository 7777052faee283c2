/* Phi 3 and 4: a LLaMA with one product for queries, keys and values, and one for gate and up, of
 * whose heads a part turns in some versions. */
#include "models/family.h"

/* Dropout of embeddings has a key, but transformers does not apply it. */
static bool read_config(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    static const struct config_defaults defaults = {
        .rotary_base = 10000, .rotary_part = 1, .epsilon = 1e-5};
    return config_read_llama(reader, &defaults, config, error) &&
           config_dropout(reader, "resid_pdrop", 0, &config->residual_dropout, error) &&
           config_count_or(reader, "sliding_window", 0, &config->window, error);
}

/* The default ids of tokens may be no tokens. */
static void write_config(const struct model_config *config, json_t *root)
{
    static const char *const tokens[] = {"pad_token_id", "bos_token_id", "eos_token_id"};
    config_write_llama(config, root);
    json_object_set_new(root, "resid_pdrop", json_real(config->residual_dropout));
    json_object_set_new(root, "sliding_window",
                        config->window ? json_integer(config->window) : json_null());
    if (config->rotary.original_positions)
        json_object_set_new(root, "original_max_position_embeddings",
                            json_integer(config->rotary.original_positions));
    for (size_t i = 0; i < G_N_ELEMENTS(tokens); i++)
        json_object_set_new(root, tokens[i], json_null());
}

const struct model_family family_phi3 = {
    .type = "phi3",
    .architecture = "Phi3ForCausalLM",
    .base = "Phi3Model",
    MODEL_LLAMA_NAMES,
    .modules = {[MODULE_NORM_1] = "input_layernorm",
                [MODULE_QKV] = "self_attn.qkv_proj",
                [MODULE_OUTPUT] = "self_attn.o_proj",
                [MODULE_NORM_2] = "post_attention_layernorm",
                [MODULE_UP] = "mlp.gate_up_proj",
                [MODULE_DOWN] = "mlp.down_proj"},
    .parts = {.norm = MODEL_RMS_NORM,
              .activation = MODEL_SILU,
              .gated = true,
              .joined_gate = true,
              .unbiased_qkv = true,
              .unbiased_output = true,
              .unbiased_mlp = true},
    .partly_turned = true,
    .long_rotary = true,
    .read = read_config,
    .write = write_config,
};
