#include "collect/cupti.h"

#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

G_DEFINE_QUARK(pstar_cupti_error, cupti_error)

/* Checks that the last field that we read lies at the same place in both structs, so that one
 * reading works for both. */
#define SAME_UP_TO(newer, older, field)                              \
    _Static_assert(offsetof(newer, field) == offsetof(older, field), \
                   #older " is not the beginning of " #newer)

SAME_UP_TO(CUpti_ActivityKernel10, CUpti_ActivityKernel9, localMemoryTotal_v2);
SAME_UP_TO(CUpti_ActivityKernel10, CUpti_ActivityKernel9, graphNodeId);
SAME_UP_TO(CUpti_ActivityMemcpy6, CUpti_ActivityMemcpy5, graphNodeId);
SAME_UP_TO(CUpti_ActivityMemory4, CUpti_ActivityMemory3, memoryPoolConfig.utilizedSize);
SAME_UP_TO(CUpti_ActivityMemoryPool3, CUpti_ActivityMemoryPool2, utilizedSize);
SAME_UP_TO(CUpti_ActivitySynchronization2, CUpti_ActivitySynchronization, cudaEventId);
SAME_UP_TO(CUpti_ActivityOverhead3, CUpti_ActivityOverhead2, correlationId);

/* From version to version records grow at the end. */
enum { MOST_VERSIONS = 5 };

static const struct {
    CUpti_ActivityKind kind;
    const char *name;
    size_t bytes[MOST_VERSIONS]; /* from CUDA 12.0 to 13.5 */
} expected[] = {
    {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
     "kernels",
     {sizeof(CUpti_ActivityKernel9), sizeof(CUpti_ActivityKernel10),
      /* CUpti_ActivityKernel11 to 13 add priority, execution model and the graph of origin */
      224, 232, 248}},
    {CUPTI_ACTIVITY_KIND_MEMCPY,
     "copies",
     {sizeof(CUpti_ActivityMemcpy5), sizeof(CUpti_ActivityMemcpy6), 112 /* adds the graph */}},
    {CUPTI_ACTIVITY_KIND_MEMCPY2, "copies between devices", {sizeof(CUpti_ActivityMemcpyPtoP4)}},
    {CUPTI_ACTIVITY_KIND_MEMSET,
     "memsets",
     {sizeof(CUpti_ActivityMemset4), 104 /* adds the graph */}},
    {CUPTI_ACTIVITY_KIND_MEMORY2,
     "allocations",
     {sizeof(CUpti_ActivityMemory3), sizeof(CUpti_ActivityMemory4)}},
    {CUPTI_ACTIVITY_KIND_MEMORY_POOL,
     "memory pools",
     {sizeof(CUpti_ActivityMemoryPool2), sizeof(CUpti_ActivityMemoryPool3)}},
    {CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
     "synchronisations",
     {sizeof(CUpti_ActivitySynchronization), sizeof(CUpti_ActivitySynchronization2)}},
    {CUPTI_ACTIVITY_KIND_RUNTIME, "runtime calls", {sizeof(CUpti_ActivityAPI)}},
    {CUPTI_ACTIVITY_KIND_DRIVER, "driver calls", {sizeof(CUpti_ActivityAPI)}},
    {CUPTI_ACTIVITY_KIND_OVERHEAD,
     "overheads",
     {sizeof(CUpti_ActivityOverhead2), sizeof(CUpti_ActivityOverhead3)}},
    {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
     "external correlations",
     {sizeof(CUpti_ActivityExternalCorrelation)}},
};

/* Measures the distance of two records in a buffer that has the kind wherever a record may begin.
 */
static CUptiResult measure(cupti_next_record next, CUpti_ActivityKind kind, size_t *bytes)
{
    _Alignas(8) uint8_t buffer[1024] = {0};
    CUpti_Activity *record = NULL;
    for (size_t at = 0; at < sizeof buffer; at += 8)
        *(CUpti_ActivityKind *)(void *)(buffer + at) = kind;
    CUptiResult result = next(buffer, sizeof buffer, &record);
    if (result == CUPTI_SUCCESS)
        result = next(buffer, sizeof buffer, &record);
    *bytes = result == CUPTI_SUCCESS ? (size_t)((uint8_t *)record - buffer) : 0;
    return result;
}

bool cupti_sizes_measure(cupti_next_record next, size_t *bytes, GError **error)
{
    memset(bytes, 0, CUPTI_ACTIVITY_KIND_COUNT * sizeof *bytes);
    for (size_t i = 0; i < G_N_ELEMENTS(expected); i++) {
        size_t measured;
        CUptiResult result = measure(next, expected[i].kind, &measured);
        bool known = false;
        for (int version = 0; version < MOST_VERSIONS; version++)
            known = known || (measured > 0 && measured == expected[i].bytes[version]);
        if (result != CUPTI_SUCCESS)
            g_set_error(error, CUPTI_ERROR, CUPTI_ERROR_CALL,
                        "libcupti does not walk through records of %s (CUPTI error %d)",
                        expected[i].name, (int)result);
        else if (!known)
            g_set_error(error, CUPTI_ERROR, CUPTI_ERROR_RECORDS,
                        "libcupti's records of %s have %zu bytes, which is of no version that this "
                        "collector can read",
                        expected[i].name, measured);
        if (!known)
            return false;
        bytes[expected[i].kind] = measured;
    }
    return true;
}

/* Opens the first library found. A loaded one is preferred, because two copies in one process
 * disturb each other. Stub libraries lie in folders that are not searched. */
static void *find_library(void)
{
    static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
    static const char *const paths[] = {"/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
                                        "/usr/local/cuda/lib64/libcupti.so"};
    void *library = NULL;
    for (size_t i = 0; !library && i < G_N_ELEMENTS(names); i++)
        library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    for (size_t i = 0; !library && i < G_N_ELEMENTS(names); i++)
        library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
    for (size_t i = 0; !library && i < G_N_ELEMENTS(paths); i++)
        library = dlopen(paths[i], RTLD_LAZY | RTLD_LOCAL);
    return library;
}

static bool load_functions(struct cupti_library *library, void *handle, GError **error)
{
    const char *missing = NULL;
#define LOAD(function) *(void **)&library->function = dlsym(handle, #function);
#define NEED(function)      \
    LOAD(function)          \
    if (!library->function) \
        missing = #function;
    CUPTI_LIBRARY_FUNCTIONS(NEED)
    CUPTI_LIBRARY_NEWER_FUNCTIONS(LOAD)
#undef NEED
#undef LOAD
    if (missing)
        g_set_error(error, CUPTI_ERROR, CUPTI_ERROR_LIBRARY, "libcupti does not export %s",
                    missing);
    return missing == NULL;
}

bool cupti_library_load(struct cupti_library *library, GError **error)
{
    void *handle = find_library();
    if (!handle) {
        g_set_error_literal(error, CUPTI_ERROR, CUPTI_ERROR_LIBRARY,
                            "cannot find libcupti.so: install CUDA's toolkit or the Python package "
                            "nvidia-cuda-cupti, and add its directory to LD_LIBRARY_PATH");
        return false;
    }
    return load_functions(library, handle, error) &&
           cupti_sizes_measure(library->cuptiActivityGetNextRecord, library->record_bytes, error);
}

bool cupti_library_good(const struct cupti_library *library, CUptiResult result, const char *call,
                        GError **error)
{
    if (result == CUPTI_SUCCESS)
        return true;
    const char *name = NULL;
    if (library->cuptiGetResultString(result, &name) != CUPTI_SUCCESS || !name)
        name = "an unknown error";
    g_set_error(error, CUPTI_ERROR, CUPTI_ERROR_CALL, "%s: %s (CUPTI error %d)", call, name,
                (int)result);
    return false;
}

static const char *const beginnings[] = {
    "cudaLaunch",  "__cudaLaunch",    "cudaGraphLaunch", "cudaMemcpy",
    "cudaMemset",  "cudaMalloc",      "cudaFree",        "cudaHost",
    "cudaMemPool", "cudaMemPrefetch", "cudaStreamWait",  "cudaGraphInstantiate",
};

static bool is_chosen(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(beginnings); i++)
        if (g_str_has_prefix(name, beginnings[i]))
            return true;
    return strstr(name, "Synchronize") != NULL;
}

static CUpti_CallbackDomain domain_of(enum call_class api)
{
    return api == CALL_DRIVER ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API;
}

const char *api_calls_name(const struct cupti_library *library, enum call_class api,
                           uint32_t callback)
{
    const char *name = NULL;
    CUptiResult result = library->cuptiGetCallbackName(domain_of(api), callback, &name);
    return result == CUPTI_SUCCESS ? name : NULL;
}

static bool record_kinds(const struct cupti_library *library, bool on, GError **error)
{
    static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_RUNTIME,
                                               CUPTI_ACTIVITY_KIND_DRIVER};
    bool ok = true;
    for (size_t i = 0; ok && i < G_N_ELEMENTS(kinds); i++)
        ok = cupti_library_good(library,
                                on ? library->cuptiActivityEnable(kinds[i])
                                   : library->cuptiActivityDisable(kinds[i]),
                                "turning records of calls on or off", error);
    return ok;
}

/* CUPTI of CUDA 13.0 records nothing of calls that are turned on one by one behind the start of
 * CUDA, and no call of the driver when others of the driver are turned off. It does leave out calls
 * of the runtime that are turned off behind their kind (measured on an H200). */
bool api_calls_record(const struct cupti_library *library, bool all, bool on, GError **error)
{
    bool ok = record_kinds(library, on, error);
    const char *name;
    if (all || !on || !ok || !library->cuptiActivityEnableRuntimeApi)
        return ok;
    for (uint32_t i = 1; i < API_CALLS && (name = api_calls_name(library, CALL_RUNTIME, i)); i++)
        if (!is_chosen(name))
            library->cuptiActivityEnableRuntimeApi(i, 0); /* if it fails, there are more records */
    return true;
}

static enum api_role role_of(const char *name)
{
    static const char *const launches[] = {"cuLaunch", "cudaLaunch", "__cudaLaunch",
                                           "cuGraphLaunch", "cudaGraphLaunch"};
    static const char *const waits[] = {"cuCtxSynchronize",      "cuStreamSynchronize",
                                        "cuEventSynchronize",    "cudaDeviceSynchronize",
                                        "cudaStreamSynchronize", "cudaEventSynchronize",
                                        "cuMemcpyDtoH_v2",       "cudaMemcpy_v"};
    for (size_t i = 0; i < G_N_ELEMENTS(launches); i++)
        if (g_str_has_prefix(name, launches[i]) && !strstr(name, "HostFunc"))
            return API_LAUNCH;
    for (size_t i = 0; i < G_N_ELEMENTS(waits); i++)
        if (g_str_has_prefix(name, waits[i]))
            return API_WAIT;
    return API_OTHER;
}

void api_calls_find_roles(const struct cupti_library *library, enum call_class api, uint8_t *roles)
{
    memset(roles, API_OTHER, API_CALLS);
    for (uint32_t callback = 1; callback < API_CALLS; callback++) {
        const char *name = api_calls_name(library, api, callback);
        if (!name)
            break;
        roles[callback] = (uint8_t)role_of(name);
    }
}

bool api_calls_watch(const struct cupti_library *library, CUpti_SubscriberHandle subscriber,
                     enum call_class api, const uint8_t *roles, bool on, GError **error)
{
    bool ok = true;
    for (uint32_t callback = 1; ok && callback < API_CALLS; callback++)
        if (roles[callback] != API_OTHER)
            ok = cupti_library_good(
                library, library->cuptiEnableCallback(on, subscriber, domain_of(api), callback),
                "cuptiEnableCallback", error);
    return ok;
}

enum { BUFFER_BYTES = 4 << 20, MOST_BUFFERS = 256, MANY = 8 };

static struct {
    GMutex lock;
    GQueue full;   /* struct full_buffer */
    guint buffers; /* held by CUPTI or waiting */
    void (*many)(void *data);
    void *data;
} queue = {.full = G_QUEUE_INIT};

void buffer_queue_set_up(void (*many)(void *data), void *data)
{
    queue.many = many;
    queue.data = data;
}

void CUPTIAPI buffer_queue_request(uint8_t **buffer, size_t *bytes, size_t *most_records)
{
    g_mutex_lock(&queue.lock);
    bool room = queue.buffers < MOST_BUFFERS;
    *buffer = room ? aligned_alloc(8, BUFFER_BYTES) : NULL;
    queue.buffers += *buffer != NULL;
    g_mutex_unlock(&queue.lock);
    *bytes = !*buffer ? 0 : BUFFER_BYTES;
    *most_records = 0; /* no limit */
}

void CUPTIAPI buffer_queue_complete(CUcontext context, uint32_t stream, uint8_t *buffer,
                                    size_t bytes, size_t valid_bytes)
{
    (void)context;
    (void)stream;
    (void)bytes;
    struct full_buffer *full = g_new(struct full_buffer, 1);
    *full = (struct full_buffer){buffer, valid_bytes};
    g_mutex_lock(&queue.lock);
    g_queue_push_tail(&queue.full, full);
    guint waiting = queue.full.length;
    g_mutex_unlock(&queue.lock);
    if (waiting >= MANY)
        queue.many(queue.data);
}

bool buffer_queue_take(struct full_buffer *buffer)
{
    g_mutex_lock(&queue.lock);
    struct full_buffer *full = g_queue_pop_head(&queue.full);
    g_mutex_unlock(&queue.lock);
    if (full)
        *buffer = *full;
    g_free(full);
    return full != NULL;
}

void buffer_queue_release(const struct full_buffer *buffer)
{
    free(buffer->bytes);
    g_mutex_lock(&queue.lock);
    queue.buffers--;
    g_mutex_unlock(&queue.lock);
}
