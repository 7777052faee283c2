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
    choices->frozen = g_new0(uint8_t, tensor_count);
    choices->update_after = g_new(tensor_id, tensor_count);
    for (tensor_id t = 0; t < tensor_count; t++)
        choices->update_after[t] = NO_INDEX;
    return choices;
}

void run_choices_free(struct run_choices *choices)
{
    if (!choices)
        return;
    g_free(choices->recompute);
    g_free(choices->offload);
    g_free(choices->host_update);
    g_free(choices->update_after);
    g_free(choices->frozen);
    g_free(choices);
}

struct run_choices *run_choices_copy(const struct run_choices *choices)
{
    struct run_choices *copy = run_choices_new(choices->layer_count, choices->tensor_count);
    struct run_choices arrays = *copy;
    *copy = *choices;
    copy->recompute = arrays.recompute;
    copy->offload = arrays.offload;
    copy->host_update = arrays.host_update;
    copy->update_after = arrays.update_after;
    copy->frozen = arrays.frozen;
    if (choices->recompute)
        memcpy(copy->recompute, choices->recompute, choices->layer_count);
    if (choices->offload)
        memcpy(copy->offload, choices->offload, choices->layer_count);
    if (choices->host_update)
        memcpy(copy->host_update, choices->host_update, choices->tensor_count);
    if (choices->frozen)
        memcpy(copy->frozen, choices->frozen, choices->tensor_count);
    if (choices->update_after)
        memcpy(copy->update_after, choices->update_after,
               choices->tensor_count * sizeof *choices->update_after);
    return copy;
}

unsigned run_choices_differ(const struct run_choices *a, const struct run_choices *b)
{
    unsigned differ = 0;
    if (a->layer_count != b->layer_count || a->tensor_count != b->tensor_count)
        return RUN_EVERY_CHOICE;
    if (a->tensor_count && memcmp(a->frozen, b->frozen, a->tensor_count) != 0)
        return RUN_EVERY_CHOICE;
    if (a->layer_count && memcmp(a->recompute, b->recompute, a->layer_count) != 0)
        differ |= RUN_RECOMPUTE;
    if (a->layer_count && memcmp(a->offload, b->offload, a->layer_count) != 0)
        differ |= RUN_OFFLOAD;
    if (a->host_embedding != b->host_embedding)
        differ |= RUN_EMBEDDING;
    if (a->split_masters != b->split_masters || a->second_backward != b->second_backward)
        differ |= RUN_MASTERS;
    if (a->batch != b->batch || a->micro_batches != b->micro_batches)
        differ |= RUN_MICRO_BATCHES;
    if (a->stage != b->stage || a->fast != b->fast)
        differ |= RUN_STAGE;
    if (a->state_block != b->state_block)
        differ |= RUN_STATE_BLOCKS;
    if (a->first_update != b->first_update)
        differ |= RUN_UPDATES;
    if (a->tensor_count &&
        (memcmp(a->host_update, b->host_update, a->tensor_count) != 0 ||
         memcmp(a->update_after, b->update_after, a->tensor_count * sizeof *a->update_after) != 0))
        differ |= RUN_UPDATES;
    return differ;
}

bool run_choices_equal(const struct run_choices *a, const struct run_choices *b)
{
    return run_choices_differ(a, b) == 0;
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

bool run_gradients_in_buffers(const struct trace *trace)
{
    const uint8_t *bytes = trace->list_element_bytes;
    return !bytes[TRACE_GRAD] && bytes[TRACE_MASTER] == bytes[TRACE_PARAM];
}

static uint32_t count_early(const struct run_choices *choices)
{
    uint32_t count = 0;
    for (tensor_id t = 0; choices->update_after && t < choices->tensor_count; t++)
        count += choices->update_after[t] != NO_INDEX;
    return count;
}

bool run_updates_early(const struct run_choices *choices)
{
    return count_early(choices) > 0;
}

/* Returns the first tensor whose model data the operator accesses, or NO_INDEX. */
static tensor_id first_tensor(const struct trace *trace, const struct trace_operator *op)
{
    for (uint32_t i = 0; i < op->access_count; i++) {
        const struct trace_access *access = &trace->accesses[op->first_access + i];
        if (access->list != TRACE_ACTIVATION)
            return access->tensor;
    }
    return NO_INDEX;
}

static void set_update_after(const struct trace *trace, const struct trace_operator *update,
                             tensor_id after, struct run_choices *choices)
{
    for (uint32_t i = 0; i < update->access_count; i++) {
        const struct trace_access *access = &trace->accesses[update->first_access + i];
        if (access->list != TRACE_ACTIVATION)
            choices->update_after[access->tensor] = after;
    }
}

/* Updates that another operator follows are within backward. */
static void find_early_updates(const struct trace *trace, struct run_choices *choices)
{
    uint32_t end = trace->operator_count;
    tensor_id after = NO_INDEX;
    while (end > 0 && trace->operators[end - 1].phase == TRACE_UPDATE_PHASE)
        end--;
    for (uint32_t m = 0; m < end && !run_gradients_in_buffers(trace); m++) {
        const struct trace_operator *op = &trace->operators[m];
        if (op->phase == TRACE_UPDATE_PHASE)
            set_update_after(trace, op, after, choices);
        else
            after = first_tensor(trace, op);
    }
}

static void find_host_update(const struct trace *trace, const struct trace_operator *update,
                             struct run_choices *choices)
{
    for (uint32_t i = 0; i < update->access_count; i++) {
        const struct trace_access *access = &trace->accesses[update->first_access + i];
        if (access->list != TRACE_ACTIVATION)
            choices->host_update[access->tensor] = 1;
    }
}

/* The order of the host's updates: by tensor, or by tensor from one of them on and round. */
static void find_first_update(const struct trace *trace, struct run_choices *choices)
{
    tensor_id first = NO_INDEX, last = 0;
    uint32_t steps_back = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        tensor_id tensor = op->phase == TRACE_UPDATE_PHASE && op->place == TRACE_ON_HOST
                               ? first_tensor(trace, op)
                               : NO_INDEX;
        if (tensor == NO_INDEX)
            continue;
        steps_back += first != NO_INDEX && tensor < last;
        first = first == NO_INDEX ? tensor : first;
        last = tensor;
    }
    bool goes_round = steps_back == 1 && last < first;
    choices->first_update = goes_round && !run_updates_early(choices) ? first : 0;
}

struct run_stage run_stage_of(const struct trace *trace)
{
    if (trace->ranks <= 1)
        return (struct run_stage){0, false};
    return (struct run_stage){
        trace->shared_parameters ? 3
        : trace->whole_states    ? 0
        : trace->whole_gradients ? 1
                                 : 2,
        trace->whole_gradients || !trace->list_element_bytes[TRACE_GRAD],
    };
}

struct run_choices *run_choices_of(const struct trace *trace)
{
    struct run_choices *choices = run_choices_new(count_layers(trace), trace->tensor_count);
    choices->split_masters = trace->list_element_bytes[TRACE_MASTER] == 2;
    choices->batch = trace->batch;
    choices->micro_batches = trace->micro_batches;
    choices->state_block = trace->state_block;
    choices->stage = run_stage_of(trace).stage;
    choices->fast = run_stage_of(trace).fast;
    for (tensor_id t = 0; t < trace->tensor_count; t++)
        choices->frozen[t] = trace->tensors[t].absent >> TRACE_EXP_AVG & 1;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        bool on_host = op->place == TRACE_ON_HOST;
        bool backward = op->layer >= 0 && op->phase == TRACE_BACKWARD;
        if (backward && !choices->recompute[op->layer])
            choices->recompute[op->layer] = g_str_has_prefix(op->name, "recompute ");
        if (backward && !choices->offload[op->layer])
            choices->offload[op->layer] = accesses_activations(trace, op);
        if (op->phase == TRACE_BACKWARD && !choices->second_backward)
            choices->second_backward = g_str_has_prefix(op->name, "backward again ");
        if (on_host && op->phase == TRACE_FORWARD)
            choices->host_embedding = true;
        if (on_host && op->phase == TRACE_UPDATE_PHASE)
            find_host_update(trace, op, choices);
    }
    find_early_updates(trace, choices);
    if (!run_gradients_in_buffers(trace))
        find_first_update(trace, choices);
    return choices;
}

bool run_freezes(const struct run_choices *choices)
{
    return choices->frozen && choices->tensor_count &&
           memchr(choices->frozen, 1, choices->tensor_count);
}

static uint32_t count_trained(const struct run_choices *choices)
{
    uint32_t count = 0;
    for (tensor_id t = 0; t < choices->tensor_count; t++)
        count += !choices->frozen[t];
    return count;
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

const char *run_stage_describe(uint32_t stage)
{
    static const char *const shared[] = {"nothing", "optimizer states",
                                         "gradients and optimizer states",
                                         "parameters, gradients and optimizer states"};
    return shared[MIN(stage, 3)];
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
    if (run_updates_early(choices))
        g_string_append_printf(text, ", %u of them within backward", count_early(choices));
    if (choices->first_update)
        g_string_append_printf(text, ", from tensor %u on", choices->first_update);
    if (run_freezes(choices))
        g_string_append_printf(text, "; trains %u of %u tensors", count_trained(choices),
                               choices->tensor_count);
    if (choices->host_embedding)
        g_string_append(text, "; embeds on the host");
    if (choices->split_masters)
        g_string_append(text, "; splits masters");
    if (choices->second_backward)
        g_string_append(text, "; runs backward twice");
    if (choices->state_block)
        g_string_append_printf(text, "; cuts states into blocks of %" G_GUINT64_FORMAT,
                               choices->state_block);
    if (choices->stage)
        g_string_append_printf(text, "; shares %s among ranks (stage %u)",
                               run_stage_describe(choices->stage), choices->stage);
    else if (choices->fast)
        g_string_append(text, "; ranks share nothing (stage 0)");
    if (choices->fast)
        g_string_append(text, "; sums gradients fast");
    return g_string_free(text, FALSE);
}

static void append_range(GString *text, uint32_t first, uint32_t last)
{
    g_string_append_printf(text, "%s%u", text->len ? "," : "", first);
    if (last > first)
        g_string_append_printf(text, "-%u", last);
}

char *run_layers_format(const uint8_t *marks, uint32_t count)
{
    GString *text = g_string_new(NULL);
    uint32_t marked = 0;

    for (uint32_t first = 0; first < count; first++) {
        uint32_t end = first;
        while (end < count && marks[end])
            end++;
        if (end == first)
            continue;
        append_range(text, first, end - 1);
        marked += end - first;
        first = end - 1;
    }
    if (!marked || marked == count)
        g_string_assign(text, marked ? "all" : "none");
    return g_string_free(text, FALSE);
}

/* "5" or "5-7" */
static bool mark_range(const char *text, uint8_t *marks, uint32_t count)
{
    char *end;
    guint64 first = g_ascii_strtoull(text, &end, 10), last = first;

    if (!g_ascii_isdigit(*text))
        return false;
    if (*end == '-') {
        text = end + 1;
        last = g_ascii_strtoull(text, &end, 10);
        if (!g_ascii_isdigit(*text))
            return false;
    }
    if (*end || first > last || last >= count)
        return false;
    memset(marks + first, 1, last - first + 1);
    return true;
}

bool run_layers_parse(const char *text, uint8_t *marks, uint32_t count)
{
    bool all = g_str_equal(text, "all");
    memset(marks, all, count);
    if (all || g_str_equal(text, "none"))
        return true;
    g_auto(GStrv) ranges = g_strsplit(text, ",", -1);
    for (char **range = ranges; *range; range++)
        if (!mark_range(*range, marks, count))
            return false;
    return *ranges != NULL;
}
