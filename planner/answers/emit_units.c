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

/* Returns whether the plan recomputes the layer of an operator. */
static bool is_recomputed(const struct plan *plan, const struct trace *trace, uint32_t moment)
{
    int32_t layer = moment < trace->operator_count ? trace->operators[moment].layer : -1;
    return plan->choices && layer >= 0 && (uint32_t)layer < plan->choices->layer_count &&
           plan->choices->recompute[layer];
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
        unit->recompute |= unit != rest && is_recomputed(plan, trace, first[t]);
        unit->offload |= is_on_host(plan, trace, leaves, t);
    }
    g_ptr_array_sort(units, by_first_use);
    return units;
}

static void append_unit(GString *text, const struct emit_unit *unit)
{
    g_string_append_printf(text, "    (\"%s\", %s),\n", unit->module,
                           unit->offload ? "True" : "False");
}

/* Appends a list of the units that backward computes again, and what wraps them. */
static void append_recomputed(GString *text, const GPtrArray *units)
{
    g_string_append(text, "# The units whose activations backward computes again.\nRECOMPUTED = [");
    for (guint i = 1, count = 0; i < units->len; i++) {
        const struct emit_unit *unit = g_ptr_array_index(units, i);
        if (unit->recompute)
            g_string_append_printf(text, "%s\"%s\"", count++ ? ", " : "", unit->module);
    }
    g_string_append(text, "]\n");
}

char *emit_fsdp2_text(const GPtrArray *units, bool ahead)
{
    GString *text = g_string_new(
        "\"\"\"Shards a model with PyTorch's fully_shard as pstar's plan comes nearest to.\n\n"
        "    import fsdp2\n"
        "    fsdp2.shard(model)      # before the optimizer is made\n"
        "\"\"\"\n"
        "import functools\n\n"
        "from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard\n"
        "from torch.utils.checkpoint import checkpoint\n\n"
        "# The modules that are gathered as one, in the order of forward, and whether their\n"
        "# parameters, gradients and optimizer states live on the host.\nUNITS = [\n");
    for (guint i = 1; i < units->len; i++)
        append_unit(text, g_ptr_array_index(units, i));
    const struct emit_unit *rest = g_ptr_array_index(units, 0);
    g_string_append(text, "]\n");
    append_recomputed(text, units);
    g_string_append_printf(
        text,
        "REST_ON_HOST = %s\nPREFETCH = %s\n\n\n"
        "def shard(model, pin_memory=True):\n"
        "    \"\"\"Shards the units, then what is left, and returns the model.\"\"\"\n"
        "    def policy(on_host):\n"
        "        return CPUOffloadPolicy(pin_memory=pin_memory) if on_host else OffloadPolicy()\n\n"
        "    for name in RECOMPUTED:\n"
        "        unit = model.get_submodule(name)\n"
        "        unit.forward = functools.partial(checkpoint, unit.forward, use_reentrant=False)\n"
        "    units = [(model.get_submodule(name), on_host) for name, on_host in UNITS]\n"
        "    for unit, on_host in units:\n"
        "        fully_shard(unit, reshard_after_forward=on_host, offload_policy=policy(on_host))\n"
        "    fully_shard(model, reshard_after_forward=False, offload_policy=policy(REST_ON_HOST))\n"
        "    modules = [unit for unit, _ in units]\n"
        "    for unit, before, after in zip(modules, [None, *modules], [*modules[1:], None]):\n"
        "        if PREFETCH and after is not None:\n"
        "            unit.set_modules_to_forward_prefetch([after])\n"
        "        if PREFETCH and before is not None:\n"
        "            unit.set_modules_to_backward_prefetch([before])\n"
        "    return model\n",
        rest->offload ? "True" : "False", ahead ? "True" : "False");
    return g_string_free(text, FALSE);
}
