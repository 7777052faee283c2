/* Qwen 3 with a mixture of experts for an MLP in every layer. */
#include "models/family.h"

/* Layers must be alike. */
static bool refuse_plain_layers(const struct config_reader *reader, GError **error)
{
    static const char every_key[] = "decoder_sparse_step", plain_key[] = "mlp_only_layers";
    const json_t *plain = json_object_get(reader->root, plain_key);
    static const char why[] = "layers without experts beside layers with them are not supported";
    uint32_t every;
    if (!config_count_or(reader, every_key, 1, &every, error))
        return false;
    if (every != 1)
        return config_refuse(reader, every_key, json_object_get(reader->root, every_key), why,
                             error);
    bool none = !plain || json_is_null(plain) ||
                (json_is_array(plain) && json_array_size(plain) == 0);
    return none || config_refuse(reader, plain_key, plain, why, error);
}

static bool read_config(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    static const struct config_defaults defaults = {
        .key_heads = 4, .rotary_base = 10000, .epsilon = 1e-6};
    bool biased, slides;
    if (!config_read_llama(reader, &defaults, config, error) ||
        !config_bool(reader, "attention_bias", false, &biased, error) ||
        !config_bool(reader, "use_sliding_window", false, &slides, error) ||
        !config_count_or(reader, "sliding_window", 4096, &config->window, error) ||
        !config_count_or(reader, "moe_intermediate_size", 768, &config->inner, error) ||
        !config_bool(reader, "norm_topk_prob", false, &config->shared_weight, error) ||
        !config_read_experts(reader, 128, 8, config, error))
        return false;
    config->unbiased_qkv = config->unbiased_output = !biased;
    if (!slides)
        config->window = 0;
    return refuse_plain_layers(reader, error);
}

static void write_config(const struct model_config *config, json_t *root)
{
    config_write_llama(config, root);
    config_write_experts(config, root);
    json_object_set_new(root, "num_experts", json_integer(config->experts));
    json_object_set_new(root, "moe_intermediate_size", json_integer(config->inner));
    json_object_set_new(root, "norm_topk_prob", json_boolean(config->shared_weight));
    json_object_set_new(root, "attention_bias", json_boolean(!config->unbiased_qkv));
    json_object_set_new(root, "use_sliding_window", json_boolean(config->window > 0));
    json_object_set_new(root, "sliding_window",
                        config->window ? json_integer(config->window) : json_null());
}

const struct model_family family_qwen3_moe = {
    .type = "qwen3_moe",
    .architecture = "Qwen3MoeForCausalLM",
    .base = "Qwen3MoeModel",
    MODEL_EXPERTS_NAMES,
    .modules = {MODEL_EXPERTS_MODULES, [MODULE_QUERY_NORM] = "self_attn.q_norm",
                [MODULE_KEY_NORM] = "self_attn.k_norm"},
    .file_experts = {"gate_proj", "up_proj", "down_proj"},
    .parts = {MODEL_EXPERTS_PARTS, .query_norms = MODEL_QUERY_NORMS_HEADS},
    .read = read_config,
    .write = write_config,
};
