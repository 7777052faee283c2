#include "traces/choices.h"

#include <string.h>

struct run_choices *run_choices_new(uint32_t layer_count, uint32_t tensor_count)
{
    struct run_choices *choices = g_new0(struct run_choices, 1);
    choices->layer_count = layer_count;
    choices->tensor_count = tensor_count;
    choices->recompute = g_new0(uint8_t, layer_count);
    choices->offload = g_new0(uint8_t, layer_count);
    choices->host_update = g_new0(uint8_t, tensor_count);
    return choices;
}

void run_choices_free(struct run_choices *choices)
{
    if (!choices)
        return;
    g_free(choices->recompute);
    g_free(choices->offload);
    g_free(choices->host_update);
    g_free(choices);
}

bool run_choices_equal(const struct run_choices *a, const struct run_choices *b)
{
    return a->layer_count == b->layer_count && a->tensor_count == b->tensor_count &&
           a->host_embedding == b->host_embedding && a->split_masters == b->split_masters &&
           a->second_backward == b->second_backward &&
           memcmp(a->recompute, b->recompute, a->layer_count) == 0 &&
           memcmp(a->offload, b->offload, a->layer_count) == 0 &&
           memcmp(a->host_update, b->host_update, a->tensor_count) == 0;
}

static uint32_t count_layers(const struct trace *trace)
{
    int32_t last = -1;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        last = MAX(last, trace->operators[m].layer);
    return (uint32_t)(last + 1);
}

static bool accesses_activations(const struct trace *trace, const struct trace_operator *op)
{
    for (uint32_t i = 0; i < op->access_count; i++)
        if (trace->accesses[op->first_access + i].list == TRACE_ACTIVATION)
            return true;
    return false;
}

struct run_choices *run_choices_of(const struct trace *trace)
{
    struct run_choices *choices = run_choices_new(count_layers(trace), trace->tensor_count);
    choices->split_masters = trace->list_element_bytes[TRACE_MASTER] == 2;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        bool on_host = op->place == TRACE_ON_HOST;
        bool backward = op->layer >= 0 && op->phase == TRACE_BACKWARD;
        if (backward && !choices->recompute[op->layer])
            choices->recompute[op->layer] = g_str_has_prefix(op->name, "recompute ");
        if (backward && !choices->offload[op->layer])
            choices->offload[op->layer] = accesses_activations(trace, op);
        if (backward && !choices->second_backward)
            choices->second_backward = g_str_has_prefix(op->name, "backward again ");
        if (on_host && op->phase == TRACE_FORWARD)
            choices->host_embedding = true;
        for (uint32_t i = 0; on_host && op->phase == TRACE_UPDATE_PHASE && i < op->access_count;
             i++)
            choices->host_update[trace->accesses[op->first_access + i].tensor] = 1;
    }
    return choices;
}

static void append_share(GString *text, const char *verb, const uint8_t *chosen, uint32_t count,
                         const char *what)
{
    uint32_t sum = 0;
    for (uint32_t i = 0; i < count; i++)
        sum += chosen[i];
    if (sum == 0 || sum == count)
        g_string_append_printf(text, "%s %s %s", verb, sum ? "all" : "no", what);
    else
        g_string_append_printf(text, "%s %u of %u %s", verb, sum, count, what);
}

char *run_choices_describe(const struct run_choices *choices)
{
    GString *text = g_string_new(NULL);
    append_share(text, "recomputes", choices->recompute, choices->layer_count, "layers");
    if (choices->layer_count && memchr(choices->offload, 1, choices->layer_count))
        append_share(text, "; offloads the activations of", choices->offload, choices->layer_count,
                     "layers");
    append_share(text, "; updates", choices->host_update, choices->tensor_count,
                 "tensors on the host");
    if (choices->host_embedding)
        g_string_append(text, "; embeds on the host");
    if (choices->split_masters)
        g_string_append(text, "; splits masters");
    if (choices->second_backward)
        g_string_append(text, "; runs backward twice");
    return g_string_free(text, FALSE);
}
