/* Hugging Face config.json of GPT-2: its keys, and the defaults that transformers gives them. */
#include "models/config_check.h"

#include "traces/files.h"
#include "traces/output_file.h"

#include <errno.h>
#include <string.h>

struct reader {
    const json_t *root;
    const char *origin;
};

static bool wrong(GError **error, const struct reader *reader, const char *key,
                  const char *expected)
{
    const json_t *value = json_object_get(reader->root, key);
    if (!value) {
        g_set_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG, "%s: %s is missing", reader->origin,
                    key);
        return false;
    }
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    g_set_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG, "%s: %s: %s is not %s", reader->origin, key,
                text ? text : "?", expected);
    free(text);
    return false;
}

static bool read_count(const struct reader *reader, const char *key, uint32_t *count,
                       GError **error)
{
    const json_t *value = json_object_get(reader->root, key);
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 1 || number > INT32_MAX)
        return wrong(error, reader, key, "a whole number from 1 to 2147483647");
    *count = (uint32_t)number;
    return true;
}

static bool read_number(const struct reader *reader, const char *key, double missing,
                        double *number, GError **error)
{
    const json_t *value = json_object_get(reader->root, key);
    if (value && !json_is_number(value))
        return wrong(error, reader, key, "a number");
    *number = value ? json_number_value(value) : missing;
    return true;
}

static bool read_bool(const struct reader *reader, const char *key, bool missing, bool *setting,
                      GError **error)
{
    const json_t *value = json_object_get(reader->root, key);
    if (value && !json_is_boolean(value))
        return wrong(error, reader, key, "true or false");
    *setting = value ? json_is_true(value) : missing;
    return true;
}

/* A model without its sizes is no model: these are required, though transformers would take those
 * of gpt2. */
static bool read_sizes(const struct reader *reader, struct model_config *config, GError **error)
{
    if (!read_count(reader, "n_layer", &config->layers, error) ||
        !read_count(reader, "n_embd", &config->width, error) ||
        !read_count(reader, "n_head", &config->heads, error) ||
        !read_count(reader, "n_positions", &config->positions, error) ||
        !read_count(reader, "vocab_size", &config->vocabulary, error))
        return false;
    const json_t *inner = json_object_get(reader->root, "n_inner");
    if (inner && !json_is_null(inner))
        return read_count(reader, "n_inner", &config->inner, error);
    if (config->width > UINT32_MAX / 4)
        return wrong(error, reader, "n_embd", "small enough for an inner width of 4 times that");
    config->inner = 4 * config->width;
    return true;
}

static bool read_settings(const struct reader *reader, struct model_config *config, GError **error)
{
    return read_bool(reader, "tie_word_embeddings", true, &config->tied, error) &&
           read_number(reader, "embd_pdrop", 0.1, &config->embedding_dropout, error) &&
           read_number(reader, "attn_pdrop", 0.1, &config->attention_dropout, error) &&
           read_number(reader, "resid_pdrop", 0.1, &config->residual_dropout, error) &&
           read_number(reader, "layer_norm_epsilon", 1e-5, &config->norm_epsilon, error) &&
           read_number(reader, "initializer_range", 0.02, &config->initializer_range, error);
}

static struct model_config *config_from_json(const json_t *root, const char *origin, GError **error)
{
    if (!json_is_object(root)) {
        g_set_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG, "%s: not a JSON object", origin);
        return NULL;
    }
    struct reader reader = {root, origin};
    struct model_config *config = g_new0(struct model_config, 1);
    if (!model_config_supported(root, origin, error) || !read_sizes(&reader, config, error) ||
        !read_settings(&reader, config, error) || !model_config_check(config, origin, error)) {
        model_config_free(config);
        return NULL;
    }
    config->name = g_strdup_printf("gpt2 %ux%u, vocabulary %u", config->layers, config->width,
                                   config->vocabulary);
    return config;
}

struct model_config *model_config_read(const char *path, GError **error)
{
    bool folder = g_file_test(path, G_FILE_TEST_IS_DIR);
    char *file = folder ? g_build_filename(path, "config.json", NULL) : g_strdup(path);
    struct model_config *config = NULL;
    json_error_t place;
    json_t *root = NULL;
    char *text = NULL;
    gsize length;
    GError *unreadable = NULL;
    if (!input_file_check(file, error))
        goto out;
    if (!g_file_get_contents(file, &text, &length, &unreadable)) {
        g_set_error_literal(error, MODEL_ERROR, MODEL_ERROR_CONFIG, unreadable->message);
        g_error_free(unreadable);
        goto out;
    }
    root = json_loadb(text, length, JSON_REJECT_DUPLICATES, &place);
    if (!root) {
        g_set_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG, "%s:%d:%d: %s", file, place.line,
                    place.column, place.text);
        goto out;
    }
    config = config_from_json(root, file, error);
out:
    json_decref(root);
    g_free(text);
    g_free(file);
    return config;
}

/* With all keys written out, and no token ids of its own where GPT-2's lie outside the vocabulary.
 */
static json_t *config_to_json(const struct model_config *config)
{
    const json_int_t end_of_text = 50256;
    json_t *root = json_pack(
        "{s:[s], s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:f, s:f, s:f, s:f, s:f}",
        "architectures", "GPT2LMHeadModel", "model_type", "gpt2", "activation_function", "gelu_new",
        "n_layer", (json_int_t)config->layers, "n_embd", (json_int_t)config->width, "n_head",
        (json_int_t)config->heads, "n_inner", (json_int_t)config->inner, "n_positions",
        (json_int_t)config->positions, "vocab_size", (json_int_t)config->vocabulary,
        "tie_word_embeddings", (int)config->tied, "embd_pdrop", config->embedding_dropout,
        "attn_pdrop", config->attention_dropout, "resid_pdrop", config->residual_dropout,
        "layer_norm_epsilon", config->norm_epsilon, "initializer_range", config->initializer_range);
    g_assert(root);
    bool has_end = config->vocabulary > end_of_text;
    json_object_set_new(root, "bos_token_id", has_end ? json_integer(end_of_text) : json_null());
    json_object_set_new(root, "eos_token_id", has_end ? json_integer(end_of_text) : json_null());
    return root;
}

bool model_config_write(const struct model_config *config, const char *path, GError **error)
{
    json_t *root = config_to_json(config);
    /* 17 digits: every double reads back as itself. */
    bool done = output_file_write_json(path, root, JSON_INDENT(2) | JSON_REAL_PRECISION(17), error);
    json_decref(root);
    return done;
}
