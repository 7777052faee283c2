#include "models/family.h"

#include <string.h>

const struct model_family *const *model_families(void)
{
    static const struct model_family *const all[] = {
        &family_gpt2,    &family_llama, &family_mistral,  &family_qwen2,   &family_qwen3,
        &family_smollm3, &family_gemma, &family_phi3,     &family_olmo2,   &family_gemma3,
        &family_gemma2,  &family_phi,   &family_gpt_neox, &family_mixtral, &family_qwen3_moe,
        &family_bert,    NULL};
    return all;
}

const struct model_family *model_family_find(const char *type)
{
    for (const struct model_family *const *family = model_families(); *family; family++)
        if (!strcmp((*family)->type, type))
            return *family;
    return NULL;
}

const struct model_family *model_family_of(const struct model_config *config)
{
    return config->family ? config->family : &family_gpt2;
}

const char *model_head(const struct model_config *config)
{
    const struct model_family *family = model_family_of(config);
    return config->labels ? "score" : family->head ? family->head : "lm_head";
}

/* ---- the tensors of a layer ---- */

static bool is_norm(enum model_module module)
{
    switch (module) {
    case MODULE_NORM_1:
    case MODULE_QUERY_NORM:
    case MODULE_KEY_NORM:
    case MODULE_AFTER_OUTPUT:
    case MODULE_NORM_2:
    case MODULE_AFTER_DOWN:
        return true;
    default:
        return false;
    }
}

static bool has_module(const struct model_config *config, enum model_module module)
{
    switch (module) {
    case MODULE_NORM_1:
        return model_config_norms_before(config);
    case MODULE_NORM_2:
        return model_config_second_norm(config);
    case MODULE_AFTER_OUTPUT:
    case MODULE_AFTER_DOWN:
        return model_config_norms_after(config);
    case MODULE_QKV:
        return !config->separate;
    case MODULE_QUERY:
    case MODULE_KEY:
    case MODULE_VALUE:
        return config->separate;
    case MODULE_QUERY_NORM:
    case MODULE_KEY_NORM:
        return config->query_norms != MODEL_QUERY_NORMS_NONE;
    case MODULE_ROUTER:
        return config->experts > 0;
    case MODULE_GATE:
        return config->gated && !config->joined_gate;
    default:
        return true;
    }
}

static bool has_bias(const struct model_config *config, enum model_module module)
{
    switch (module) {
    case MODULE_QKV:
    case MODULE_QUERY:
    case MODULE_KEY:
    case MODULE_VALUE:
        return !config->unbiased_qkv;
    case MODULE_OUTPUT:
        return !config->unbiased_output;
    case MODULE_ROUTER:
    case MODULE_GATE:
    case MODULE_UP:
    case MODULE_DOWN:
        return !config->unbiased_mlp;
    default:
        return config->norm == MODEL_LAYER_NORM;
    }
}

static void set_shape(const struct model_config *config, enum model_module module,
                      struct model_layout *layout)
{
    uint32_t queries = model_config_queries(config), keys = model_config_keys(config);
    uint32_t *inputs = &layout->inputs[module], *outputs = &layout->outputs[module];
    *inputs = is_norm(module) ? 0 : config->width;
    *outputs = config->width;
    switch (module) {
    case MODULE_QKV:
        *outputs = queries + 2 * keys;
        break;
    case MODULE_QUERY:
        *outputs = queries;
        break;
    case MODULE_KEY:
    case MODULE_VALUE:
        *outputs = keys;
        break;
    case MODULE_QUERY_NORM:
    case MODULE_KEY_NORM:
        *outputs = model_config_head_size(config);
        if (config->query_norms == MODEL_QUERY_NORMS_ROWS)
            *outputs = module == MODULE_QUERY_NORM ? queries : keys;
        break;
    case MODULE_OUTPUT:
        *inputs = queries;
        break;
    case MODULE_ROUTER:
        *outputs = config->experts;
        break;
    case MODULE_GATE:
        *outputs = config->inner;
        break;
    case MODULE_UP:
        *outputs = config->joined_gate ? 2 * config->inner : config->inner;
        break;
    case MODULE_DOWN:
        *inputs = config->inner;
        break;
    default:
        break;
    }
}

/* Returns whether the module belongs to a mixture of experts, which has no adapters. */
static bool is_mixed(const struct model_config *config, enum model_module module)
{
    return config->experts &&
           (module == MODULE_ROUTER || module == MODULE_UP || module == MODULE_DOWN);
}

struct model_layout model_layout_of(const struct model_config *config)
{
    uint32_t tables = model_config_tables(config), norm = config->norm == MODEL_LAYER_NORM ? 2 : 1;
    struct model_layout layout = {
        .embedding_norm = config->embedding_norm ? tables : NO_INDEX,
        .first_layer = tables + (config->embedding_norm ? norm : 0),
        .transform = NO_INDEX,
        .classifier_bias = NO_INDEX,
    };
    for (enum model_module module = 0; module < MODULES; module++) {
        layout.place[module] = NO_INDEX;
        if (!has_module(config, module))
            continue;
        set_shape(config, module, &layout);
        layout.biased[module] = has_bias(config, module);
        layout.place[module] = layout.layer_tensors;
        layout.layer_tensors += layout.biased[module] ? 2 : 1;
        layout.adapter[module] = NO_INDEX;
        if (!config->lora_rank || !layout.inputs[module] || is_mixed(config, module))
            continue;
        layout.adapter[module] = layout.layer_tensors;
        layout.layer_tensors += 2;
    }
    if (config->experts)
        layout.layer_tensors += (config->experts - 1) * EXPERT_TENSORS;
    layout.layers_end = layout.first_layer + config->layers * layout.layer_tensors;
    if (config->head_transform)
        layout.transform = layout.layers_end;
    layout.final_norm = layout.layers_end + (config->head_transform ? 2 : 0);
    layout.head = layout.count = layout.final_norm + norm;
    layout.classifier = config->tied ? 0 : layout.count++;
    if (config->classifier_bias)
        layout.classifier_bias = layout.count++;
    return layout;
}

char *model_module_name(const struct model_config *config, enum model_module module,
                        uint32_t expert)
{
    const struct model_family *family = model_family_of(config);
    bool numbered = config->experts && (module == MODULE_UP || module == MODULE_DOWN);
    return numbered ? g_strdup_printf("%s.%u.%s", family->experts, expert, family->modules[module])
                    : g_strdup(family->modules[module]);
}

/* ---- tensors ---- */

static void vector(struct model_tensor *tensor, uint64_t elements)
{
    tensor->rank = 1;
    tensor->shape[0] = elements;
    tensor->shape[1] = 1;
}

static void matrix(struct model_tensor *tensor, uint64_t rows, uint64_t columns)
{
    tensor->rank = 2;
    tensor->shape[0] = rows;
    tensor->shape[1] = columns;
}

static void describe_in_layer(const struct model_config *config, const struct model_layout *layout,
                              enum model_module module, bool bias, struct model_tensor *tensor)
{
    uint32_t inputs = layout->inputs[module], outputs = layout->outputs[module];
    tensor->module = module;
    tensor->bias = bias;
    tensor->norm = is_norm(module);
    if (bias || !inputs)
        vector(tensor, outputs);
    else if (model_family_of(config)->inputs_first)
        matrix(tensor, inputs, outputs);
    else
        matrix(tensor, outputs, inputs);
}

static char *adapter_tensor(const struct model_config *config, const struct model_layout *layout,
                            enum model_module module, uint32_t place, struct model_tensor *tensor)
{
    const struct model_family *family = model_family_of(config);
    bool a = place == layout->adapter[module];
    tensor->module = module;
    tensor->adapter = a ? MODEL_ADAPTER_A : MODEL_ADAPTER_B;
    matrix(tensor, a ? config->lora_rank : layout->outputs[module],
           a ? layout->inputs[module] : config->lora_rank);
    return g_strdup_printf("%s%s.%d.%s.lora_%s.weight", family->prefix, family->layers,
                           tensor->layer, family->modules[module], a ? "A" : "B");
}

static char *layer_tensor(const struct model_config *config, const struct model_layout *layout,
                          uint32_t place, struct model_tensor *tensor)
{
    const struct model_family *family = model_family_of(config);
    enum model_module module = MODULES;
    if (config->experts && place >= layout->place[MODULE_UP]) {
        tensor->expert = (place - layout->place[MODULE_UP]) / EXPERT_TENSORS;
        place -= tensor->expert * EXPERT_TENSORS;
    }
    while (layout->place[--module] == NO_INDEX || layout->place[module] > place)
        ;
    if (place >= layout->adapter[module])
        return adapter_tensor(config, layout, module, place, tensor);
    bool bias = place > layout->place[module];
    describe_in_layer(config, layout, module, bias, tensor);
    g_autofree char *name = model_module_name(config, module, tensor->expert);
    return g_strdup_printf("%s%s.%d.%s.%s", family->prefix, family->layers, tensor->layer, name,
                           bias ? "bias" : "weight");
}

/* Tables are of words, of positions unless they are rotary, and of types of tokens. */
static char *embedding_tensor(const struct model_config *config, const struct model_layout *layout,
                              uint32_t index, struct model_tensor *tensor)
{
    const struct model_family *family = model_family_of(config);
    bool types = config->token_types && index + 1 == model_config_tables(config);
    tensor->norm = index >= layout->embedding_norm;
    if (tensor->norm) {
        tensor->bias = index > layout->embedding_norm;
        vector(tensor, config->width);
        return g_strdup_printf("%s%s.%s", family->prefix, family->first_norm,
                               tensor->bias ? "bias" : "weight");
    }
    tensor->embedding = true;
    matrix(tensor,
           index == 0 ? config->vocabulary
           : types    ? config->token_types
                      : config->positions,
           config->width);
    return g_strdup_printf("%s%s.weight", family->prefix,
                           index == 0 ? family->embedding
                           : types    ? family->types
                                      : family->positions);
}

static char *classifier_tensor(const struct model_config *config, const struct model_layout *layout,
                               uint32_t index, struct model_tensor *tensor)
{
    const struct model_family *family = model_family_of(config);
    tensor->head = true;
    tensor->bias = index == layout->classifier_bias;
    if (tensor->bias)
        vector(tensor, model_config_classes(config));
    else
        matrix(tensor, model_config_classes(config), config->width);
    bool apart = tensor->bias && family->head_bias;
    return g_strdup_printf("%s.%s", apart ? family->head_bias : model_head(config),
                           tensor->bias ? "bias" : "weight");
}

char *model_tensor_describe(const struct model_config *config, const struct model_layout *layout,
                            uint32_t index, struct model_tensor *tensor)
{
    const struct model_family *family = model_family_of(config);
    *tensor = (struct model_tensor){.layer = -1, .module = MODULES, .expert = NO_INDEX};
    if (index < layout->first_layer)
        return embedding_tensor(config, layout, index, tensor);
    if (index < layout->layers_end) {
        uint32_t within = index - layout->first_layer;
        tensor->layer = (int32_t)(within / layout->layer_tensors);
        return layer_tensor(config, layout, within % layout->layer_tensors, tensor);
    }
    if (index >= layout->head)
        return classifier_tensor(config, layout, index, tensor);
    tensor->norm = index >= layout->final_norm;
    tensor->bias = index > (tensor->norm ? layout->final_norm : layout->transform);
    if (tensor->norm || tensor->bias)
        vector(tensor, config->width);
    else
        matrix(tensor, config->width, config->width);
    return g_strdup_printf("%s%s.%s", family->prefix,
                           tensor->norm ? family->final_norm : family->transform,
                           tensor->bias ? "bias" : "weight");
}

/* Returns the number of the layer that the name begins with, or -1. */
static int64_t layer_in(const struct model_family *family, const char *name)
{
    g_autofree char *begin = g_strdup_printf("%s%s.", family->prefix, family->layers);
    char *end;
    if (!g_str_has_prefix(name, begin))
        return -1;
    guint64 layer = g_ascii_strtoull(name + strlen(begin), &end, 10);
    return *end == '.' && layer < INT32_MAX ? (int64_t)layer : -1;
}

bool model_tensor_find(const struct model_config *config, const char *name,
                       struct model_tensor *tensor)
{
    const struct model_layout layout = model_layout_of(config);
    int64_t layer = layer_in(model_family_of(config), name);
    uint32_t first = 0, end = layout.count;
    if (layer >= config->layers)
        return false;
    if (layer >= 0) {
        first = layout.first_layer + (uint32_t)layer * layout.layer_tensors;
        end = first + layout.layer_tensors;
    }
    for (uint32_t t = first; t < end; t++) {
        if (layer < 0 && t == layout.first_layer)
            t = layout.layers_end;
        g_autofree char *found = model_tensor_describe(config, &layout, t, tensor);
        if (!strcmp(found, name))
            return true;
    }
    return false;
}
