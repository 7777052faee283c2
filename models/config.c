#include "models/config.h"

#include "base/files.h"
#include "base/output_file.h"
#include "models/family.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

G_DEFINE_QUARK(pstar_model_error, model_error)

/* ---- which models are supported ---- */

/* What keeps models from being described that many people train. */
static const struct {
    const char *type, *missing;
} known_types[] = {
    {"albert", "layers that share their weights"},
    {"arcee", "squared ReLUs"},
    {"bamba", "state spaces"},
    {"bart", "encoders"},
    {"bloom", "ALiBi positions"},
    {"camembert", "positions with an offset"},
    {"codegen",
     "its fused queries, keys and values, and rotary positions that turn neighbouring columns"},
    {"cohere", "layer norms without a bias, and scaled logits"},
    {"cohere2", "layer norms without a bias, and scaled logits"},
    {"dbrx", "its own kind of experts"},
    {"deepseek_v2", "latent attention and its own kind of experts"},
    {"deepseek_v3", "latent attention and its own kind of experts"},
    {"deepseek_v32", "latent attention and its own kind of experts"},
    {"ernie4_5_moe", "its own kind of experts"},
    {"falcon", "its fused queries, keys and values"},
    {"falcon_h1", "state spaces"},
    {"falcon_mamba", "state spaces"},
    {"gemma3", "images"},
    {"glm", "rotary positions that turn neighbouring columns"},
    {"glm4", "rotary positions that turn neighbouring columns"},
    {"glm4_moe", "its own kind of experts"},
    {"gpt_bigcode", "its fused queries, keys and values"},
    {"gpt_neo", "attention without a scale"},
    {"gpt_oss", "its own kind of experts and attention sinks"},
    {"gptj", "rotary positions that turn neighbouring columns"},
    {"granite", "scaled residual streams and logits"},
    {"granitemoe", "its own kind of experts"},
    {"jamba", "state spaces and its own kind of experts"},
    {"lfm2", "short convolutions"},
    {"llama4", "its own kind of experts, and images"},
    {"llama4_text", "its own kind of experts"},
    {"mamba", "state spaces"},
    {"mamba2", "state spaces"},
    {"marian", "encoders"},
    {"mbart", "encoders"},
    {"minicpm3", "latent attention"},
    {"minimax_m2", "its own kind of experts"},
    {"mistral3", "images"},
    {"mllama", "images"},
    {"mpt", "ALiBi positions"},
    {"nemotron", "squared ReLUs"},
    {"nemotron_h", "state spaces"},
    {"olmo", "layer norms without weights"},
    {"olmo3", "scaled rotary positions in layers without a window alone"},
    {"olmoe", "its own kind of experts"},
    {"opt", "positions with an offset"},
    {"pegasus", "encoders"},
    {"phimoe", "its own kind of experts"},
    {"qwen2_5_vl", "images"},
    {"qwen2_moe", "its own kind of experts"},
    {"qwen2_vl", "images"},
    {"qwen3_next", "its own kind of experts, and linear attention"},
    {"recurrent_gemma", "linear recurrences"},
    {"roberta", "positions with an offset"},
    {"rwkv", "linear recurrences"},
    {"stablelm", "layer norms of queries and keys"},
    {"starcoder2", "a description of its own, which does not exist yet"},
    {"t5", "encoders"},
    {"whisper", "encoders"},
    {"xlm-roberta", "positions with an offset"},
    {"zamba2", "state spaces"},
};

static char *supported_types(void)
{
    GString *text = g_string_new(NULL);
    for (const struct model_family *const *f = model_families(); *f; f++)
        g_string_append_printf(text, "%s%s", text->len ? ", " : "", (*f)->type);
    return g_string_free(text, FALSE);
}

static bool refuse_type(const struct config_reader *reader, const json_t *type, GError **error)
{
    g_autofree char *supported = supported_types(), *why = NULL;
    for (size_t i = 0; !why && i < G_N_ELEMENTS(known_types); i++)
        if (!g_strcmp0(json_string_value(type), known_types[i].type))
            why = g_strdup_printf("not supported, because it needs %s; supported are %s",
                                  known_types[i].missing, supported);
    if (!why)
        why = g_strdup_printf("not supported; supported are %s", supported);
    return config_refuse(reader, "model_type", type, why, error);
}

static const struct model_family *find_family(const struct config_reader *reader, GError **error)
{
    const json_t *type = json_object_get(reader->root, "model_type");
    const struct model_family *family = json_is_string(type)
                                            ? model_family_find(json_string_value(type))
                                            : NULL;
    if (!type)
        config_wrong(reader, "model_type", "the name of a model", error);
    else if (!family)
        refuse_type(reader, type, error);
    return family;
}

static bool architecture_supported(const struct config_reader *reader,
                                   const struct model_family *family, const json_t *name,
                                   GError **error)
{
    const char *const known[] = {family->architecture, family->base, family->classifier, NULL};
    if (json_is_string(name) && g_strv_contains(known, json_string_value(name)))
        return true;
    g_autofree char *why =
        family->classifier
            ? g_strdup_printf("not supported; only \"%s\" and \"%s\" are supported",
                              family->architecture, family->classifier)
            : g_strdup_printf("not supported; only \"%s\" is supported", family->architecture);
    return config_refuse(reader, "architectures", name, why, error);
}

static bool architectures_supported(const struct config_reader *reader,
                                    const struct model_family *family, GError **error)
{
    const json_t *list = json_object_get(reader->root, "architectures");
    if (!list || json_is_null(list))
        return true;
    size_t i;
    json_t *name;
    json_array_foreach (list, i, name)
        if (!architecture_supported(reader, family, name, error))
            return false;
    return json_array_size(list) > 0 ||
           config_refuse(reader, "architectures", list, "it must be a list of names", error);
}

/* ---- which values make sense ---- */

static bool absurd(GError **error, const char *origin, const char *format, ...) G_GNUC_PRINTF(3, 4);

static bool absurd(GError **error, const char *origin, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *why = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG, "%s: %s", origin, why);
    return false;
}

/* Counts in floating point, because the exact count may not fit into 64 bits. */
static double about_parameters(const struct model_config *config)
{
    double h = config->width, f = config->inner;
    double a = 2.0 * config->heads * config->head_size;
    double k = 2.0 * config->key_heads * config->head_size;
    double mlps = config->experts ? config->experts : 1;
    double layer = (MAX(a, 2 * h) + MAX(k, 2 * h)) * h + 10 * h +
                   mlps * ((config->gated ? 3 : 2) * h * f + h + f);
    return config->layers * layer + (2.0 * config->vocabulary + config->positions) * h;
}

static bool heads_make_sense(const struct model_config *config, const char *origin, GError **error)
{
    uint32_t keys = model_config_key_heads(config);
    if (!config->head_size && config->width % config->heads)
        return absurd(error, origin,
                      "the width is %u; it must be a multiple of the number of heads, which is %u",
                      config->width, config->heads);
    if (config->heads % keys)
        return absurd(error, origin,
                      "num_key_value_heads is %u; it must divide num_attention_heads, which is %u",
                      keys, config->heads);
    if (config->rotary.columns % 2 || config->rotary.columns > model_config_head_size(config))
        return absurd(error, origin, "heads have %u columns, of which %u would turn in pairs",
                      model_config_head_size(config), config->rotary.columns);
    return true;
}

static bool model_config_check(const struct model_config *config, const char *origin,
                               GError **error)
{
    if (!heads_make_sense(config, origin, error))
        return false;
    if (about_parameters(config) > 0x1p50)
        return absurd(error, origin,
                      "layers, width, vocabulary: a model of %.3g parameters is too large",
                      about_parameters(config));
    return true;
}

/* ---- the file ---- */

static struct model_config *config_from_json(const json_t *root, const char *origin, GError **error)
{
    if (!json_is_object(root)) {
        g_set_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG, "%s: not a JSON object", origin);
        return NULL;
    }
    struct config_reader reader = {root, origin};
    const struct model_family *family = find_family(&reader, error);
    if (!family || !architectures_supported(&reader, family, error))
        return NULL;
    struct model_config *config = g_new0(struct model_config, 1);
    *config = family->parts;
    config->family = family;
    if (!config_absent(&reader, "quantization_config", error) ||
        !family->read(&reader, config, error) || !model_config_check(config, origin, error)) {
        model_config_free(config);
        return NULL;
    }
    config->name = model_config_describe(config);
    config->file = json_dumps(root, JSON_COMPACT);
    return config;
}

char *model_config_folder(const char *path)
{
    return g_file_test(path, G_FILE_TEST_IS_REGULAR) ? g_path_get_dirname(path) : g_strdup(path);
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
        bool missing = g_error_matches(unreadable, G_FILE_ERROR, G_FILE_ERROR_NOENT);
        if (missing) /* GLib's message depends on the locale and is longer */
            g_set_error(error, MODEL_ERROR, MODEL_ERROR_CONFIG,
                        folder ? "%s: %s; the folder must hold a model's config.json" : "%s: %s",
                        file, g_strerror(ENOENT));
        else
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

/* Adds the keys that have no part in training, such as the numbers of tokens, as they were read.
 * The weights' files say their own type. */
static void keep_others(const struct model_config *config, json_t *root)
{
    static const char *const replaced[] = {"dtype", "torch_dtype", "transformers_version"};
    json_t *read = config->file ? json_loads(config->file, 0, NULL) : NULL, *value;
    const char *key;
    for (size_t i = 0; read && i < G_N_ELEMENTS(replaced); i++)
        json_object_del(read, replaced[i]);
    json_object_foreach (read, key, value) {
        const json_t *written = json_object_get(root, key);
        if (!written || (json_is_null(written) && g_str_has_suffix(key, "_token_id")))
            json_object_set(root, key, value);
    }
    json_decref(read);
}

bool model_config_write(const struct model_config *config, const char *path, GError **error)
{
    const struct model_family *family = model_family_of(config);
    json_t *root = json_pack("{s:[s], s:s}", "architectures",
                             config->labels ? family->classifier : family->architecture,
                             "model_type", family->type);
    family->write(config, root);
    keep_others(config, root);
    /* With 17 digits every double is read back exactly. */
    bool done = output_file_write_json(path, root, JSON_INDENT(2) | JSON_REAL_PRECISION(17), error);
    json_decref(root);
    return done;
}

struct model_config *model_config_copy(const struct model_config *config)
{
    struct model_config *copy = g_memdup2(config, sizeof *config);
    copy->name = g_strdup(config->name);
    copy->file = config->file ? strdup(config->file) : NULL;
    gsize bytes = config->rotary.columns / 2 * sizeof(double);
    copy->rotary.short_factors = g_memdup2(config->rotary.short_factors, bytes);
    copy->rotary.long_factors = g_memdup2(config->rotary.long_factors, bytes);
    bytes = (gsize)config->layers * config->experts * sizeof *config->expert_loads;
    copy->expert_loads = g_memdup2(config->expert_loads, bytes);
    return copy;
}

void model_config_free(struct model_config *config)
{
    if (!config)
        return;
    g_free(config->name);
    free(config->file);
    g_free(config->rotary.short_factors);
    g_free(config->rotary.long_factors);
    g_free(config->expert_loads);
    g_free(config);
}

uint64_t model_config_parameters(const struct model_config *config)
{
    const struct model_layout layout = model_layout_of(config);
    uint64_t elements = 0, layers = 0;
    for (uint32_t t = 0; t < layout.count; t++) {
        struct model_tensor tensor;
        if (t == layout.first_layer + layout.layer_tensors)
            t = layout.layers_end; /* layers are alike */
        g_free(model_tensor_describe(config, &layout, t, &tensor));
        *(tensor.layer >= 0 ? &layers : &elements) += tensor.shape[0] * tensor.shape[1];
    }
    return elements + config->layers * layers;
}

char *model_config_describe(const struct model_config *config)
{
    g_autofree char *labels = config->labels ? g_strdup_printf(", %u labels", config->labels)
                                             : g_strdup("");
    return g_strdup_printf("%s %ux%u, vocabulary %u%s", model_family_of(config)->type,
                           config->layers, config->width, config->vocabulary, labels);
}

uint32_t model_config_classes(const struct model_config *config)
{
    return config->labels ? config->labels : config->vocabulary;
}
