#include "strategies/preset.h"

#include <string.h>

uint32_t updates_group(const struct strategy_context *context, tensor_id tensor)
{
    const struct layout *layout = context->layout;
    return layout->chunks[layout->places[TRACE_PARAM][tensor].chunk].group;
}

void updates_all(const struct strategy_context *context, uint8_t *on_host)
{
    for (uint32_t t = 0; t < context->trace->tensor_count; t++)
        on_host[t] = 1;
}

/* Marks the tensors of the marked groups. */
static void place_groups(const struct strategy_context *context, const uint8_t *groups,
                         uint8_t *on_host)
{
    for (uint32_t t = 0; t < context->trace->tensor_count; t++)
        on_host[t] = groups[updates_group(context, t)];
}

void updates_first(const struct strategy_context *context, double share, uint8_t *on_host)
{
    const struct trace *trace = context->trace;
    uint32_t groups = context->layout->group_count;
    g_autofree uint64_t *elements = g_new0(uint64_t, groups);
    g_autofree uint8_t *marked = g_new0(uint8_t, groups);
    uint64_t all = 0, before = 0;
    for (uint32_t t = 0; t < trace->tensor_count; t++) {
        elements[updates_group(context, t)] += trace->tensors[t].elements;
        all += trace->tensors[t].elements;
    }
    for (uint32_t g = 0; g < groups; g++) {
        marked[g] = (double)before < share * (double)all;
        before += elements[g];
    }
    place_groups(context, marked, on_host);
}

void updates_first_groups(const struct strategy_context *context, double share, uint8_t *on_host)
{
    uint32_t groups = context->layout->group_count;
    g_autofree uint8_t *marked = g_new0(uint8_t, groups);
    memset(marked, 1, (size_t)(share * groups));
    place_groups(context, marked, on_host);
}

void updates_but_every(const struct strategy_context *context, uint32_t period, uint8_t *on_host)
{
    uint32_t groups = context->layout->group_count;
    g_autofree uint8_t *marked = g_new0(uint8_t, groups);
    for (uint32_t g = 0; g < groups; g++)
        marked[g] = g % period != period - 1;
    place_groups(context, marked, on_host);
}

void updates_but_first_bytes(const struct strategy_context *context, uint64_t least, uint64_t most,
                             uint8_t *on_host)
{
    const struct layout *layout = context->layout;
    g_autofree uint64_t *states = g_new0(uint64_t, layout->group_count);
    g_autofree uint8_t *marked = g_new0(uint8_t, layout->group_count);
    for (uint32_t c = 0; c < layout->chunk_count; c++)
        if (layout->chunks[c].list >= TRACE_MASTER && layout->chunks[c].list < TRACE_GATHERED)
            states[layout->chunks[c].group] += layout->chunks[c].slot_bytes;
    uint64_t before = 0;
    bool room = true;
    for (uint32_t g = 0; g < layout->group_count; g++) {
        room = room && (before < least || before + states[g] <= most);
        marked[g] = !room;
        before += states[g];
    }
    place_groups(context, marked, on_host);
}

uint64_t updates_device_gradients(const struct strategy_context *context)
{
    const struct trace *trace = context->trace;
    uint64_t elements = 0;
    if (trace->list_element_bytes[TRACE_GRAD] || !trace->list_element_bytes[TRACE_MASTER])
        return 0;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        for (uint32_t i = 0; op->phase == TRACE_UPDATE_PHASE && i < op->access_count; i++) {
            const struct trace_access *access = &trace->accesses[op->first_access + i];
            if (op->place == TRACE_ON_DEVICE && access->list == TRACE_MASTER)
                elements += trace_block_elements(trace, TRACE_MASTER, access->tensor,
                                                 access->block);
        }
    }
    return sizeof(float) * elements;
}

uint64_t updates_list_bytes(const struct strategy_context *context, enum trace_list list)
{
    uint64_t bytes = 0;
    for (uint32_t c = 0; c < context->layout->chunk_count; c++)
        bytes += context->layout->chunks[c].list == list ? context->layout->chunks[c].slot_bytes
                                                         : 0;
    return bytes;
}

uint64_t updates_margin(const struct strategy_context *context, uint64_t bytes)
{
    uint64_t taken = 0;
    for (uint32_t m = 0; m < context->trace->operator_count; m++)
        taken = MAX(taken, context->non_model[m]);
    taken += updates_list_bytes(context, TRACE_PARAM);
    return bytes > taken ? bytes - taken : 0;
}

/* Returns for each group the tensor of it that forward and backward use last. */
static tensor_id *find_last_tensors(const struct strategy_context *context)
{
    const struct trace *trace = context->trace;
    tensor_id *last = g_new0(tensor_id, context->layout->group_count);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        for (uint32_t i = 0; op->phase != TRACE_UPDATE_PHASE && i < op->access_count; i++) {
            const struct trace_access *access = &trace->accesses[op->first_access + i];
            if (access->list != TRACE_ACTIVATION)
                last[updates_group(context, access->tensor)] = access->tensor;
        }
    }
    return last;
}

tensor_id *updates_in_backward(const struct strategy_context *context, const uint8_t *on_host)
{
    uint32_t tensors = context->trace->tensor_count;
    g_autofree tensor_id *last = find_last_tensors(context);
    tensor_id *after = g_new(tensor_id, tensors);
    for (tensor_id t = 0; t < tensors; t++)
        after[t] = on_host[t] ? last[updates_group(context, t)] : NO_INDEX;
    return after;
}

struct script_rule updates_offload_rule(const struct strategy_context *context, chunk_id chunk)
{
    (void)context;
    (void)chunk;
    return (struct script_rule){.retained = true, .offloads = true, .early = true};
}

struct script_rule updates_visiting_rule(const struct strategy_context *context, chunk_id chunk)
{
    struct script_rule rule = updates_offload_rule(context, chunk);
    if (context->layout->chunks[chunk].list == TRACE_PARAM)
        rule.retained = rule.early = false;
    return rule;
}

struct script_rule updates_blocking_rule(const struct strategy_context *context, chunk_id chunk)
{
    struct script_rule rule = updates_offload_rule(context, chunk);
    bool over_param = !context->trace->list_element_bytes[TRACE_GRAD];
    uint8_t list = context->layout->chunks[chunk].list;
    rule.blocks_out = list == (over_param ? TRACE_PARAM : TRACE_GRAD);
    rule.blocks_in = list == TRACE_PARAM;
    rule.summed = list == TRACE_GRAD && context->host_used[chunk];
    rule.early = !rule.summed;
    return rule;
}

uint32_t updates_layer_ahead(const struct strategy_context *context)
{
    const struct trace *trace = context->trace;
    uint32_t run = 0, most = 1;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        bool same = m > 0 && op->layer >= 0 && op->layer == op[-1].layer &&
                    op->phase == op[-1].phase;
        run = same ? run + 1 : 1;
        if (op->phase != TRACE_UPDATE_PHASE)
            most = MAX(most, run);
    }
    return most;
}

uint32_t updates_blocking_ahead(const struct strategy_context *context)
{
    return context->trace->micro_batches > 1 ? updates_layer_ahead(context) : 0;
}
