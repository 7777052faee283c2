#include "models/config.h"

#include "traces/files.h"
#include "traces/output_file.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>

/* ---- what is supported, and which values make sense ---- */

#define CLASSIFIER "GPT2ForSequenceClassification"

static const char *const known_architectures[] = {"GPT2LMHeadModel", "GPT2Model", CLASSIFIER, NULL};
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
    return refuse(error, origin, "model_type", type, "not supported; only \"gpt2\" is supported");
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
                          "not supported; only \"GPT2LMHeadModel\" and \"" CLASSIFIER
                          "\" are supported");
    }
    if (json_array_size(list) == 0)
        return refuse(error, origin, "architectures", list, "it must be a list of names");
    return true;
}

static bool activation_supported(const json_t *root, const char *origin, GError **error)
{
    const json_t *activation = json_object_get(root, "activation_function");
    if (!activation || string_is_one_of(activation, known_activations))
        return true;
    return refuse(error, origin, "activation_function", activation,
                  "not supported; only \"gelu_new\" and \"gelu_pytorch_tanh\" are supported");
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
                          switches[i].only ? "not supported; only true is supported"
                                           : "not supported; only false is supported");
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

static bool model_config_supported(const json_t *root, const char *origin, GError **error)
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
    return absurd(error, origin, "%s is %u; it must be an integer in [1, %u]", key, value, most);
}

static bool dropout_makes_sense(const char *key, double value, const char *origin, GError **error)
{
    if (value >= 0 && value < 1)
        return true;
    return absurd(error, origin, "%s is %g; it must be in [0, 1)", key, value);
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

/* Counts in floating point, because the exact count may not fit into 64 bits. */
static double about_parameters(const struct model_config *config)
{
    double h = config->width, f = config->inner;
    double layer = 4 * h * h + 2 * h * f + 10 * h + f;
    return config->layers * layer + (2.0 * config->vocabulary + config->positions) * h;
}

static bool model_config_check(const struct model_config *config, const char *origin,
                               GError **error)
{
    if (!counts_make_sense(config, origin, error))
        return false;
    if (config->width % config->heads)
        return absurd(error, origin, "n_embd is %u; it must be a multiple of n_head, which is %u",
                      config->width, config->heads);
    if (about_parameters(config) > 0x1p50)
        return absurd(error, origin,
                      "n_layer, n_embd, vocab_size: a model of %.3g parameters is too large",
                      about_parameters(config));
    if (!dropout_makes_sense("embd_pdrop", config->embedding_dropout, origin, error) ||
        !dropout_makes_sense("attn_pdrop", config->attention_dropout, origin, error) ||
        !dropout_makes_sense("resid_pdrop", config->residual_dropout, origin, error))
        return false;
    if (!(config->norm_epsilon > 0 && config->norm_epsilon < 1))
        return absurd(error, origin, "layer_norm_epsilon is %g; it must be between 0 and 1",
                      config->norm_epsilon);
    if (!(config->initializer_range > 0 && isfinite(config->initializer_range)))
        return absurd(error, origin, "initializer_range is %g; it must be above 0",
                      config->initializer_range);
    return true;
}

/* ---- the file ---- */

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
    g_set_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG, "%s: %s is %s; it must be %s",
                reader->origin, key, text ? text : "?", expected);
    free(text);
    return false;
}

static bool read_count(const struct reader *reader, const char *key, uint32_t *count,
                       GError **error)
{
    const json_t *value = json_object_get(reader->root, key);
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 1 || number > INT32_MAX)
        return wrong(error, reader, key, "an integer in [1, 2147483647]");
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

/* These sizes are required, although transformers would replace missing ones by the sizes of gpt2.
 */
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
        return wrong(error, reader, "n_embd",
                     "at most 1073741823, because n_inner is four times as large by default");
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

/* The labels are counted as transformers does: by their names, then by their number, else two. */
static bool read_labels(const struct reader *reader, struct model_config *config, GError **error)
{
    const json_t *architectures = json_object_get(reader->root, "architectures");
    const char *architecture = json_string_value(json_array_get(architectures, 0));
    const json_t *names = json_object_get(reader->root, "id2label");
    if (g_strcmp0(architecture, CLASSIFIER) != 0)
        return true;
    config->tied = false;
    config->labels = json_is_object(names) ? (uint32_t)json_object_size(names) : 2;
    if (names || !json_object_get(reader->root, "num_labels"))
        return config->labels > 0 || wrong(error, reader, "id2label", "an object with a label");
    return read_count(reader, "num_labels", &config->labels, error);
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
        !read_settings(&reader, config, error) || !read_labels(&reader, config, error) ||
        !model_config_check(config, origin, error)) {
        model_config_free(config);
        return NULL;
    }
    config->name = model_config_describe(config);
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
    if (!input_text_check(file, INPUT_SMALL, error))
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

/* Writes all keys. Token ids are omitted if GPT-2's ids lie outside the vocabulary. */
static json_t *config_to_json(const struct model_config *config)
{
    const json_int_t end_of_text = 50256;
    json_t *root = json_pack(
        "{s:[s], s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:f, s:f, s:f, s:f, s:f}",
        "architectures", config->labels ? CLASSIFIER : "GPT2LMHeadModel", "model_type", "gpt2",
        "activation_function", "gelu_new", "n_layer", (json_int_t)config->layers, "n_embd",
        (json_int_t)config->width, "n_head", (json_int_t)config->heads, "n_inner",
        (json_int_t)config->inner, "n_positions", (json_int_t)config->positions, "vocab_size",
        (json_int_t)config->vocabulary, "tie_word_embeddings", (int)config->tied, "embd_pdrop",
        config->embedding_dropout, "attn_pdrop", config->attention_dropout, "resid_pdrop",
        config->residual_dropout, "layer_norm_epsilon", config->norm_epsilon, "initializer_range",
        config->initializer_range);
    g_assert(root);
    bool has_end = config->vocabulary > end_of_text;
    if (config->labels)
        json_object_set_new(root, "num_labels", json_integer(config->labels));
    json_object_set_new(root, "bos_token_id", has_end ? json_integer(end_of_text) : json_null());
    json_object_set_new(root, "eos_token_id", has_end ? json_integer(end_of_text) : json_null());
    return root;
}

bool model_config_write(const struct model_config *config, const char *path, GError **error)
{
    json_t *root = config_to_json(config);
    /* With 17 digits every double is read back exactly. */
    bool done = output_file_write_json(path, root, JSON_INDENT(2) | JSON_REAL_PRECISION(17), error);
    json_decref(root);
    return done;
}

G_DEFINE_QUARK(pstar_model_error, model_error)

void model_config_free(struct model_config *config)
{
    if (!config)
        return;
    g_free(config->name);
    g_free(config);
}

uint64_t model_config_parameters(const struct model_config *config)
{
    uint64_t h = config->width, f = config->inner, v = config->vocabulary;
    uint64_t norm = 2 * h;
    uint64_t attention = (h * 3 * h + 3 * h) + (h * h + h);
    uint64_t mlp = (h * f + f) + (f * h + h);
    uint64_t embeddings = v * h + config->positions * h;
    uint64_t classifier = config->tied ? 0 : model_config_classes(config) * h;
    return embeddings + config->layers * (2 * norm + attention + mlp) + norm + classifier;
}

char *model_config_describe(const struct model_config *config)
{
    g_autofree char *labels = config->labels ? g_strdup_printf(", %u labels", config->labels)
                                             : g_strdup("");
    return g_strdup_printf("gpt2 %ux%u, vocabulary %u%s", config->layers, config->width,
                           config->vocabulary, labels);
}

uint32_t model_config_classes(const struct model_config *config)
{
    return config->labels ? config->labels : config->vocabulary;
}
