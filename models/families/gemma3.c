/* Gemma 3, its decoder of text: norms around attention and MLP, queries and keys normalised head by
 * head, and windows in most layers, whose rotary positions have a base of their own. */
#include "models/family.h"

enum { EVERY = 6 }; /* layer that attends to all positions */
static const double base = 1e6, local_base = 1e4;

/* Reads one of the objects in rope_parameters. */
static bool read_object(const struct config_reader *reader, const char *key, double missing,
                        const struct model_config *config, struct model_rotary *rotary,
                        GError **error)
{
    json_t *none = json_object();
    const json_t *object = json_object_get(reader->root, key);
    g_autofree char *origin = g_strdup_printf("%s: %s", reader->origin, key);
    const struct config_reader inner = {object && !json_is_null(object) ? object : none, origin};
    bool ok = (json_is_object(inner.root) || config_wrong(reader, key, "an object", error)) &&
              config_read_rotary_object(&inner, missing, config, rotary, error);
    json_decref(none);
    return ok;
}

/* Older files have the keys of layers without a window, and rope_local_base_freq. */
static bool read_rotary(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    const json_t *object = json_object_get(reader->root, "rope_parameters");
    g_autofree char *origin = g_strdup_printf("%s: rope_parameters", reader->origin);
    const struct config_reader inner = {object, origin};
    config->local_rotary =
        (struct model_rotary){.columns = config->head_size, .factor = 1, .magnitude = 1};
    if (!object || json_is_null(object))
        return config_number(reader, "rope_local_base_freq", local_base, &config->local_rotary.base,
                             error) &&
               (config->local_rotary.base > 0 ||
                config_wrong(reader, "rope_local_base_freq", "above 0", error));
    return read_object(&inner, "full_attention", base, config, &config->rotary, error) &&
           read_object(&inner, "sliding_attention", local_base, config, &config->local_rotary,
                       error);
}

static bool read_config(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    static const struct config_defaults defaults = {
        .key_heads = 4, .head_size = 256, .rotary_base = base, .epsilon = 1e-6, .tied = true};
    return config_cap(reader, "final_logit_softcapping", 0, &config->logit_cap, error) &&
           config_read_gemma(reader, &defaults, config, error) &&
           config_read_gemma_attention(reader, EVERY, config, error) &&
           read_rotary(reader, config, error);
}

static void write_config(const struct model_config *config, json_t *root)
{
    config_write_gemma(config, root);
    config_write_gemma_attention(config, root);
    config_write_cap(config->logit_cap, "final_logit_softcapping", root);
    json_object_set_new(root, "rope_local_base_freq", json_real(config->local_rotary.base));
    json_object_set_new(root, "rope_parameters",
                        json_pack("{s:o, s:o}", "full_attention",
                                  config_rotary_object(&config->rotary), "sliding_attention",
                                  config_rotary_object(&config->local_rotary)));
}

const struct model_family family_gemma3 = {
    .type = "gemma3_text",
    .architecture = "Gemma3ForCausalLM",
    .base = "Gemma3TextModel",
    MODEL_LLAMA_NAMES,
    .modules = {MODEL_GEMMA2_MODULES, [MODULE_QUERY_NORM] = "self_attn.q_norm",
                [MODULE_KEY_NORM] = "self_attn.k_norm"},
    .parts = {MODEL_GEMMA_PARTS, .norm_places = MODEL_NORMS_AROUND,
              .query_norms = MODEL_QUERY_NORMS_HEADS},
    .read = read_config,
    .write = write_config,
};
