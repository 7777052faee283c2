/* libcupti.so.13, with the behaviour that the collector relies on. Records are written when a call
 * ends. A thread of the library hands a buffer back, and only when all its records are complete,
 * unless that is forced. */
#include "tests/collect/cupti_buffer.h"
#include "tests/collect/fake/fake.h"

#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_result.h>
#include <cupti_version.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_CALLBACKS = 700, MOST_OPEN = 64, FEW = 5 };

union any_record {
    CUpti_Activity any;
    CUpti_ActivityKernel10 kernel;
    CUpti_ActivityMemcpy6 copy;
    CUpti_ActivityMemset4 set;
    CUpti_ActivityMemory4 memory;
    CUpti_ActivityAPI call;
    CUpti_ActivitySynchronization2 sync;
    CUpti_ActivityExternalCorrelation correlation;
};

struct written {
    union any_record record;
    uint64_t complete_ns; /* until then it has no end */
};

static GMutex lock;     /* guards the fields below */
static GArray *records; /* struct written, not handed back yet */
static bool enabled[CUPTI_ACTIVITY_KIND_COUNT], some_left_out; /* calls of the runtime */
static bool callback_enabled[CUPTI_CB_DOMAIN_SIZE][MOST_CALLBACKS];
static bool forgotten; /* the program ends, and the profiler has ended before it */
static size_t dropped;
static guint count;
static CUpti_BuffersCallbackRequestFunc request;
static CUpti_BuffersCallbackCompleteFunc complete;
static CUpti_CallbackFunc subscriber;
static void *subscriber_data;
static _Thread_local struct {
    uint64_t ids[MOST_OPEN];
    int depth;
} external;

static void write_record(const union any_record *record, uint64_t complete_ns)
{
    struct written written = {*record, complete_ns};
    if (fake_is("drop") && ++count % 7 == 0)
        dropped++;
    else if (!forgotten)
        g_array_append_val(records, written);
}

static void forget(void)
{
    g_mutex_lock(&lock);
    forgotten = true;
    g_array_set_size(records, 0);
    g_mutex_unlock(&lock);
}

/* A real profiler's handler of the exit is registered by the time when there is a context. */
static void on_context(CUcontext context, bool created)
{
    if (created && fake_is("forgetful"))
        atexit(forget);
    CUpti_CallbackId id = created ? CUPTI_CBID_RESOURCE_CONTEXT_CREATED
                                  : CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING;
    const CUpti_ResourceData data = {.context = context};
    if (subscriber && callback_enabled[CUPTI_CB_DOMAIN_RESOURCE][id])
        subscriber(subscriber_data, CUPTI_CB_DOMAIN_RESOURCE, id, &data);
}

static void call_back(CUpti_ApiCallbackSite site, uint32_t callback, uint32_t correlation,
                      const char *symbol)
{
    const CUpti_CallbackData data = {
        .callbackSite = site, .symbolName = symbol, .correlationId = correlation};
    if (subscriber && callback_enabled[CUPTI_CB_DOMAIN_DRIVER_API][callback])
        subscriber(subscriber_data, CUPTI_CB_DOMAIN_DRIVER_API, callback, &data);
}

static void on_enter(uint32_t callback, uint32_t correlation, const char *symbol)
{
    call_back(CUPTI_API_ENTER, callback, correlation, symbol);
}

static void on_leave(uint32_t callback, uint32_t correlation, const char *symbol,
                     uint64_t entered_ns)
{
    g_mutex_lock(&lock);
    if (enabled[CUPTI_ACTIVITY_KIND_DRIVER]) {
        union any_record record = {.call = {.kind = CUPTI_ACTIVITY_KIND_DRIVER,
                                            .cbid = callback,
                                            .start = entered_ns,
                                            .end = fake_now(),
                                            .processId = (uint32_t)getpid(),
                                            .threadId = (uint32_t)gettid(),
                                            .correlationId = correlation}};
        write_record(&record, 0);
        bool told = !fake_is("silent") && (!some_left_out || !fake_is("silent-if-chosen"));
        if (told && external.depth > 0 && enabled[CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION]) {
            union any_record pair = {
                .correlation = {.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                .externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1,
                                .externalId = external.ids[external.depth - 1],
                                .correlationId = correlation}};
            write_record(&pair, 0);
        }
    }
    g_mutex_unlock(&lock);
    call_back(CUPTI_API_EXIT, callback, correlation, symbol);
}

static union any_record make_record(const struct fake_event *event)
{
    union any_record record;
    memset(&record, 0, sizeof record);
    switch (event->kind) {
    case FAKE_KERNEL:
        record.kernel = (CUpti_ActivityKernel10){.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                                 .start = event->start_ns,
                                                 .end = event->end_ns,
                                                 .contextId = 1,
                                                 .streamId = event->stream,
                                                 .gridX = 1,
                                                 .gridY = 1,
                                                 .gridZ = 1,
                                                 .blockX = 32,
                                                 .blockY = 1,
                                                 .blockZ = 1,
                                                 .correlationId = event->correlation,
                                                 .name = event->name};
        break;
    case FAKE_COPY:
        record.copy = (CUpti_ActivityMemcpy6){.kind = CUPTI_ACTIVITY_KIND_MEMCPY,
                                              .copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_HTOD,
                                              .srcKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED,
                                              .dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
                                              .bytes = event->bytes,
                                              .start = event->start_ns,
                                              .end = event->end_ns,
                                              .contextId = 1,
                                              .streamId = event->stream,
                                              .correlationId = event->correlation};
        break;
    case FAKE_SET:
        record.set = (CUpti_ActivityMemset4){.kind = CUPTI_ACTIVITY_KIND_MEMSET,
                                             .bytes = event->bytes,
                                             .start = event->start_ns,
                                             .end = event->end_ns,
                                             .contextId = 1,
                                             .streamId = event->stream,
                                             .correlationId = event->correlation,
                                             .memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE};
        break;
    case FAKE_SYNC:
        record.sync = (CUpti_ActivitySynchronization2){
            .kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
            .type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_CONTEXT_SYNCHRONIZE,
            .start = event->start_ns,
            .end = event->end_ns,
            .contextId = 1,
            .streamId = UINT32_MAX,
            .cudaEventId = UINT32_MAX,
            .correlationId = event->correlation};
        break;
    default:
        record.memory = (CUpti_ActivityMemory4){
            .kind = CUPTI_ACTIVITY_KIND_MEMORY2,
            .memoryOperationType = event->kind == FAKE_ALLOCATION
                                       ? CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION
                                       : CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE,
            .memoryKind = event->pinned ? CUPTI_ACTIVITY_MEMORY_KIND_PINNED
                                        : CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
            .address = event->address,
            .bytes = event->bytes,
            .timestamp = event->start_ns,
            .processId = (uint32_t)getpid(),
            .contextId = 1,
            .correlationId = event->correlation};
    }
    return record;
}

static void on_event(const struct fake_event *event)
{
    union any_record record = make_record(event);
    g_mutex_lock(&lock);
    if (enabled[record.any.kind])
        write_record(&record, event->end_ns);
    g_mutex_unlock(&lock);
}

static const struct fake_tool tool = {on_context, on_enter, on_leave, on_event};

/* Fills a buffer with the first records; running ones get no end. */
static guint fill(GArray *from, guint place, uint8_t *buffer, size_t bytes, size_t *valid)
{
    guint begin = place;
    *valid = 0;
    while (place < from->len && !(fake_is("mixed") && place - begin == FEW)) {
        struct written *written = &g_array_index(from, struct written, place);
        size_t needed = cupti_buffer_bytes(written->record.any.kind);
        if (*valid + needed > bytes)
            break;
        if (written->record.any.kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL &&
            written->complete_ns > fake_now())
            written->record.kernel.end = 0;
        memcpy(buffer + *valid, &written->record, needed);
        *valid += needed;
        place++;
    }
    return place;
}

/* Hands buffers back, the last one first if they are to be mixed. */
static void *hand_back(void *data)
{
    GArray *ready = data;
    struct buffer {
        uint8_t *bytes;
        size_t size, valid;
    };
    g_autoptr(GArray) buffers = g_array_new(FALSE, FALSE, sizeof(struct buffer));
    guint place = 0;
    while (place < ready->len) {
        struct buffer buffer = {0};
        size_t most = 0;
        request(&buffer.bytes, &buffer.size, &most);
        if (!buffer.bytes) {
            dropped += ready->len - place;
            break;
        }
        place = fill(ready, place, buffer.bytes, buffer.size, &buffer.valid);
        g_array_append_val(buffers, buffer);
    }
    for (guint i = 0; i < buffers->len; i++) {
        guint which = fake_is("mixed") ? buffers->len - 1 - i : i;
        const struct buffer *buffer = &g_array_index(buffers, struct buffer, which);
        complete(NULL, 0, buffer->bytes, buffer->size, buffer->valid);
    }
    return NULL;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
    GArray *ready = g_array_new(FALSE, FALSE, sizeof(struct written));
    g_mutex_lock(&lock);
    guint taken = 0;
    while (taken < records->len &&
           (flag == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED ||
            g_array_index(records, struct written, taken).complete_ns <= fake_now()))
        taken++;
    g_array_append_vals(ready, records->data, taken);
    g_array_remove_range(records, 0, taken);
    g_mutex_unlock(&lock);
    g_thread_join(g_thread_new("fake-cupti", hand_back, ready));
    g_array_unref(ready);
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record)
{
    if (fake_is("no-version"))
        return CUPTI_ERROR_UNKNOWN;
    if (fake_is("odd-records") && *record &&
        (*record)->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        *record = (CUpti_Activity *)(void *)((uint8_t *)*record + 512);
        return CUPTI_SUCCESS;
    }
    return cupti_buffer_next(buffer, valid_bytes, record);
}

CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback,
                              void *data, CUpti_SubscriberParams *params)
{
    if (fake_is("busy")) {
        g_strlcpy(params->oldSubscriberName, "CUPTI for the other tool", params->oldSubscriberSize);
        return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
    }
    void (*watch)(const struct fake_tool *) = NULL;
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    *(void **)&watch = dlsym(driver, "fake_watch");
    records = g_array_new(FALSE, FALSE, sizeof(struct written));
    subscriber = callback;
    subscriber_data = data;
    *handle = (CUpti_SubscriberHandle)(void *)&subscriber;
    watch(&tool);
    return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback, void *data)
{
    char holder[64];
    CUpti_SubscriberParams params = {.oldSubscriberName = holder,
                                     .oldSubscriberSize = sizeof holder};
    return cuptiSubscribe_v2(handle, callback, data, &params);
}

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle handle)
{
    subscriber = NULL;
    return handle ? CUPTI_SUCCESS : CUPTI_ERROR_INVALID_PARAMETER;
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle handle,
                                CUpti_CallbackDomain domain, CUpti_CallbackId id)
{
    (void)handle;
    callback_enabled[domain][id] = enable != 0;
    return CUPTI_SUCCESS;
}

static CUptiResult turn(CUpti_ActivityKind kind, bool on)
{
    if (fake_is("cannot-copy") && kind == CUPTI_ACTIVITY_KIND_MEMCPY && on)
        return CUPTI_ERROR_NOT_COMPATIBLE;
    g_mutex_lock(&lock);
    enabled[kind] = on;
    if (kind == CUPTI_ACTIVITY_KIND_RUNTIME)
        some_left_out = false;
    g_mutex_unlock(&lock);
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
    if (fake_is("takes-memory") && kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
        void (*take)(size_t) = NULL;
        *(void **)&take = dlsym(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), "fake_take");
        take(FAKE_TAKEN_BYTES);
    }
    return turn(kind, true);
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
    return turn(kind, false);
}

/* As CUPTI of CUDA 13.0, calls that are turned on one by one are not recorded. */
CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId callback, uint8_t enable)
{
    (void)callback;
    g_mutex_lock(&lock);
    some_left_out = some_left_out || !enable;
    g_mutex_unlock(&lock);
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t callback, const char **name)
{
    if (domain == CUPTI_CB_DOMAIN_RUNTIME_API && callback == 1) {
        *name = "cudaDriverGetVersion_v3020";
        return CUPTI_SUCCESS;
    }
    if (domain != CUPTI_CB_DOMAIN_DRIVER_API || callback == 0 || callback >= MOST_CALLBACKS)
        return CUPTI_ERROR_INVALID_PARAMETER;
    switch (callback) {
    case CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel:
        *name = "cuLaunchKernel";
        break;
    case CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2:
        *name = "cuMemcpyHtoDAsync_v2";
        break;
    case CUPTI_DRIVER_TRACE_CBID_cuMemsetD32Async:
        *name = "cuMemsetD32Async";
        break;
    case CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize:
        *name = "cuCtxSynchronize";
        break;
    case CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize:
        *name = "cuStreamSynchronize";
        break;
    case CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2:
        *name = "cuMemAlloc_v2";
        break;
    case CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2:
        *name = "cuMemFree_v2";
        break;
    case CUPTI_DRIVER_TRACE_CBID_cuMemAllocHost_v2:
        *name = "cuMemAllocHost_v2";
        break;
    default:
        *name = "cuSomethingElse";
    }
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc on_request,
                                           CUpti_BuffersCallbackCompleteFunc on_complete)
{
    request = on_request;
    complete = on_complete;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *number)
{
    (void)context;
    (void)stream;
    g_mutex_lock(&lock);
    *number = dropped;
    dropped = 0;
    g_mutex_unlock(&lock);
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id)
{
    (void)kind;
    g_assert(external.depth < MOST_OPEN);
    external.ids[external.depth++] = id;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t *id)
{
    (void)kind;
    if (external.depth == 0)
        return CUPTI_ERROR_QUEUE_EMPTY;
    *id = external.ids[--external.depth];
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t *timestamp)
{
    *timestamp = fake_now();
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetVersion(uint32_t *version)
{
    *version = CUPTI_API_VERSION;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
    static _Thread_local char name[32];
    snprintf(name, sizeof name, "FAKE_ERROR_%d", (int)result);
    *text = name;
    return CUPTI_SUCCESS;
}

CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type)
{
    return type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM ? CUPTI_SUCCESS
                                                        : CUPTI_ERROR_INVALID_PARAMETER;
}
