#include "engine/adapters.h"

#include "base/output_file.h"
#include "base/printable.h"
#include "models/family.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <jansson.h>
#include <string.h>

#define ADAPTERS_CONFIG "adapter_config.json"
#define ADAPTERS_FILE   "adapter_model.safetensors"
#define MODEL_CONFIG    "config.json"
/* What PEFT puts before the names of the model's files. */
#define ADAPTERS_PREFIX "base_model.model."

static char *adapter_name(const struct model_config *config, const char *name)
{
    g_autofree char *saved = weights_saved_name(config, name);
    return g_strconcat(ADAPTERS_PREFIX, saved, NULL);
}

bool adapters_is_file(const char *name)
{
    return g_str_equal(name, ADAPTERS_FILE) || g_str_equal(name, ADAPTERS_CONFIG);
}

/* ---- reading ---- */

static bool check(const struct safetensors *file, const struct model_config *config,
                  const struct trace *trace, GError **error)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        if (!weights_is_adapter(trace->tensors[i].name))
            continue;
        g_autofree char *name = adapter_name(config, trace->tensors[i].name);
        const struct safetensors_tensor *tensor = safetensors_find(file, name);
        uint64_t shape[2];
        uint32_t rank = weights_shape(config, trace->tensors[i].name, shape);
        if (!tensor)
            g_set_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_TENSOR,
                        "%s: tensor %s is missing", safetensors_path(file), name);
        if (!tensor || !safetensors_expect(file, tensor, shape, rank, error))
            return false;
        count++;
    }
    if (count != safetensors_count(file))
        g_set_error(error, SAFETENSORS_ERROR, SAFETENSORS_ERROR_TENSOR,
                    "%s: has %u tensors, and the adapters of %s are %u", safetensors_path(file),
                    safetensors_count(file), config->name, count);
    return count == safetensors_count(file);
}

struct safetensors *adapters_open(const char *folder, const struct model_config *config,
                                  const struct trace *trace, GError **error)
{
    g_autofree char *path = g_build_filename(folder, ADAPTERS_FILE, NULL);
    struct safetensors *file = safetensors_open(path, error);
    if (file && !check(file, config, trace, error))
        g_clear_pointer(&file, safetensors_close);
    return file;
}

bool adapters_load(const struct safetensors *file, const struct model_config *config,
                   const struct trace *trace, const struct weights_store *store, GError **error)
{
    bool loaded = true;
    for (uint32_t i = 0; loaded && i < trace->tensor_count; i++) {
        if (!weights_is_adapter(trace->tensors[i].name))
            continue;
        g_autofree char *name = adapter_name(config, trace->tensors[i].name);
        loaded = weights_copy_in(file, safetensors_find(file, name), store, i,
                                 weights_list_of(trace, i), error);
    }
    return loaded;
}

/* ---- saving ---- */

/* Returns the last words of the modules' names, each once: "q_proj". */
static json_t *target_modules(const struct model_config *config)
{
    const struct model_layout layout = model_layout_of(config);
    json_t *targets = json_array();
    g_autoptr(GHashTable) known = g_hash_table_new(g_str_hash, g_str_equal);
    for (enum model_module module = 0; module < MODULES; module++) {
        if (layout.place[module] == NO_INDEX || layout.adapter[module] == NO_INDEX)
            continue;
        const char *name = model_family_of(config)->modules[module], *dot = strrchr(name, '.');
        if (g_hash_table_add(known, (gpointer)(dot ? dot + 1 : name)))
            json_array_append_new(targets, json_string(dot ? dot + 1 : name));
    }
    return targets;
}

/* Returns the model as PEFT loads it: by its folder, if that has a config of the usual name. The
 * caller frees it with g_free. */
static char *base_of(const char *model)
{
    g_autofree char *name = g_path_get_basename(model);
    return g_str_equal(name, MODEL_CONFIG) ? g_path_get_dirname(model) : g_strdup(model);
}

static bool save_config(const char *folder, const struct model_config *config, const char *model,
                        GError **error)
{
    g_autofree char *path = g_build_filename(folder, ADAPTERS_CONFIG, NULL);
    g_autofree char *base = base_of(model);
    json_t *root = json_pack("{s:s, s:s, s:o, s:I, s:f, s:f, s:s, s:b, s:b, s:o}", "peft_type",
                             "LORA", "task_type", "CAUSAL_LM", "base_model_name_or_path",
                             text_to_json(base), "r", (json_int_t)config->lora_rank, "lora_alpha",
                             config->lora_alpha, "lora_dropout", 0.0, "bias", "none",
                             "fan_in_fan_out", model_family_of(config)->inputs_first,
                             "inference_mode", true, "target_modules", target_modules(config));
    bool saved = output_file_write_json(path, root, JSON_INDENT(2) | JSON_REAL_PRECISION(17),
                                        error);
    json_decref(root);
    return saved;
}

bool adapters_save(const char *folder, const struct model_config *config, const struct trace *trace,
                   const struct weights_store *store, const char *model, struct weights_writer of,
                   GError **error)
{
    g_autofree char *path = g_build_filename(folder, ADAPTERS_FILE, NULL);
    struct safetensors_writer *writer = safetensors_writer_new(path);
    for (uint32_t i = 0; i < trace->tensor_count; i++) {
        if (!weights_is_adapter(trace->tensors[i].name))
            continue;
        g_autofree char *name = adapter_name(config, trace->tensors[i].name);
        uint64_t shape[2];
        uint32_t rank = weights_shape(config, trace->tensors[i].name, shape);
        safetensors_writer_declare(writer, SAFETENSORS_F32, name, shape, rank);
    }
    bool saved = true;
    for (uint32_t i = 0; saved && i < trace->tensor_count; i++)
        if (weights_is_adapter(trace->tensors[i].name))
            saved = weights_copy_out(writer, store, i, weights_list_of(trace, i),
                                     trace->tensors[i].elements, error);
    saved = saved && weights_file_finish(of, ADAPTERS_FILE, writer, error) &&
            save_config(folder, config, model, error);
    safetensors_writer_free(writer);
    return saved;
}

/* ---- merging ---- */

/* A store whose weights of linear layers are merged with their adapters, for readers. */
struct merging {
    const struct model_config *config;
    const struct trace *trace;
    const struct weights_store *store;
    tensor_id tensor; /* whose adapters follow; NO_INDEX at first */
    float *a, *b;     /* [rank, inputs], [outputs, rank]; NULL if it has none */
    uint64_t inputs, outputs;
};

static float *read_whole(const struct merging *m, tensor_id tensor, GError **error)
{
    uint64_t count = m->trace->tensors[tensor].elements;
    float *values = g_new(float, count);
    if (!m->store->read(m->store->self, tensor, weights_list_of(m->trace, tensor), 0, count, values,
                        error))
        g_clear_pointer(&values, g_free);
    return values;
}

/* Reads the adapters of a tensor, if it has any. */
static bool turn_to(struct merging *m, tensor_id tensor, GError **error)
{
    const struct model_layout layout = model_layout_of(m->config);
    struct model_tensor of;
    if (tensor == m->tensor)
        return true;
    g_free(model_tensor_describe(m->config, &layout, tensor, &of));
    g_clear_pointer(&m->a, g_free);
    g_clear_pointer(&m->b, g_free);
    m->tensor = tensor;
    if (of.layer < 0 || of.bias || of.norm)
        return true;
    tensor_id a = tensor + layout.adapter[of.module] - layout.place[of.module];
    m->inputs = layout.inputs[of.module];
    m->outputs = layout.outputs[of.module];
    m->a = read_whole(m, a, error);
    m->b = m->a ? read_whole(m, a + 1, error) : NULL;
    return m->b != NULL;
}

static double added(const struct merging *m, uint64_t element)
{
    bool inputs_first = model_family_of(m->config)->inputs_first;
    uint32_t rank = m->config->lora_rank;
    uint64_t row = inputs_first ? m->outputs : m->inputs, first = element / row,
             second = element % row;
    uint64_t input = inputs_first ? first : second, output = inputs_first ? second : first;
    double sum = 0;
    for (uint32_t k = 0; k < rank; k++)
        sum += (double)m->b[output * rank + k] * m->a[k * m->inputs + input];
    return sum * m->config->lora_alpha / rank;
}

static bool read_merged(void *self, tensor_id tensor, enum trace_list list, uint64_t first,
                        uint64_t count, float *values, GError **error)
{
    struct merging *m = self;
    if (!turn_to(m, tensor, error) ||
        !m->store->read(m->store->self, tensor, list, first, count, values, error))
        return false;
#pragma omp parallel for schedule(static)
    for (uint64_t i = 0; i < (m->b ? count : 0); i++)
        values[i] = (float)(values[i] + added(m, first + i));
    return true;
}

bool adapters_merge(const char *folder, const struct model_config *config,
                    const struct trace *trace, const struct weights_store *store,
                    const struct weights_form *form, GError **error)
{
    struct merging merging = {config, trace, store, NO_INDEX, NULL, NULL, 0, 0};
    const struct weights_store merged = {.self = &merging, .read = read_merged};
    g_autofree char *path = g_build_filename(folder, MODEL_CONFIG, NULL);
    if (g_mkdir_with_parents(folder, 0777) != 0) {
        g_set_error(error, G_FILE_ERROR, (gint)g_file_error_from_errno(errno), "%s: %s", folder,
                    g_strerror(errno));
        return false;
    }
    /* The config comes last: with it and without weights the folder would be a new model. */
    bool ok = weights_save(folder, config, trace, &merged, form,
                           (struct weights_writer){.index = 0, .count = 1}, error) &&
              model_config_write(config, path, error);
    g_free(merging.a);
    g_free(merging.b);
    return ok;
}
