#include "engine/weights.h"

#include "engine/random.h"
#include "models/family.h"

#include <math.h>
#include <string.h>

/* ---- new weights ---- */

static void fill(float value, uint64_t count, float *values)
{
    for (uint64_t i = 0; i < count; i++)
        values[i] = value;
}

/* GPT-2 draws the products that end on the residual stream from a smaller range. */
static bool ends_on_stream(const struct model_config *config, const struct model_tensor *tensor)
{
    return model_family_of(config)->scaled_ends &&
           (tensor->module == MODULE_OUTPUT || tensor->module == MODULE_DOWN);
}

void initialise_values(const struct model_config *config, uint64_t seed, uint32_t tensor,
                       const char *name, uint64_t first, uint64_t count, float *values)
{
    struct model_tensor of;
    g_assert(model_tensor_find(config, name, &of));
    if (of.bias) {
        fill(0.0f, count, values);
    } else if (of.norm) {
        fill(config->norm_plus_one ? 0.0f : 1.0f, count, values);
    } else {
        double deviation = config->initializer_range;
        if (ends_on_stream(config, &of))
            deviation /= sqrt(2.0 * config->layers);
        struct random_stream stream = {.seed = seed, .pass = 0, .site = tensor};
        random_normal(&stream, first, count, deviation, values);
    }
}

/* ---- files ---- */

#define PIECE (UINT64_C(1) << 16) /* elements in flight between file and store */

uint32_t weights_shape(const struct model_config *config, const char *name, uint64_t shape[2])
{
    struct model_tensor tensor;
    if (!model_tensor_find(config, name, &tensor))
        g_error("%s is not a tensor of the model", name);
    shape[0] = tensor.shape[0];
    shape[1] = tensor.shape[1];
    return tensor.rank;
}

enum trace_list weights_list(const struct trace *trace)
{
    return trace->list_element_bytes[TRACE_MASTER] > 0 ? TRACE_MASTER : TRACE_PARAM;
}

static bool is_head(const char *name)
{
    return g_str_equal(name, "lm_head.weight");
}

static char *saved_name(const struct model_config *config, const char *name)
{
    return g_strconcat(is_head(name) ? "" : model_family_of(config)->file_prefix, name, NULL);
}

/* Files of a model without its head have names without prefixes. */
static const struct safetensors_tensor *find(const struct safetensors *file,
                                             const struct model_config *config, const char *name)
{
    const char *prefix = model_family_of(config)->prefix;
    g_autofree char *prefixed = saved_name(config, name);
    const struct safetensors_tensor *tensor = safetensors_find(file, prefixed);
    if (!tensor && g_str_has_prefix(name, prefix))
        tensor = safetensors_find(file, name + strlen(prefix));
    return tensor;
}

static bool check_wanted(const struct safetensors *file, const struct model_config *config,
                         const struct trace *trace, GHashTable *known, GError **error)
{
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        const char *name = trace->tensors[i].name;
        const struct safetensors_tensor *tensor = find(file, config, name);
        uint64_t shape[2];
        uint32_t rank = weights_shape(config, name, shape);
        if (!tensor) {
            g_set_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_TENSOR,
                        "%s: tensor %s is missing", safetensors_path(file), name);
            return false;
        }
        if (!safetensors_expect(file, tensor, shape, rank, error))
            return false;
        g_hash_table_add(known, tensor->name);
    }
    return true;
}

/* Returns whether the tensor may be ignored: an attention mask or the frequencies of rotary
 * positions, which older files hold as tensors, or the classifier of a tied model, which equals the
 * table of words. */
static bool is_redundant(const struct model_config *config, const char *name)
{
    return g_str_has_suffix(name, ".attn.bias") || g_str_has_suffix(name, ".attn.masked_bias") ||
           g_str_has_suffix(name, ".rotary_emb.inv_freq") || (config->tied && is_head(name));
}

static bool check_rest(const struct safetensors *file, const struct model_config *config,
                       GHashTable *known, GError **error)
{
    for (uint32_t i = 0; i < safetensors_count(file); i++) {
        const char *name = safetensors_at(file, i)->name;
        if (!g_hash_table_contains(known, name) && !is_redundant(config, name)) {
            g_set_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_TENSOR,
                        "%s: tensor %s is not part of the model (%s)", safetensors_path(file), name,
                        config->name);
            return false;
        }
    }
    return true;
}

bool weights_exist(const char *path, bool *exist, GError **error)
{
    static const char *const other_forms[] = {
        "pytorch_model.bin",
        "pytorch_model.bin.index.json",
        "tf_model.h5",
        "flax_model.msgpack",
    };
    g_autofree char *file = g_build_filename(path, WEIGHTS_FILE, NULL);
    g_autofree char *index = g_build_filename(path, WEIGHTS_INDEX, NULL);
    *exist = g_file_test(file, G_FILE_TEST_EXISTS) || g_file_test(index, G_FILE_TEST_EXISTS);
    for (size_t i = 0; !*exist && i < G_N_ELEMENTS(other_forms); i++) {
        char *other = g_build_filename(path, other_forms[i], NULL);
        bool found = g_file_test(other, G_FILE_TEST_EXISTS);
        if (found)
            g_set_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_INVALID,
                        "%s: weights are read from " WEIGHTS_FILE " or " WEIGHTS_INDEX
                        " only, which are missing",
                        other);
        g_free(other);
        if (found)
            return false;
    }
    return true;
}

/* A folder may hold one file or several, which an index lists. */
static struct safetensors *open_file(const char *path, GError **error)
{
    g_autofree char *file = g_build_filename(path, WEIGHTS_FILE, NULL);
    g_autofree char *index = g_build_filename(path, WEIGHTS_INDEX, NULL);
    if (g_str_has_suffix(path, ".index.json"))
        return safetensors_open_index(path, error);
    if (!g_file_test(path, G_FILE_TEST_IS_DIR))
        return safetensors_open(path, error);
    bool several = !g_file_test(file, G_FILE_TEST_EXISTS) && g_file_test(index, G_FILE_TEST_EXISTS);
    return several ? safetensors_open_index(index, error) : safetensors_open(file, error);
}

struct safetensors *weights_open(const char *path, const struct model_config *config,
                                 const struct trace *trace, GError **error)
{
    struct safetensors *file = open_file(path, error);
    if (!file)
        return NULL;
    GHashTable *known = g_hash_table_new(g_str_hash, g_str_equal);
    bool fits = check_wanted(file, config, trace, known, error) &&
                check_rest(file, config, known, error);
    g_hash_table_destroy(known);
    if (!fits) {
        safetensors_close(file);
        return NULL;
    }
    return file;
}

bool weights_copy_in(const struct safetensors *file, const struct safetensors_tensor *from,
                     const struct weights_store *store, tensor_id tensor, enum trace_list list,
                     GError **error)
{
    float *values = g_new(float, PIECE);
    bool copied = true;
    for (uint64_t first = 0; copied && first < from->elements; first += PIECE) {
        uint64_t count = MIN(PIECE, from->elements - first);
        safetensors_read(file, from, first, count, values);
        copied = store->write(store->self, tensor, list, first, count, values, error);
    }
    g_free(values);
    return copied;
}

bool weights_copy_out(struct safetensors_writer *writer, const struct weights_store *store,
                      tensor_id tensor, enum trace_list list, uint64_t elements, GError **error)
{
    float *values = g_new(float, PIECE);
    bool copied = true;
    for (uint64_t first = 0; copied && first < elements; first += PIECE) {
        uint64_t count = MIN(PIECE, elements - first);
        copied = store->read(store->self, tensor, list, first, count, values, error) &&
                 safetensors_writer_append(writer, values, count, error);
    }
    g_free(values);
    return copied;
}

bool weights_load(const struct safetensors *file, const struct model_config *config,
                  const struct trace *trace, const struct weights_store *store, GError **error)
{
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        const struct safetensors_tensor *tensor = find(file, config, trace->tensors[i].name);
        g_assert(tensor && tensor->elements == trace->tensors[i].elements);
        if (!weights_copy_in(file, tensor, store, i, weights_list(trace), error))
            return false;
    }
    return true;
}

bool weights_save(const char *folder, const struct model_config *config, const struct trace *trace,
                  const struct weights_store *store, GError **error)
{
    char *path = g_build_filename(folder, WEIGHTS_FILE, NULL);
    struct safetensors_writer *writer = safetensors_writer_new(path);
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        char *name = saved_name(config, trace->tensors[i].name);
        uint64_t shape[2];
        uint32_t rank = weights_shape(config, trace->tensors[i].name, shape);
        safetensors_writer_declare(writer, name, shape, rank);
        g_free(name);
    }
    bool saved = true;
    for (uint32_t i = 0; saved && i < trace->tensor_count; i++) {
        saved = weights_copy_out(writer, store, i, weights_list(trace), trace->tensors[i].elements,
                                 error);
    }
    saved = saved && safetensors_writer_finish(writer, error);
    safetensors_writer_free(writer);
    g_free(path);
    return saved;
}

bool weights_initialise(const struct model_config *config, const struct trace *trace, uint64_t seed,
                        const struct weights_store *store, GError **error)
{
    float *values = g_new(float, PIECE);
    bool written = true;
    for (uint32_t i = 0; written && i < trace->tensor_count; i++) {
        const struct trace_tensor *tensor = &trace->tensors[i];
        for (uint64_t first = 0; written && first < tensor->elements; first += PIECE) {
            uint64_t count = MIN(PIECE, tensor->elements - first);
            initialise_values(config, seed, i, tensor->name, first, count, values);
            written = store->write(store->self, i, weights_list(trace), first, count, values,
                                   error);
        }
    }
    g_free(values);
    return written;
}
