/* Finds the model and the job that a trace belongs to. */
#include "models/derive.h"
#include "models/expert_rows.h"
#include "models/family.h"
#include "models/operator_cost.h"
#include "traces/choices.h"

#include <string.h>

static uint64_t elements_of(const struct trace *trace, const char *name)
{
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        if (g_str_equal(trace->tensors[t].name, name))
            return trace->tensors[t].elements;
    return 0;
}

/* Of a tensor outside of layers. */
static uint64_t elements_outside(const struct trace *trace, const struct model_family *family,
                                 const char *module, const char *kind)
{
    g_autofree char *name = g_strconcat(family->prefix, module ? module : "", ".", kind, NULL);
    return elements_of(trace, name);
}

/* Of a tensor of the first layer, and of its first expert. */
static uint64_t elements_inside(const struct trace *trace, const struct model_family *family,
                                enum model_module module, const char *kind)
{
    bool mixed = family->experts && (module == MODULE_UP || module == MODULE_DOWN);
    g_autofree char *name = g_strdup_printf(
        "%s%s.0.%s%s%s.%s", family->prefix, family->layers, mixed ? family->experts : "",
        mixed ? ".0." : "", family->modules[module] ? family->modules[module] : "", kind);
    return elements_of(trace, name);
}

static const struct trace_operator *operator_of(const struct trace *trace, const char *name)
{
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (g_str_equal(trace->operators[m].name, name))
            return &trace->operators[m];
    return NULL;
}

/* ---- heads and windows, from attention's operations ---- */

/* What is tried. */
struct guess {
    const struct model_family *family;
    uint32_t head_size; /* of a model with rotary positions; 0 for others */
    uint32_t turned;    /* columns of a head that turn */
    bool unfused, drops_scores, caps_scores, gelu_apart;
    enum model_branches branches;
};

/* What operator_cost.c counts beside enum operator_cost: operations of attention a pair and column
 * of queries, of a bias an element, and of the sum behind the experts an element. */
enum { A_COLUMN = 4, A_BIAS = 1, A_SUM = 2 };

static const struct trace_operator *attention_of(const struct trace *trace,
                                                 const struct model_family *family, uint32_t layer)
{
    g_autofree char *name = g_strdup_printf("forward %s.%u.%s", family->layers, layer,
                                            family->attention);
    return operator_of(trace, name);
}

static uint64_t all_pairs(const struct trace *trace, const struct guess *guess)
{
    bool square = guess->unfused || guess->family->parts.bidirectional;
    uint64_t t = trace->sequence;
    return trace->batch * (square ? t * t : t * (t + 1) / 2);
}

/* Returns 0 if no number of heads gives the operations of a model whose heads divide its width. */
static uint32_t count_heads(const struct trace *trace, const struct guess *guess, uint64_t width)
{
    const struct trace_operator *attend = attention_of(trace, guess->family, 0);
    uint64_t pairs = all_pairs(trace, guess);
    if (!attend || !pairs || attend->flops / pairs <= A_COLUMN * width)
        return 0;
    uint64_t heads = (attend->flops / pairs - A_COLUMN * width) / COST_SOFTMAX;
    return heads && heads <= width && width % heads == 0 ? (uint32_t)heads : 0;
}

/* Returns the window of which a sequence has so many pairs, or 0. */
static uint32_t window_of(uint64_t sequence, uint64_t pairs)
{
    uint64_t low = 1, high = sequence;
    while (low < high) {
        uint64_t w = (low + high) / 2;
        if (w * (w + 1) / 2 + (sequence - w) * w < pairs)
            low = w + 1;
        else
            high = w;
    }
    return low * (low + 1) / 2 + (sequence - low) * low == pairs ? (uint32_t)low : 0;
}

/* Sets *window to that of the layer, 0 if there is none. Returns false if no window gives its
 * operations. */
static bool find_window(const struct trace *trace, const struct guess *guess,
                        const struct model_config *config, uint32_t layer, uint32_t *window)
{
    const struct trace_operator *attend = attention_of(trace, guess->family, layer);
    uint64_t queries = model_config_queries(config), heads = config->heads + config->key_heads;
    uint64_t turned = COST_ROTARY * heads * model_config_turned(config, (int32_t)layer) *
                      trace->batch * trace->sequence;
    uint64_t head = COST_SOFTMAX + (guess->caps_scores ? COST_CAP : 0);
    uint64_t pair = A_COLUMN * queries + head * config->heads;
    uint64_t pairs = all_pairs(trace, guess);
    *window = 0;
    if (!attend || attend->flops < turned || (attend->flops - turned) % (pair * trace->batch))
        return false;
    if (attend->flops - turned == pair * pairs)
        return true;
    *window = window_of(trace->sequence, (attend->flops - turned) / (pair * trace->batch));
    return *window != 0;
}

/* Of families that have such layers, finds the first whose attention turns nothing. */
static void find_unturned(const struct trace *trace, const struct guess *guess,
                          struct model_config *config)
{
    uint64_t pair = A_COLUMN * (uint64_t)model_config_queries(config) +
                    (uint64_t)COST_SOFTMAX * config->heads;
    for (uint32_t layer = 0; guess->family->unturned_layers && layer < config->layers; layer++) {
        const struct trace_operator *attend = attention_of(trace, guess->family, layer);
        if (attend && attend->flops == pair * all_pairs(trace, guess)) {
            config->unturned_every = layer + 1;
            return;
        }
    }
}

/* Layers with a window follow those without, or the first layer without says how often others
 * have none. */
static bool find_windows(const struct trace *trace, const struct guess *guess,
                         struct model_config *config)
{
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        uint32_t window;
        if (!find_window(trace, guess, config, layer, &window))
            return false;
        if (window && !config->window) {
            config->first_window = layer;
            config->window = window;
        }
        if (!window && config->window && !config->full_every)
            config->full_every = layer + 1;
    }
    return true;
}

/* ---- experts ---- */

static const struct trace_operator *forward_of(const struct trace *trace,
                                               const struct model_family *family, uint32_t layer,
                                               const char *part)
{
    g_autofree char *name = g_strdup_printf("forward %s.%u.%s", family->layers, layer, part);
    return operator_of(trace, name);
}

/* Sets *expert to the number of the expert whose last product the operator is. */
static bool is_last_of_expert(const struct model_config *config, const struct trace_operator *op,
                              uint32_t *expert)
{
    char *end;
    const char *name = strstr(op->name, config->family->experts);
    if (op->phase != TRACE_FORWARD || op->micro_batch || !name || op->layer < 0 ||
        (uint32_t)op->layer >= config->layers || name[strlen(config->family->experts)] != '.')
        return false;
    guint64 number = g_ascii_strtoull(name + strlen(config->family->experts) + 1, &end, 10);
    *expert = (uint32_t)MIN(number, config->experts);
    return *end == '.' && number < config->experts &&
           g_str_equal(end + 1, config->family->modules[MODULE_DOWN]);
}

/* Returns the rows of each layer's experts. The operations of a product tell them. Adds to *used
 * how many experts have an operator: where loads are given, those without rows have none. */
static uint64_t *rows_of_experts(const struct trace *trace, const struct model_config *config,
                                 uint64_t *used)
{
    uint64_t *rows = g_new0(uint64_t, (size_t)config->layers * config->experts);
    uint32_t expert;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        if (!is_last_of_expert(config, op, &expert))
            continue;
        rows[(size_t)op->layer * config->experts + expert] =
            op->flops / (2 * (uint64_t)config->inner * config->width);
        (*used)++;
    }
    return rows;
}

static bool are_balanced(const struct model_config *config, uint64_t n, const uint64_t *loads)
{
    g_autofree uint64_t *rows = g_new(uint64_t, config->experts);
    struct model_config balanced = *config;
    bool same = true;
    balanced.expert_loads = NULL;
    expert_rows(&balanced, 0, n, rows);
    for (uint32_t layer = 0; layer < config->layers; layer++)
        same &= !memcmp(rows, loads + (size_t)layer * config->experts,
                        config->experts * sizeof *rows);
    return same;
}

/* Loads are the rows, of which each expert has its own part of what it had. */
static void find_experts(const struct trace *trace, struct model_config *config)
{
    const struct model_family *family = config->family;
    uint64_t n = trace->batch * trace->sequence, width = config->width;
    const struct trace_operator *sums = forward_of(trace, family, 0, family->experts);
    const struct trace_operator *route = forward_of(trace, family, 0,
                                                    family->modules[MODULE_ROUTER]);
    config->experts = (uint32_t)(elements_inside(trace, family, MODULE_ROUTER, "weight") / width);
    if (!sums || !route || !config->inner || config->experts > MODEL_MOST_EXPERTS) {
        config->experts = 0;
        return;
    }
    uint64_t each = sums->flops / (A_SUM * n * width);
    config->experts_per_token = (uint32_t)MIN(each, config->experts);
    config->balance = operator_of(trace, "forward balance loss") ? 0.001 : 0;
    uint64_t choice = 2 * width + COST_SOFTMAX + each + (config->balance > 0);
    config->shared_weight = route->flops > n * config->experts * choice;
    uint64_t used = 0;
    config->expert_loads = rows_of_experts(trace, config, &used);
    if (used == (uint64_t)config->layers * config->experts &&
        are_balanced(config, n, config->expert_loads))
        g_clear_pointer(&config->expert_loads, g_free);
}

/* ---- parts ---- */

static enum model_activation find_activation(const struct trace *trace,
                                             const struct model_config *config)
{
    const struct model_family *family = config->family;
    uint64_t rows = trace->batch * trace->sequence;
    uint64_t adapter = config->lora_rank > 0; /* is added to each output */
    uint64_t each = 2 * (uint64_t)config->width + A_BIAS + COST_EXACT_GELU + adapter;
    if (config->gated)
        return family->parts.activation;
    g_autofree char *name = g_strdup_printf("forward %s.0.%s", family->layers,
                                            family->modules[MODULE_UP]);
    const struct trace_operator *up = operator_of(trace, name);
    return up && up->flops == rows * config->inner * each ? MODEL_GELU_EXACT : MODEL_GELU_TANH;
}

/* Finds the parts in which models of the family differ. */
static void find_parts(const struct trace *trace, const struct guess *guess,
                       struct model_config *config)
{
    const struct model_family *family = guess->family;
    config->unbiased_qkv = !elements_inside(trace, family,
                                            config->separate ? MODULE_QUERY : MODULE_QKV, "bias");
    config->unbiased_output = !elements_inside(trace, family, MODULE_OUTPUT, "bias");
    config->unbiased_mlp = !elements_inside(trace, family, MODULE_UP, "bias");
    config->branches = guess->branches;
    config->activation = find_activation(trace, config);
}

/* The embedding's dropout is one more operation an element, of its norm if it has one. A layer norm
 * counts 7 (operator_cost.c). */
static bool drops_embeddings(const struct trace *trace, const struct model_config *config)
{
    const char *norm = config->embedding_norm ? config->family->first_norm : NULL;
    g_autofree char *name = g_strconcat("forward ", norm ? norm : "embeddings", NULL);
    const struct trace_operator *embed = operator_of(trace, name);
    uint64_t without = norm ? COST_NORM : config->scaled_embedding ? 2 : 1;
    return embed &&
           embed->flops > without * trace->batch * trace->sequence * (uint64_t)config->width;
}

/* A cap is 3 operations a logit more. Its size changes no trace. */
static void find_caps(const struct trace *trace, const struct guess *guess,
                      struct model_config *config)
{
    g_autofree char *head = g_strconcat("forward ", model_head(config), NULL);
    const struct trace_operator *classify = operator_of(trace, head);
    uint64_t products = (2 * (uint64_t)config->width + config->classifier_bias) * trace->batch *
                        trace->sequence * model_config_classes(config);
    config->score_cap = guess->caps_scores ? 1 : 0;
    config->logit_cap = classify && classify->flops > products ? 1 : 0;
}

/* Behind attention the residual stream is one operation an element, and dropout another one. */
static bool drops_residual(const struct trace *trace, const struct model_config *config)
{
    uint64_t rows = trace->batch * trace->sequence;
    uint64_t products = 2 * elements_inside(trace, config->family, MODULE_OUTPUT, "weight");
    uint64_t sums = 1 + !config->unbiased_output + (config->lora_rank > 0);
    const struct trace_operator *output = forward_of(trace, config->family, 0,
                                                     config->family->modules[MODULE_OUTPUT]);
    return output && output->flops > rows * (products + sums * config->width);
}

static void find_dropout(const struct trace *trace, const struct guess *guess,
                         struct model_config *config)
{
    const double dropout = 0.1;
    config->embedding_dropout = drops_embeddings(trace, config) ? dropout : 0;
    config->attention_dropout = guess->drops_scores ? dropout : 0;
    config->residual_dropout = drops_residual(trace, config) ? dropout : 0;
}

/* Returns the elements of the keys' weight, or of the keys' part of a joined one. */
static uint64_t keys_in(const struct trace *trace, const struct model_family *family)
{
    uint64_t joined = elements_inside(trace, family, MODULE_QKV, "weight");
    uint64_t queries = elements_inside(trace, family, MODULE_OUTPUT, "weight");
    return joined > queries ? (joined - queries) / 2
                            : elements_inside(trace, family, MODULE_KEY, "weight");
}

/* Queries, of which the product behind attention has as many, and keys tell the numbers of heads of
 * a size. */
static bool find_heads(const struct trace *trace, const struct guess *guess,
                       struct model_config *config)
{
    uint64_t queries = elements_inside(trace, guess->family, MODULE_OUTPUT, "weight");
    uint64_t keys = keys_in(trace, guess->family);
    uint64_t each = (uint64_t)guess->head_size * config->width;
    if (!guess->head_size) {
        config->heads = count_heads(trace, guess, config->width);
        return config->heads > 0;
    }
    if (!keys || queries % each || keys % each || queries % keys)
        return false;
    config->head_size = guess->head_size;
    config->heads = (uint32_t)(queries / each);
    config->key_heads = (uint32_t)(keys / each);
    config->rotary =
        (struct model_rotary){.columns = guess->turned, .base = 10000, .factor = 1, .magnitude = 1};
    find_unturned(trace, guess, config);
    return find_windows(trace, guess, config);
}

/* Every linear layer has adapters, or none has; experts never have. */
static uint32_t rank_of_adapters(const struct trace *trace, const struct model_family *family,
                                 uint64_t width)
{
    uint64_t elements = elements_inside(trace, family, family->experts ? MODULE_QUERY : MODULE_UP,
                                        "lora_A.weight");
    return elements / width <= UINT32_MAX ? (uint32_t)(elements / width) : 0;
}

static struct model_config *config_of(const struct trace *trace, const struct guess *guess,
                                      uint32_t layers)
{
    const struct model_family *family = guess->family;
    uint64_t width = elements_outside(trace, family, family->final_norm, "weight");
    uint64_t up = elements_inside(trace, family, MODULE_UP, "weight");
    if (!layers || !width || width > UINT32_MAX || up / width > UINT32_MAX)
        return NULL;
    struct model_config *config = g_new0(struct model_config, 1);
    *config = family->parts;
    config->family = family;
    config->name = g_strdup(trace->model);
    config->layers = layers;
    config->width = (uint32_t)width;
    config->inner = (uint32_t)(up / width) / (config->joined_gate ? 2 : 1);
    config->positions =
        family->positions
            ? (uint32_t)(elements_outside(trace, family, family->positions, "weight") / width)
            : trace->sequence;
    if (family->types)
        config->token_types =
            (uint32_t)(elements_outside(trace, family, family->types, "weight") / width);
    config->vocabulary =
        (uint32_t)(elements_outside(trace, family, family->embedding, "weight") / width);
    config->labels = (uint32_t)(elements_of(trace, "score.weight") / width);
    g_autofree char *head = g_strconcat(model_head(config), ".weight", NULL);
    config->tied = !config->labels && !elements_of(trace, head);
    config->lora_rank = rank_of_adapters(trace, family, width);
    config->norm_epsilon = 1e-5;
    config->initializer_range = 0.02;
    if (family->experts)
        find_experts(trace, config);
    find_parts(trace, guess, config);
    find_dropout(trace, guess, config);
    find_caps(trace, guess, config);
    if (find_heads(trace, guess, config))
        return config;
    model_config_free(config);
    return NULL;
}

static bool is_same_iteration(const struct trace *a, const struct trace *b)
{
    g_autofree char *of_a = trace_digest(a), *of_b = trace_digest(b);
    if (!g_str_equal(of_a, of_b) || a->buffer_count != b->buffer_count)
        return false;
    for (uint32_t m = 0; m < a->operator_count; m++) {
        const struct trace_operator *x = &a->operators[m], *y = &b->operators[m];
        if (x->phase != y->phase || x->layer != y->layer || x->micro_batch != y->micro_batch ||
            x->flops != y->flops || x->bytes != y->bytes)
            return false;
    }
    return true;
}

/* Returns NULL if the trace does not belong to such a model. */
static struct recognised *try(const struct trace *trace, const struct run_choices *choices,
                              const struct guess *guess)
{
    bool is_bf16 = !g_strcmp0(trace->precision, "bf16");
    const struct model_job job = {.choices = *choices,
                                  .sequence = trace->sequence,
                                  .precision = is_bf16 ? MODEL_BF16 : MODEL_FP32,
                                  .ranks = trace->ranks,
                                  .delay = trace->list_element_bytes[TRACE_MASTER] == 4 && !is_bf16,
                                  .unfused = guess->unfused,
                                  .gelu_apart = guess->gelu_apart};
    struct model_config *config = config_of(trace, guess, choices->layer_count);

    if (!config || model_tensor_count(config) != trace->tensor_count) {
        model_config_free(config);
        return NULL;
    }
    struct recognised *recognised = g_new0(struct recognised, 1);
    recognised->config = config;
    recognised->iteration = model_iteration_new(config, &job, NULL);
    if (recognised->iteration && is_same_iteration(recognised->iteration->trace, trace))
        return recognised;
    recognised_free(recognised);
    return NULL;
}

/* Attention and MLP as the family has them, which in families whose second norm is the MLP's own
 * may also follow each other. What is frozen may leave no operator that tells. */
static struct recognised *try_branches(const struct trace *trace, const struct run_choices *choices,
                                       struct guess guess)
{
    guess.branches = guess.family->parts.branches;
    struct recognised *recognised = try(trace, choices, &guess);
    if (recognised || guess.branches != MODEL_PARALLEL)
        return recognised;
    guess.branches = MODEL_SEQUENTIAL;
    return try(trace, choices, &guess);
}

/* Fused; unfused without and with dropout of the scores; and of families with GELU, fused as traces
 * were before its derivative was joined to a product. */
static struct recognised *try_ways(const struct trace *trace, const struct run_choices *choices,
                                   const struct model_family *family, uint32_t head_size,
                                   uint32_t turned)
{
    struct recognised *recognised = NULL;
    int choices_of_caps = family->soft_caps ? 2 : 1, ways = family->parts.gated ? 3 : 4;
    for (int caps = 0; caps < choices_of_caps; caps++)
        for (int way = 0; !recognised && way < ways; way++)
            recognised = try_branches(trace, choices,
                                      (struct guess){.family = family,
                                                     .head_size = head_size,
                                                     .turned = turned,
                                                     .unfused = way == 1 || way == 2,
                                                     .drops_scores = way == 2,
                                                     .gelu_apart = way == 3,
                                                     .caps_scores = caps});
    return recognised;
}

/* Whole heads turn, or in families with such models a part of each. */
static struct recognised *try_turns(const struct trace *trace, const struct run_choices *choices,
                                    const struct model_family *family, uint32_t head_size)
{
    struct recognised *recognised = try_ways(trace, choices, family, head_size, head_size);
    for (uint32_t turned = 2; !recognised && family->partly_turned && turned < head_size;
         turned += 2)
        recognised = try_ways(trace, choices, family, head_size, turned);
    return recognised;
}

/* Tries every size of heads into which keys can be cut. */
static struct recognised *try_family(const struct trace *trace, const struct run_choices *choices,
                                     const struct model_family *family)
{
    uint64_t width = elements_outside(trace, family, family->final_norm, "weight");
    uint64_t keys = family->positions ? 0 : keys_in(trace, family);
    bool heads = family->parts.query_norms == MODEL_QUERY_NORMS_HEADS;
    uint64_t normalised = heads ? elements_inside(trace, family, MODULE_QUERY_NORM, "weight") : 0;
    struct recognised *recognised = NULL;
    if (!width || (heads && !normalised))
        return NULL;
    if (!keys || heads)
        return try_turns(trace, choices, family, (uint32_t)normalised);
    for (uint64_t size = keys / width; !recognised && size >= 2; size--)
        if (size % 2 == 0 && keys / width % size == 0)
            recognised = try_turns(trace, choices, family, (uint32_t)size);
    return recognised;
}

/* Families whose traces are alike are told apart by the name that the trace gives its model. */
static bool is_named(const struct trace *trace, const struct model_family *family)
{
    g_autofree char *begin = g_strconcat(family->type, " ", NULL);
    return trace->model && g_str_has_prefix(trace->model, begin);
}

struct recognised *recognise(const struct trace *trace, GError **error)
{
    struct run_choices *choices = run_choices_of(trace);
    struct recognised *recognised = NULL;
    for (int named = 1; named >= 0; named--)
        for (const struct model_family *const *f = model_families(); !recognised && *f; f++)
            if (is_named(trace, *f) == named)
                recognised = try_family(trace, choices, *f);
    if (!recognised)
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                    "not an iteration of a model that is known here");
    run_choices_free(choices);
    return recognised;
}

void recognised_free(struct recognised *recognised)
{
    if (!recognised)
        return;
    model_iteration_free(recognised->iteration);
    model_config_free(recognised->config);
    g_free(recognised);
}
