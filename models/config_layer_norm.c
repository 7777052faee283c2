/* The keys of config.json that families with layer norms share. */
#include "models/family.h"

#include <string.h>

static const struct {
    const char *name;
    enum model_activation activation;
} activations[] = {
    {"gelu", MODEL_GELU_EXACT},
    {"gelu_new", MODEL_GELU_TANH},
    {"gelu_fast", MODEL_GELU_TANH},
    {"gelu_pytorch_tanh", MODEL_GELU_TANH},
};

bool config_read_activation(const struct config_reader *reader, const char *missing,
                            struct model_config *config, GError **error)
{
    const char *names[G_N_ELEMENTS(activations) + 1] = {NULL};
    const json_t *value = json_object_get(reader->root, "hidden_act");
    for (size_t i = 0; i < G_N_ELEMENTS(activations); i++)
        names[i] = activations[i].name;
    if (!config_word(reader, "hidden_act", names, error))
        return false;
    const char *name = value ? json_string_value(value) : missing;
    for (size_t i = 0; i < G_N_ELEMENTS(activations); i++)
        if (!strcmp(name, activations[i].name))
            config->activation = activations[i].activation;
    return true;
}

void config_write_activation(const struct model_config *config, json_t *root)
{
    json_object_set_new(root, "hidden_act",
                        json_string(config->activation == MODEL_GELU_EXACT ? "gelu" : "gelu_new"));
}

bool config_read_layer_norm(const struct config_reader *reader,
                            const struct config_layer_norm_keys *keys, struct model_config *config,
                            GError **error)
{
    static const struct config_defaults defaults = {0};
    return config_read_sizes(reader, &defaults, config, error) &&
           config_read_activation(reader, keys->activation, config, error) &&
           config_epsilon(reader, "layer_norm_eps", 1e-5, &config->norm_epsilon, error) &&
           config_range(reader, &config->initializer_range, error) &&
           config_dropout(reader, "attention_dropout", 0, &config->attention_dropout, error) &&
           config_dropout(reader, keys->dropout, 0, &config->residual_dropout, error) &&
           config_bool(reader, "tie_word_embeddings", false, &config->tied, error) &&
           config_read_rotary(reader, &keys->rotary, config, error);
}

void config_write_layer_norm(const struct model_config *config,
                             const struct config_layer_norm_keys *keys, json_t *root)
{
    static const char *const tokens[] = {"pad_token_id", "bos_token_id", "eos_token_id"};
    config_write_sizes(config, root);
    config_write_activation(config, root);
    json_object_set_new(root, "layer_norm_eps", json_real(config->norm_epsilon));
    json_object_set_new(root, keys->dropout, json_real(config->residual_dropout));
    config_write_rotary(config, &keys->rotary, root);
    for (size_t i = 0; i < G_N_ELEMENTS(tokens); i++) /* the default ids may be no tokens */
        json_object_set_new(root, tokens[i], json_null());
}
