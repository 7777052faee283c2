#include "planner/answers/emit.h"

#include <string.h>

/* Returns the module of a numbered layer, "model.layers.3" of "model.layers.3.mlp.up_proj.weight",
 * or NULL if the name has no number. Free with g_free. */
static char *module_of(const char *tensor)
{
    const char *at = tensor;
    while (*at) {
        size_t length = strcspn(at, ".");
        if (length && strspn(at, "0123456789") == length && at[length])
            return g_strndup(tensor, (gsize)(at - tensor) + length);
        at += length + (at[length] == '.');
    }
    return NULL;
}

/* Returns whether the tensor's parameter or states are on the host for a while, or live there. */
static bool is_on_host(const struct plan *plan, const struct trace *trace, const uint8_t *leaves,
                       tensor_id tensor)
{
    const struct layout *layout = plan->layout;
    for (int list = 0; list < TRACE_GATHERED; list++) {
        uint32_t blocks = trace_blocks(trace, (enum trace_list)list, tensor);
        if (!layout->places[list] || !trace_has(trace, (enum trace_list)list, tensor) ||
            list == TRACE_GRAD)
            continue;
        for (uint32_t b = 0; b < blocks; b++)
            if (leaves[layout->places[list][layout_place_index(layout, list, tensor, b)].chunk])
                return true;
    }
    return plan->choices && plan->choices->host_update[tensor];
}

/* Returns the moment at which an operator first uses each tensor's parameter: [tensor_count], to be
 * freed with g_free. */
static uint32_t *first_uses(const struct trace *trace)
{
    uint32_t *first = g_new(uint32_t, trace->tensor_count);
    for (uint32_t t = 0; t < trace->tensor_count; t++)
        first[t] = UINT32_MAX;
    for (uint32_t m = trace->operator_count; m-- > 0;)
        for (uint32_t i = 0; i < trace->operators[m].access_count; i++) {
            const struct trace_access *access =
                &trace->accesses[trace->operators[m].first_access + i];
            if (access->list == TRACE_PARAM || access->list == TRACE_GATHERED)
                first[access->tensor] = m;
        }
    return first;
}

/* Returns the layer of the operator that first uses a unit's parameters; -1 if none. */
static int32_t layer_of(const struct trace *trace, const struct emit_unit *unit)
{
    bool used = *unit->module && unit->first_use < trace->operator_count;
    return used ? trace->operators[unit->first_use].layer : -1;
}

static bool is_recomputed(const struct plan *plan, int32_t layer)
{
    return plan->choices && layer >= 0 && (uint32_t)layer < plan->choices->layer_count &&
           plan->choices->recompute[layer];
}

static struct emit_unit *unit_of_layer(const GPtrArray *units, const struct trace *trace,
                                       int32_t layer)
{
    for (guint i = 0; layer >= 0 && i < units->len; i++)
        if (layer_of(trace, g_ptr_array_index(units, i)) == layer)
            return g_ptr_array_index(units, i);
    return NULL;
}

static int descending(gconstpointer a, gconstpointer b)
{
    const uint64_t *x = a, *y = b;
    return (*x < *y) - (*x > *y);
}

/* Leaves in each unit the tensors that one of the passes offloads. Passes need not be alike: what
 * is too much or too little in one unit is made good in the next, so that all units together are
 * right to half a tensor. */
static void keep_one_pass(const GPtrArray *units, uint32_t passes)
{
    double missing = 0; /* bytes that a pass offloads and no unit has yet */
    for (guint u = 0; u < units->len; u++) {
        GArray *tensors = ((struct emit_unit *)g_ptr_array_index(units, u))->offloaded;
        guint kept = 0;
        g_array_sort(tensors, descending);
        for (guint i = 0; i < tensors->len; i++) {
            const uint64_t bytes = g_array_index(tensors, uint64_t, i);
            missing += (double)bytes / passes;
            if (missing < (double)bytes / 2)
                continue;
            missing -= (double)bytes;
            g_array_index(tensors, uint64_t, kept++) = bytes;
        }
        g_array_set_size(tensors, kept);
    }
}

/* Finds what backward of each unit gets back from the host; what comes twice is there once. */
static void find_offloaded(const struct plan *plan, const struct trace *trace,
                           const GPtrArray *units)
{
    g_autofree uint8_t *fetched = g_new0(uint8_t, plan->layout->chunk_count); /* not used since */
    g_autofree uint8_t *found = g_new0(uint8_t, trace->buffer_count);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        struct emit_unit *unit = unit_of_layer(units, trace, op->layer);
        for (uint32_t a = plan->first_action[m]; a < plan->first_action[m + 1]; a++)
            fetched[plan->actions[a].chunk] |= plan->actions[a].kind == PLAN_FETCH;
        for (uint32_t i = 0; i < op->access_count; i++) {
            const struct trace_access *access = &trace->accesses[op->first_access + i];
            chunk_id chunk = layout_place_of(plan->layout, access)->chunk;
            if (fetched[chunk] && access->list == TRACE_ACTIVATION && unit &&
                !found[access->tensor]) {
                g_array_append_val(unit->offloaded, trace->buffers[access->tensor].bytes);
                found[access->tensor] = 1;
            }
            fetched[chunk] = 0;
        }
    }
    keep_one_pass(units, MAX(1, plan->micro_batches));
}

/* What no layer has stays first. */
static int by_first_use(gconstpointer a, gconstpointer b)
{
    const struct emit_unit *const *x = a, *const *y = b;
    bool rest = !*(*x)->module, other = !*(*y)->module;
    return rest != other
               ? other - rest
               : ((*x)->first_use > (*y)->first_use) - ((*x)->first_use < (*y)->first_use);
}

static void unit_free(void *data)
{
    struct emit_unit *unit = data;
    g_array_unref(unit->offloaded);
    g_free(unit->module);
    g_free(unit);
}

static struct emit_unit *unit_of(GPtrArray *units, char *module)
{
    for (guint i = 0; i < units->len; i++) {
        struct emit_unit *unit = g_ptr_array_index(units, i);
        if (strcmp(unit->module, module) == 0) {
            g_free(module);
            return unit;
        }
    }
    struct emit_unit *unit = g_new0(struct emit_unit, 1);
    unit->module = module;
    unit->first_use = UINT32_MAX;
    unit->offloaded = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    g_ptr_array_add(units, unit);
    return unit;
}

GPtrArray *emit_units(const struct plan *plan, const struct trace *trace)
{
    GPtrArray *units = g_ptr_array_new_with_free_func(unit_free);
    struct emit_unit *rest = unit_of(units, g_strdup("")); /* what no layer has */
    g_autofree uint8_t *leaves = plan_chunks_that_leave(plan);
    g_autofree uint32_t *first = first_uses(trace);
    for (uint32_t t = 0; t < trace->tensor_count; t++) {
        char *module = module_of(trace->tensors[t].name);
        struct emit_unit *unit = module ? unit_of(units, module) : rest;
        unit->elements += trace->tensors[t].elements;
        unit->first_use = MIN(unit->first_use, first[t]);
        unit->offload |= is_on_host(plan, trace, leaves, t);
    }
    for (guint i = 0; i < units->len; i++) {
        struct emit_unit *unit = g_ptr_array_index(units, i);
        unit->recompute = is_recomputed(plan, layer_of(trace, unit));
    }
    find_offloaded(plan, trace, units);
    g_ptr_array_sort(units, by_first_use);
    return units;
}
