#include "models/recognise.h"

#include "traces/choices.h"

#include <string.h>

static uint64_t elements_of(const struct trace *trace, const char *name)
{
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        if (g_str_equal(trace->tensors[t].name, name))
            return trace->tensors[t].elements;
    return 0;
}

static const struct trace_operator *operator_of(const struct trace *trace, const char *name)
{
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (g_str_equal(trace->operators[m].name, name))
            return &trace->operators[m];
    return NULL;
}

static bool has_buffer(const struct trace *trace, const char *name)
{
    for (uint32_t b = 0; b < trace->buffer_count; b++)
        if (g_str_equal(trace->buffers[b].name, name))
            return true;
    return false;
}

/* Attention counts 4 operations a pair and column, and 5 a pair and head (operator_cost.c). 0 where
 * no number of heads does that. */
static uint32_t count_heads(const struct trace *trace, uint64_t width, bool unfused)
{
    const struct trace_operator *attend = operator_of(trace, "forward h.0.attn");
    uint64_t t = trace->sequence;
    uint64_t pairs = trace->batch * (unfused ? t * t : t * (t + 1) / 2);

    if (!attend || !pairs || attend->flops / pairs <= 4 * width)
        return 0;
    uint64_t heads = (attend->flops / pairs - 4 * width) / 5;
    return heads && heads <= width && width % heads == 0 ? (uint32_t)heads : 0;
}

/* The embedding's dropout is a second operation an element. */
static bool drops_embeddings(const struct trace *trace, uint64_t width)
{
    const struct trace_operator *embed = operator_of(trace, "forward embeddings");
    return embed && embed->flops > (uint64_t)trace->batch * trace->sequence * width;
}

static struct model_config *config_of(const struct trace *trace, uint32_t layers, bool unfused,
                                      bool drops_scores)
{
    const double dropout = 0.1;
    uint64_t width = elements_of(trace, "ln_f.weight");
    uint64_t inner = elements_of(trace, "h.0.mlp.c_fc.bias");
    uint32_t heads = count_heads(trace, width, unfused);

    if (!layers || !heads || inner > UINT32_MAX || width > UINT32_MAX)
        return NULL;
    struct model_config *config = g_new0(struct model_config, 1);
    config->name = g_strdup(trace->model);
    config->layers = layers;
    config->width = (uint32_t)width;
    config->heads = heads;
    config->inner = (uint32_t)inner;
    config->positions = (uint32_t)(elements_of(trace, "wpe.weight") / width);
    config->vocabulary = (uint32_t)(elements_of(trace, "wte.weight") / width);
    config->tied = !elements_of(trace, "lm_head.weight");
    config->embedding_dropout = drops_embeddings(trace, width) ? dropout : 0;
    config->attention_dropout = drops_scores ? dropout : 0;
    config->residual_dropout = has_buffer(trace, "h.0.masked") ? dropout : 0;
    config->norm_epsilon = 1e-5;
    config->initializer_range = 0.02;
    return config;
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

/* NULL where the trace is not that of such a model. */
static struct recognised *try(const struct trace *trace, const struct run_choices *choices,
                              bool unfused, bool drops_scores)
{
    const struct model_job job = {.choices = *choices,
                                  .sequence = trace->sequence,
                                  .precision = !g_strcmp0(trace->precision, "bf16") ? MODEL_BF16
                                                                                    : MODEL_FP32,
                                  .unfused = unfused};
    struct model_config *config = config_of(trace, choices->layer_count, unfused, drops_scores);

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

struct recognised *recognise(const struct trace *trace, GError **error)
{
    struct run_choices *choices = run_choices_of(trace);
    struct recognised *recognised = try(trace, choices, false, false);

    if (!recognised)
        recognised = try(trace, choices, true, false);
    if (!recognised)
        recognised = try(trace, choices, true, true);
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
