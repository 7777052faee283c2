#include "planner/answers/emit.h"

static const char beginning[] =
    "\"\"\"Shards a model with PyTorch's fully_shard as pstar's plan comes nearest to.\n\n"
    "    import fsdp2\n"
    "    fsdp2.shard(model)      # before the optimizer is made\n"
    "\"\"\"\n"
    "import functools\n\n";

static const char imports[] =
    "from torch.distributed.fsdp import CPUOffloadPolicy, OffloadPolicy, fully_shard\n"
    "from torch.utils.checkpoint import checkpoint\n\n";

/* A storage is named by a weak reference, because its address may have another one in it by the
 * time the next tensor is saved. */
static const char offload[] =
    "def to_host(tensor, pin_memory):\n"
    "    copy = torch.empty_like(tensor, device=\"cpu\", pin_memory=pin_memory)\n"
    "    return copy.copy_(tensor, non_blocking=pin_memory)\n\n\n"
    "def offload(unit, sizes, pin_memory):\n"
    "    \"\"\"Lets tensors of these sizes that the unit saves for backward wait on the "
    "host.\"\"\"\n"
    "    forward = unit.forward\n\n"
    "    def run(*arguments, **keywords):\n"
    "        left, copies = list(sizes), {}\n"
    "        leaves = {StorageWeakRef(p.untyped_storage()): False for p in unit.parameters()}\n\n"
    "        def pack(tensor):\n"
    "            storage, nbytes = StorageWeakRef(tensor.untyped_storage()), "
    "tensor.untyped_storage().nbytes()\n"
    "            if storage not in leaves:\n"
    "                size = next((size for size in left if 0.98 * size <= nbytes <= size), None)\n"
    "                leaves[storage] = size is not None\n"
    "                if leaves[storage]:\n"
    "                    left.remove(size)\n"
    "            if not leaves[storage]:\n"
    "                return tensor\n"
    "            key = storage, tensor.storage_offset(), tensor.shape, tensor.stride()\n"
    "            if key not in copies:\n"
    "                copies[key] = to_host(tensor, pin_memory)\n"
    "            return tensor.device, copies[key]\n\n"
    "        def unpack(saved):\n"
    "            if isinstance(saved, torch.Tensor):\n"
    "                return saved\n"
    "            device, copy = saved\n"
    "            return copy.to(device, non_blocking=pin_memory)\n\n"
    "        with torch.autograd.graph.saved_tensors_hooks(pack, unpack):\n"
    "            return forward(*arguments, **keywords)\n"
    "    return run\n\n\n";

static const char *boolean(bool value)
{
    return value ? "True" : "False";
}

static void append_units(GString *text, const GPtrArray *units)
{
    g_string_append(text, "# The modules that are gathered as one, in the order of forward, and "
                          "whether their\n# parameters, gradients and optimizer states live on the "
                          "host.\nUNITS = [\n");
    for (guint i = 1; i < units->len; i++) {
        const struct emit_unit *unit = g_ptr_array_index(units, i);
        g_string_append_printf(text, "    (\"%s\", %s),\n", unit->module, boolean(unit->offload));
    }
    g_string_append(text, "]\n");
}

/* Appends a list of the units that backward computes again. */
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

/* Appends the units whose activations leave the device. */
static void append_offloaded(GString *text, const GPtrArray *units)
{
    g_string_append(text, "# The bytes of each tensor that a unit saves for backward and the host "
                          "keeps meanwhile, in a\n# forward pass.\nOFFLOADED = {\n");
    for (guint i = 1; i < units->len; i++) {
        const struct emit_unit *unit = g_ptr_array_index(units, i);
        for (guint k = 0; k < unit->offloaded->len; k++) {
            uint64_t bytes = g_array_index(unit->offloaded, uint64_t, k);
            if (k == 0)
                g_string_append_printf(text, "    \"%s\": [", unit->module);
            g_string_append_printf(text, "%s%" G_GUINT64_FORMAT, k ? ", " : "", bytes);
        }
        g_string_append(text, unit->offloaded->len ? "],\n" : "");
    }
    g_string_append(text, "}\n");
}

static bool offloads(const GPtrArray *units)
{
    bool some = false;
    for (guint i = 1; i < units->len; i++)
        some |= ((const struct emit_unit *)g_ptr_array_index(units, i))->offloaded->len > 0;
    return some;
}

static void append_shard(GString *text, bool offloaded)
{
    g_string_append(
        text,
        "def shard(model, pin_memory=True):\n"
        "    \"\"\"Shards the units, then what is left, and returns the model.\"\"\"\n"
        "    def policy(on_host):\n"
        "        return CPUOffloadPolicy(pin_memory=pin_memory) if on_host else OffloadPolicy()\n\n"
        "    for name in RECOMPUTED:\n"
        "        unit = model.get_submodule(name)\n"
        "        unit.forward = functools.partial(checkpoint, unit.forward, "
        "use_reentrant=False)\n");
    if (offloaded)
        g_string_append(text, "    for name, sizes in OFFLOADED.items():\n"
                              "        unit = model.get_submodule(name)\n"
                              "        unit.forward = offload(unit, sizes, pin_memory)\n");
    g_string_append(
        text,
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
        "    return model\n");
}

char *emit_fsdp2_text(const GPtrArray *units, bool ahead)
{
    bool offloaded = offloads(units);
    const struct emit_unit *rest = g_ptr_array_index(units, 0);
    GString *text = g_string_new(beginning);
    if (offloaded)
        g_string_append(text, "import torch\n"
                              "from torch.multiprocessing.reductions import StorageWeakRef\n");
    g_string_append(text, imports);
    append_units(text, units);
    append_recomputed(text, units);
    if (offloaded)
        append_offloaded(text, units);
    g_string_append_printf(text, "REST_ON_HOST = %s\nPREFETCH = %s\n\n\n", boolean(rest->offload),
                           boolean(ahead));
    if (offloaded)
        g_string_append(text, offload);
    append_shard(text, offloaded);
    return g_string_free(text, FALSE);
}
