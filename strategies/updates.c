#include "strategies/preset.h"

#include <string.h>

static uint32_t group_of(const struct strategy_context *context, tensor_id tensor)
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
        on_host[t] = groups[group_of(context, t)];
}

void updates_first(const struct strategy_context *context, double share, uint8_t *on_host)
{
    const struct trace *trace = context->trace;
    uint32_t groups = context->layout->group_count;
    g_autofree uint64_t *elements = g_new0(uint64_t, groups);
    g_autofree uint8_t *marked = g_new0(uint8_t, groups);
    uint64_t all = 0, before = 0;
    for (uint32_t t = 0; t < trace->tensor_count; t++) {
        elements[group_of(context, t)] += trace->tensors[t].elements;
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
        if (layout->chunks[c].list >= TRACE_MASTER && layout->chunks[c].list < TRACE_LISTS)
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

struct script_rule updates_offload_rule(const struct strategy_context *context, chunk_id chunk)
{
    (void)context;
    (void)chunk;
    return (struct script_rule){.retained = true, .offloads = true, .early = true};
}

struct script_rule updates_blocking_rule(const struct strategy_context *context, chunk_id chunk)
{
    struct script_rule rule = updates_offload_rule(context, chunk);
    bool over_param = !context->trace->list_element_bytes[TRACE_GRAD];
    uint8_t list = context->layout->chunks[chunk].list;
    rule.blocks_out = list == (over_param ? TRACE_PARAM : TRACE_GRAD);
    rule.blocks_in = list == TRACE_PARAM;
    return rule;
}
