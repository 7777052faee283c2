/* BERT, which predicts masked tokens: positions and types of tokens are learned, attention goes
 * both ways, norms replace the sums with the residual stream, all products have biases, and a
 * product with a norm comes before the classifier, which is the embedding with a bias. */
#include "models/family.h"

/* transformers would replace missing sizes by those of bert-base-uncased. */
static bool read_sizes(const struct config_reader *reader, struct model_config *config,
                       GError **error)
{
    return config_count(reader, "num_hidden_layers", &config->layers, error) &&
           config_count(reader, "hidden_size", &config->width, error) &&
           config_count(reader, "num_attention_heads", &config->heads, error) &&
           config_count(reader, "intermediate_size", &config->inner, error) &&
           config_count(reader, "max_position_embeddings", &config->positions, error) &&
           config_count(reader, "vocab_size", &config->vocabulary, error) &&
           config_count_or(reader, "type_vocab_size", 2, &config->token_types, error) &&
           config_heads_divide(reader, "hidden_size", "num_attention_heads", config, error);
}

/* Switches that change what is computed, with the only setting that we compute. */
static bool switches_supported(const struct config_reader *reader, GError **error)
{
    static const char *const positions[] = {"absolute", NULL};
    return config_word(reader, "position_embedding_type", positions, error) &&
           config_switch(reader, "is_decoder", false, error) &&
           config_switch(reader, "add_cross_attention", false, error) &&
           config_switch(reader, "is_encoder_decoder", false, error) &&
           config_switch(reader, "tie_word_embeddings", true, error) &&
           config_absent(reader, "pruned_heads", error);
}

/* One key is dropout's of the embedding, too. */
static bool read_config(const struct config_reader *reader, struct model_config *config,
                        GError **error)
{
    if (!switches_supported(reader, error) || !read_sizes(reader, config, error) ||
        !config_read_activation(reader, "gelu", config, error) ||
        !config_dropout(reader, "attention_probs_dropout_prob", 0.1, &config->attention_dropout,
                        error) ||
        !config_dropout(reader, "hidden_dropout_prob", 0.1, &config->residual_dropout, error) ||
        !config_epsilon(reader, "layer_norm_eps", 1e-12, &config->norm_epsilon, error) ||
        !config_range(reader, &config->initializer_range, error))
        return false;
    config->embedding_dropout = config->residual_dropout;
    config->tied = true;
    return true;
}

static void write_config(const struct model_config *config, json_t *root)
{
    json_t *keys = json_pack(
        "{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "num_hidden_layers",
        (json_int_t)config->layers, "hidden_size", (json_int_t)config->width, "num_attention_heads",
        (json_int_t)config->heads, "intermediate_size", (json_int_t)config->inner,
        "max_position_embeddings", (json_int_t)config->positions, "vocab_size",
        (json_int_t)config->vocabulary, "type_vocab_size", (json_int_t)config->token_types,
        "attention_probs_dropout_prob", config->attention_dropout, "hidden_dropout_prob",
        config->residual_dropout, "layer_norm_eps", config->norm_epsilon, "initializer_range",
        config->initializer_range);
    g_assert(keys);
    json_object_update(root, keys);
    json_decref(keys);
    config_write_activation(config, root);
    json_object_set_new(root, "pad_token_id", json_null()); /* the default may be no token */
}

const struct model_family family_bert = {
    .type = "bert",
    .architecture = "BertForMaskedLM",
    .prefix = "",
    .file_prefix = "",
    .embedding = "bert.embeddings.word_embeddings",
    .positions = "bert.embeddings.position_embeddings",
    .types = "bert.embeddings.token_type_embeddings",
    .first_norm = "bert.embeddings.LayerNorm",
    .layers = "bert.encoder.layer",
    .attention = "attention.self",
    .mlp = "intermediate",
    .transform = "cls.predictions.transform.dense",
    .final_norm = "cls.predictions.transform.LayerNorm",
    .head = "cls.predictions.decoder",
    .head_bias = "cls.predictions",
    .modules = {[MODULE_QUERY] = "attention.self.query",
                [MODULE_KEY] = "attention.self.key",
                [MODULE_VALUE] = "attention.self.value",
                [MODULE_OUTPUT] = "attention.output.dense",
                [MODULE_AFTER_OUTPUT] = "attention.output.LayerNorm",
                [MODULE_UP] = "intermediate.dense",
                [MODULE_DOWN] = "output.dense",
                [MODULE_AFTER_DOWN] = "output.LayerNorm"},
    .parts = {.activation = MODEL_GELU_EXACT,
              .separate = true,
              .norm_places = MODEL_NORMS_OF_SUMS,
              .bidirectional = true,
              .token_types = 2,
              .embedding_norm = true,
              .head_transform = true,
              .classifier_bias = true},
    .read = read_config,
    .write = write_config,
};
