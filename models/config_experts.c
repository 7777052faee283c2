/* The keys of config.json that families with experts share. */
#include "models/config_reader.h"
#include "models/family.h"

/* Transformers has both names for the number of experts. */
static const char *experts_key(const struct config_reader *reader)
{
    return json_object_get(reader->root, "num_local_experts") ? "num_local_experts" : "num_experts";
}

static bool read_balance(const struct config_reader *reader, struct model_config *config,
                         GError **error)
{
    static const char key[] = "router_aux_loss_coef";
    bool counts;
    if (!config_bool(reader, "output_router_logits", false, &counts, error) ||
        !config_number(reader, key, 0.001, &config->balance, error))
        return false;
    if (!(config->balance >= 0 && config->balance <= 1e6))
        return config_wrong(reader, key, "a number from 0 to 1e6", error);
    if (!counts)
        config->balance = 0;
    return true;
}

bool config_read_experts(const struct config_reader *reader, uint32_t experts, uint32_t per_token,
                         struct model_config *config, GError **error)
{
    static const char key[] = "num_experts_per_tok";
    const char *number = experts_key(reader);
    if (!config_count_or(reader, number, experts, &config->experts, error) ||
        !config_count_or(reader, key, per_token, &config->experts_per_token, error))
        return false;
    if (config->experts > MODEL_MOST_EXPERTS)
        return config_wrong(reader, number, "at most 4096", error);
    if (config->experts_per_token > config->experts) {
        g_set_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG,
                    "%s: %s is %u; it must be at most %s, which is %u", reader->origin, key,
                    config->experts_per_token, number, config->experts);
        return false;
    }
    return read_balance(reader, config, error);
}

void config_write_experts(const struct model_config *config, json_t *root)
{
    json_object_set_new(root, "num_experts_per_tok", json_integer(config->experts_per_token));
    json_object_set_new(root, "output_router_logits", json_boolean(config->balance > 0));
    if (config->balance > 0)
        json_object_set_new(root, "router_aux_loss_coef", json_real(config->balance));
}
