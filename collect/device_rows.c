#include "collect/device_log.h"

#include <dlfcn.h>
#include <glib.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef char *(*demangle_function)(const char *name, char *buffer, size_t *length, int *status);

/* Finds the demangler by name, so that a program without a C++ runtime does not get one. Returns
 * NULL without it. */
static demangle_function find_demangle(void)
{
    static gsize looked = 0;
    static demangle_function function = NULL;
    if (g_once_init_enter(&looked)) {
        void *library = dlopen("libstdc++.so.6", RTLD_LAZY | RTLD_LOCAL);
        if (library)
            *(void **)&function = dlsym(library, "__cxa_demangle");
        g_once_init_leave(&looked, 1);
    }
    return function;
}

char *kernel_name_demangle(const char *name)
{
    demangle_function demangle = strncmp(name, "_Z", 2) == 0 ? find_demangle() : NULL;
    int status = 0;
    char *text = !demangle ? NULL : demangle(name, NULL, NULL, &status);
    char *copy = g_strdup(!text ? name : text);
    free(text);
    return copy;
}

/* Returns the position behind the bracket that closes the one at `text`. */
static const char *skip_brackets(const char *text)
{
    int depth = 0;
    do {
        if (*text == '<' || *text == '(')
            depth++;
        else if (*text == '>' || *text == ')')
            depth--;
        text++;
    } while (depth > 0 && *text != '\0');
    return text;
}

char *kernel_name_short(const char *demangled)
{
    const char *begin = demangled, *end = NULL, *c = demangled;
    while (*c != '\0') {
        bool scope = strncmp(c, "::", 2) == 0;
        if (scope || *c == ' ') { /* behind a namespace or the return type */
            c += scope ? 2 : 1;
            begin = c;
            end = NULL;
        } else if (*c == '<') {
            end = !end ? c : end;
            c = skip_brackets(c);
        } else if (*c == '(' && c > begin) { /* parameters */
            end = !end ? c : end;
            break;
        } else { /* part of a name, such as "(anonymous namespace)" */
            c = *c == '(' ? skip_brackets(c) : c + 1;
        }
    }
    if (!end)
        end = c;
    return end > begin ? g_strndup(begin, (gsize)(end - begin)) : g_strdup(demangled);
}

struct kernel_strings {
    uint32_t mangled, demangled, short_name;
};

#define NEW_ARRAY(record) g_array_new(FALSE, FALSE, sizeof(record))

void device_rows_set_up(struct device_rows *rows)
{
    rows->kernel_names = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, g_free);
    rows->devices = g_hash_table_new(NULL, NULL);
    rows->kernels = NEW_ARRAY(struct kernel_record);
    rows->launches = NEW_ARRAY(struct launch_record);
    rows->copies = NEW_ARRAY(struct copy_record);
    rows->sets = NEW_ARRAY(struct set_record);
    rows->syncs = NEW_ARRAY(struct sync_record);
    rows->calls = NEW_ARRAY(struct call_record);
    rows->overheads = NEW_ARRAY(struct overhead_record);
    rows->memory = NEW_ARRAY(struct memory_record);
    rows->pools = NEW_ARRAY(struct pool_record);
    rows->correlations = NEW_ARRAY(struct correlation_record);
}

void device_rows_tear_down(struct device_rows *rows)
{
    GArray *arrays[] = {rows->kernels,   rows->launches,    rows->copies, rows->sets,
                        rows->syncs,     rows->calls,       rows->memory, rows->pools,
                        rows->overheads, rows->correlations};
    for (size_t i = 0; i < G_N_ELEMENTS(arrays); i++)
        g_array_unref(arrays[i]);
    g_hash_table_unref(rows->kernel_names);
    g_hash_table_unref(rows->devices);
}

static struct kernel_strings kernel_strings(struct device_rows *rows, const char *mangled)
{
    const struct kernel_strings *known = g_hash_table_lookup(rows->kernel_names, mangled);
    if (known)
        return *known;
    g_autofree char *demangled = kernel_name_demangle(mangled);
    g_autofree char *short_name = kernel_name_short(demangled);
    struct kernel_strings strings = {
        .mangled = recording_string(rows->recording, mangled)->id,
        .demangled = recording_string(rows->recording, demangled)->id,
        .short_name = recording_string(rows->recording, short_name)->id,
    };
    g_hash_table_insert(rows->kernel_names, g_strdup(mangled), g_memdup2(&strings, sizeof strings));
    return strings;
}

static uint32_t memory_kind(uint32_t cupti)
{
    static const uint32_t kinds[] = {
        [CUPTI_ACTIVITY_MEMORY_KIND_UNKNOWN] = MEMORY_UNKNOWN,
        [CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE] = MEMORY_PAGEABLE,
        [CUPTI_ACTIVITY_MEMORY_KIND_PINNED] = MEMORY_PINNED,
        [CUPTI_ACTIVITY_MEMORY_KIND_DEVICE] = MEMORY_DEVICE,
        [CUPTI_ACTIVITY_MEMORY_KIND_ARRAY] = MEMORY_ARRAY,
        [CUPTI_ACTIVITY_MEMORY_KIND_MANAGED] = MEMORY_MANAGED,
        [CUPTI_ACTIVITY_MEMORY_KIND_DEVICE_STATIC] = MEMORY_DEVICE_STATIC,
        [CUPTI_ACTIVITY_MEMORY_KIND_MANAGED_STATIC] = MEMORY_MANAGED_STATIC,
    };
    return cupti < G_N_ELEMENTS(kinds) ? kinds[cupti] : MEMORY_UNKNOWN;
}

/* Returns 0 for all ones, which mark fields that do not apply. */
static uint32_t valid(uint32_t id)
{
    return id == UINT32_MAX ? 0 : id;
}

/* Returns whether a record's times are usable. Counts unfinished and untimed records. */
static bool has_times(struct device_rows *rows, uint64_t start_ns, uint64_t end_ns)
{
    rows->untimed += start_ns == 0 || (end_ns != 0 && end_ns < start_ns);
    rows->unfinished += start_ns != 0 && end_ns == 0;
    return start_ns != 0 && end_ns >= start_ns;
}

static void note_device(struct device_rows *rows, uint32_t context, uint32_t device)
{
    g_hash_table_insert(rows->devices, GUINT_TO_POINTER(context), GUINT_TO_POINTER(device));
}

/* Reads only fields that older libraries have, too (cupti_sizes_measure). */
static void add_kernel(struct device_rows *rows, const CUpti_ActivityKernel10 *kernel)
{
    if (!has_times(rows, kernel->start, kernel->end))
        return;
    struct kernel_strings strings = kernel_strings(rows, !kernel->name ? "" : kernel->name);
    const struct kernel_record record = {
        .start_ns = kernel->start,
        .end_ns = kernel->end,
        .device = kernel->deviceId,
        .context = kernel->contextId,
        .stream = kernel->streamId,
        .process = rows->process,
        .correlation = kernel->correlationId,
        .name = strings.demangled,
        .short_name = strings.short_name,
    };
    const struct launch_record launch = {
        .grid_id = (uint64_t)kernel->gridId,
        .graph_node = kernel->graphNodeId,
        .local_bytes = kernel->localMemoryTotal_v2,
        .mangled_name = strings.mangled,
        .grid = {(uint32_t)kernel->gridX, (uint32_t)kernel->gridY, (uint32_t)kernel->gridZ},
        .block = {(uint32_t)kernel->blockX, (uint32_t)kernel->blockY, (uint32_t)kernel->blockZ},
        .registers = kernel->registersPerThread,
        .static_shared_bytes = (uint32_t)kernel->staticSharedMemory,
        .dynamic_shared_bytes = (uint32_t)kernel->dynamicSharedMemory,
        .thread_local_bytes = kernel->localMemoryPerThread,
    };
    note_device(rows, kernel->contextId, kernel->deviceId);
    g_array_append_val(rows->kernels, record);
    g_array_append_val(rows->launches, launch);
}

static void add_copy(struct device_rows *rows, const CUpti_ActivityMemcpy6 *copy)
{
    if (!has_times(rows, copy->start, copy->end))
        return;
    const struct copy_record record = {
        .start_ns = copy->start,
        .end_ns = copy->end,
        .bytes = copy->bytes,
        .graph_node = copy->graphNodeId,
        .device = copy->deviceId,
        .context = copy->contextId,
        .stream = copy->streamId,
        .process = rows->process,
        .correlation = copy->correlationId,
        .kind = copy->copyKind <= COPY_PEER_TO_PEER ? copy->copyKind : COPY_UNKNOWN,
        .source = memory_kind(copy->srcKind),
        .destination = memory_kind(copy->dstKind),
    };
    note_device(rows, copy->contextId, copy->deviceId);
    g_array_append_val(rows->copies, record);
}

static void add_peer_copy(struct device_rows *rows, const CUpti_ActivityMemcpyPtoP4 *copy)
{
    if (!has_times(rows, copy->start, copy->end))
        return;
    const struct copy_record record = {
        .start_ns = copy->start,
        .end_ns = copy->end,
        .bytes = copy->bytes,
        .graph_node = copy->graphNodeId,
        .device = copy->deviceId,
        .context = copy->contextId,
        .stream = copy->streamId,
        .process = rows->process,
        .correlation = copy->correlationId,
        .kind = COPY_PEER_TO_PEER,
        .source = memory_kind(copy->srcKind),
        .destination = memory_kind(copy->dstKind),
        .source_device = copy->srcDeviceId,
        .target_device = copy->dstDeviceId,
        .source_context = copy->srcContextId,
        .target_context = copy->dstContextId,
    };
    note_device(rows, copy->contextId, copy->deviceId);
    g_array_append_val(rows->copies, record);
}

static void add_set(struct device_rows *rows, const CUpti_ActivityMemset4 *set)
{
    if (!has_times(rows, set->start, set->end))
        return;
    const struct set_record record = {
        .start_ns = set->start,
        .end_ns = set->end,
        .bytes = set->bytes,
        .graph_node = set->graphNodeId,
        .device = set->deviceId,
        .context = set->contextId,
        .stream = set->streamId,
        .process = rows->process,
        .correlation = set->correlationId,
        .value = set->value,
        .memory = memory_kind(set->memoryKind),
    };
    note_device(rows, set->contextId, set->deviceId);
    g_array_append_val(rows->sets, record);
}

static void add_sync(struct device_rows *rows, const CUpti_ActivitySynchronization2 *sync)
{
    if (!has_times(rows, sync->start, sync->end))
        return;
    const struct sync_record record = {
        .start_ns = sync->start,
        .end_ns = sync->end,
        .context = valid(sync->contextId),
        .stream = valid(sync->streamId),
        .process = rows->process,
        .correlation = sync->correlationId,
        .type = (uint32_t)sync->type < SYNC_TYPES ? (uint32_t)sync->type : SYNC_UNKNOWN,
        .event = valid(sync->cudaEventId),
    };
    rows->last_sync_ns = MAX(rows->last_sync_ns, sync->end);
    g_array_append_val(rows->syncs, record);
}

static void add_call(struct device_rows *rows, const CUpti_ActivityAPI *call, enum call_class api)
{
    if (!has_times(rows, call->start, call->end))
        return;
    const char *name = rows->call_name(api, call->cbid);
    g_autofree char *number = name != NULL
                                  ? NULL
                                  : g_strdup_printf("%s call %u",
                                                    api == CALL_DRIVER ? "driver" : "runtime",
                                                    (unsigned)call->cbid);
    const struct call_record record = {
        .start_ns = call->start,
        .end_ns = call->end,
        .process = call->processId,
        .thread = call->threadId,
        .correlation = call->correlationId,
        .call_class = api,
        .name = recording_string(rows->recording, name ? name : number)->id,
        .result = call->returnValue,
    };
    g_array_append_val(rows->calls, record);
}

/* All kinds but the first two are multiples of 2^16. */
static const char *overhead_name(uint32_t kind)
{
    static const char *const names[] = {NULL,
                                        "buffer flush",
                                        "instrumentation",
                                        "resources",
                                        "module loading",
                                        "lazy function loading",
                                        "command buffer full",
                                        "activity buffer request",
                                        "set-up for managed memory"};
    if (kind == CUPTI_ACTIVITY_OVERHEAD_DRIVER_COMPILER)
        return "compiler of the driver";
    uint32_t place = kind >> 16;
    return place > 0 && place < G_N_ELEMENTS(names) ? names[place] : "other overhead";
}

static void add_overhead(struct device_rows *rows, const CUpti_ActivityOverhead3 *overhead)
{
    bool of_thread = overhead->objectKind == CUPTI_ACTIVITY_OBJECT_THREAD;
    if (!has_times(rows, overhead->start, overhead->end))
        return;
    const struct overhead_record record = {
        .start_ns = overhead->start,
        .end_ns = overhead->end,
        .process = rows->process,
        .thread = of_thread ? overhead->objectId.pt.threadId : 0,
        .correlation = overhead->correlationId,
        .type = (uint32_t)overhead->overheadKind,
        .name = recording_string(rows->recording, overhead_name(overhead->overheadKind))->id,
    };
    g_array_append_val(rows->overheads, record);
}

static void add_memory(struct device_rows *rows, const CUpti_ActivityMemory4 *memory)
{
    if (memory->timestamp == 0) {
        rows->untimed++;
        return;
    }
    bool local = memory->memoryPoolConfig.memoryPoolType == CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
    const struct memory_record record = {
        .start_ns = memory->timestamp,
        .address = memory->address,
        .bytes = memory->bytes,
        .caller = memory->PC,
        .pool_address = local ? memory->memoryPoolConfig.address : 0,
        .pool_bytes = local ? memory->memoryPoolConfig.pool.size : 0,
        .pool_used_bytes = local ? memory->memoryPoolConfig.utilizedSize : 0,
        .pool_release_bytes = local ? memory->memoryPoolConfig.releaseThreshold : 0,
        .device = valid(memory->deviceId),
        .context = valid(memory->contextId),
        .stream = valid(memory->streamId),
        .process = rows->process,
        .correlation = memory->correlationId,
        .kind = memory_kind(memory->memoryKind),
        .operation = memory->memoryOperationType == CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE
                         ? MEMORY_FREE
                         : MEMORY_ALLOCATE,
    };
    g_array_append_val(rows->memory, record);
}

static void add_pool(struct device_rows *rows, const CUpti_ActivityMemoryPool3 *pool)
{
    static const uint32_t operations[] = {
        [CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED] = POOL_CREATE,
        [CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_DESTROYED] = POOL_DESTROY,
        [CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED] = POOL_TRIM,
    };
    bool imported = pool->memoryPoolType == CUPTI_ACTIVITY_MEMORY_POOL_TYPE_IMPORTED;
    if (pool->timestamp == 0 || pool->memoryPoolOperationType == 0 ||
        pool->memoryPoolOperationType >= G_N_ELEMENTS(operations)) {
        rows->untimed += pool->timestamp == 0;
        return;
    }
    const struct pool_record record = {
        .start_ns = pool->timestamp,
        .address = pool->address,
        .kept_bytes = pool->minBytesToKeep,
        .release_bytes = imported ? 0 : pool->releaseThreshold,
        .bytes = imported ? 0 : pool->size,
        .used_bytes = imported ? 0 : pool->utilizedSize,
        .device = valid(pool->deviceId),
        .process = rows->process,
        .correlation = pool->correlationId,
        .operation = operations[pool->memoryPoolOperationType],
        .type = imported ? POOL_IMPORTED : POOL_LOCAL,
    };
    g_array_append_val(rows->pools, record);
}

static void add_correlation(struct device_rows *rows, const CUpti_ActivityExternalCorrelation *pair)
{
    const struct correlation_record record = {
        .range = pair->externalId,
        .correlation = pair->correlationId,
        .kind = (uint32_t)pair->externalKind,
    };
    g_array_append_val(rows->correlations, record);
}

void device_rows_add(struct device_rows *rows, const CUpti_Activity *record)
{
    const void *any = record;
    switch (record->kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
        add_kernel(rows, any);
        break;
    case CUPTI_ACTIVITY_KIND_MEMCPY:
        add_copy(rows, any);
        break;
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
        add_peer_copy(rows, any);
        break;
    case CUPTI_ACTIVITY_KIND_MEMSET:
        add_set(rows, any);
        break;
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
        add_sync(rows, any);
        break;
    case CUPTI_ACTIVITY_KIND_RUNTIME:
        add_call(rows, any, CALL_RUNTIME);
        break;
    case CUPTI_ACTIVITY_KIND_DRIVER:
        add_call(rows, any, CALL_DRIVER);
        break;
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
        add_overhead(rows, any);
        break;
    case CUPTI_ACTIVITY_KIND_MEMORY2:
        add_memory(rows, any);
        break;
    case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
        add_pool(rows, any);
        break;
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
        add_correlation(rows, any);
        break;
    default: /* recorded together with a kind that was asked for */
        break;
    }
}
