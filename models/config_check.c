#include "models/config_check.h"

#include <math.h>
#include <string.h>

static const char *const known_architectures[] = {"GPT2LMHeadModel", "GPT2Model", NULL};
static const char *const known_activations[] = {"gelu_new", "gelu_pytorch_tanh", NULL};

static bool refuse(GError **error, const char *origin, const char *key, const json_t *value,
                   const char *why)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    g_set_error(error, MODEL_ERROR, MODEL_ERROR_UNSUPPORTED, "%s: %s: %s: %s", origin, key,
                text ? text : "?", why);
    free(text);
    return false;
}

static bool string_is_one_of(const json_t *value, const char *const *known)
{
    return json_is_string(value) && g_strv_contains(known, json_string_value(value));
}

static bool model_type_supported(const json_t *root, const char *origin, GError **error)
{
    const json_t *type = json_object_get(root, "model_type");
    if (!type) {
        g_set_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG, "%s: model_type is missing", origin);
        return false;
    }
    if (json_is_string(type) && !strcmp(json_string_value(type), "gpt2"))
        return true;
    return refuse(error, origin, "model_type", type, "not supported; only \"gpt2\" is");
}

static bool architectures_supported(const json_t *root, const char *origin, GError **error)
{
    const json_t *list = json_object_get(root, "architectures");
    if (!list || json_is_null(list))
        return true;
    size_t i;
    json_t *name;
    json_array_foreach (list, i, name) {
        if (!string_is_one_of(name, known_architectures))
            return refuse(error, origin, "architectures", name,
                          "not supported; only \"GPT2LMHeadModel\" is");
    }
    if (json_array_size(list) == 0)
        return refuse(error, origin, "architectures", list, "a list of names is expected");
    return true;
}

static bool activation_supported(const json_t *root, const char *origin, GError **error)
{
    const json_t *activation = json_object_get(root, "activation_function");
    if (!activation || string_is_one_of(activation, known_activations))
        return true;
    return refuse(error, origin, "activation_function", activation,
                  "not supported; only \"gelu_new\" and \"gelu_pytorch_tanh\" are");
}

/* Switches that change what is computed, with the only setting that we compute. */
static bool switches_supported(const json_t *root, const char *origin, GError **error)
{
    static const struct {
        const char *key;
        bool only;
    } switches[] = {
        {"scale_attn_weights", true},       {"scale_attn_by_inverse_layer_idx", false},
        {"reorder_and_upcast_attn", false}, {"add_cross_attention", false},
        {"is_encoder_decoder", false},
    };
    for (size_t i = 0; i < G_N_ELEMENTS(switches); i++) {
        const json_t *value = json_object_get(root, switches[i].key);
        if (value && (!json_is_boolean(value) || json_is_true(value) != switches[i].only))
            return refuse(error, origin, switches[i].key, value,
                          switches[i].only ? "not supported; only true is"
                                           : "not supported; only false is");
    }
    return true;
}

/* Keys whose mere presence with contents changes the model. */
static bool extras_absent(const json_t *root, const char *origin, GError **error)
{
    static const char *const keys[] = {"pruned_heads", "quantization_config"};
    for (size_t i = 0; i < G_N_ELEMENTS(keys); i++) {
        const json_t *value = json_object_get(root, keys[i]);
        bool empty = !value || json_is_null(value) ||
                     (json_is_object(value) && json_object_size(value) == 0);
        if (!empty)
            return refuse(error, origin, keys[i], value, "not supported");
    }
    return true;
}

bool model_config_supported(const json_t *root, const char *origin, GError **error)
{
    return model_type_supported(root, origin, error) &&
           architectures_supported(root, origin, error) &&
           activation_supported(root, origin, error) && switches_supported(root, origin, error) &&
           extras_absent(root, origin, error);
}

static bool absurd(GError **error, const char *origin, const char *format, ...) G_GNUC_PRINTF(3, 4);

static bool absurd(GError **error, const char *origin, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *why = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG, "%s: %s", origin, why);
    g_free(why);
    return false;
}

static bool count_makes_sense(const char *key, uint32_t value, uint32_t most, const char *origin,
                              GError **error)
{
    if (value >= 1 && value <= most)
        return true;
    return absurd(error, origin, "%s: %u is not between 1 and %u", key, value, most);
}

static bool dropout_makes_sense(const char *key, double value, const char *origin, GError **error)
{
    if (value >= 0 && value < 1)
        return true;
    return absurd(error, origin, "%s: %g is not at least 0 and below 1", key, value);
}

static bool counts_make_sense(const struct model_config *config, const char *origin, GError **error)
{
    const uint32_t most = 1u << 24;
    return count_makes_sense("n_layer", config->layers, 1u << 16, origin, error) &&
           count_makes_sense("n_embd", config->width, most, origin, error) &&
           count_makes_sense("n_head", config->heads, most, origin, error) &&
           count_makes_sense("n_inner", config->inner, most, origin, error) &&
           count_makes_sense("n_positions", config->positions, most, origin, error) &&
           count_makes_sense("vocab_size", config->vocabulary, most, origin, error);
}

/* In floating point, since the exact count may not fit 64 bits. */
static double about_parameters(const struct model_config *config)
{
    double h = config->width, f = config->inner;
    double layer = 4 * h * h + 2 * h * f + 10 * h + f;
    return config->layers * layer + (2.0 * config->vocabulary + config->positions) * h;
}

bool model_config_check(const struct model_config *config, const char *origin, GError **error)
{
    if (!counts_make_sense(config, origin, error))
        return false;
    if (config->width % config->heads)
        return absurd(error, origin, "n_embd: %u is no multiple of n_head, %u", config->width,
                      config->heads);
    if (about_parameters(config) > 0x1p50)
        return absurd(error, origin, "n_layer, n_embd, vocab_size: %.3g parameters are too many",
                      about_parameters(config));
    if (!dropout_makes_sense("embd_pdrop", config->embedding_dropout, origin, error) ||
        !dropout_makes_sense("attn_pdrop", config->attention_dropout, origin, error) ||
        !dropout_makes_sense("resid_pdrop", config->residual_dropout, origin, error))
        return false;
    if (!(config->norm_epsilon > 0 && config->norm_epsilon < 1))
        return absurd(error, origin, "layer_norm_epsilon: %g is not between 0 and 1",
                      config->norm_epsilon);
    if (!(config->initializer_range > 0 && isfinite(config->initializer_range)))
        return absurd(error, origin, "initializer_range: %g is not above 0",
                      config->initializer_range);
    return true;
}
