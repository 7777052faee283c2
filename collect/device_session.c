#include "collect/device_session.h"

#include "collect/cupti.h"
#include "collect/device_log.h"
#include "collect/driver.h"

#include <unistd.h>

enum { LONGEST_WAIT_US = 2000000, WAIT_STEP_US = 1000, CLOCK_READS = 5 };

/* A buffer may arrive at most this much later than one that followed it. */
static const uint64_t LATEST_BUFFER_NS = 10000000000;

enum phase { BEFORE, OPEN, CLOSED };

struct device_session {
    struct cupti_library cupti;
    struct cuda_driver driver;
    CUpti_SubscriberHandle subscriber;
    struct device_hooks hooks;
    struct recording *recording;
    struct device_log *log;
    struct own_memory *own;
    struct nvml *nvml; /* NULL if missing or not opened yet */
    bool nvml_looked;
    enum phase phase;
    struct device_clock taken_to; /* end of the last activity taken */
    bool described;               /* the devices have been written into an activity */
    bool watching, paused;
    gint pushed;                            /* atomic; ranges */
    uint64_t kernels, correlations;         /* taken since the first range was pushed */
    bool all_calls;                         /* are recorded, not only the chosen ones */
    uint8_t roles[CALL_CLASSES][API_CALLS]; /* enum api_role */
    gint newest_call;                       /* atomic; correlation of the last watched call */
    uint32_t begun_after; /* value of newest_call at the last device_session_begin */
    gint initialised; /* atomic; the driver may be asked, unlike during cuInit, which already calls
                         us */
    GMutex lock;      /* guards the fields below */
    GPtrArray *contexts; /* CUcontext, the existing ones */
};

/* cuptiGetCallbackName carries no context of ours, so there is one session per process. */
static struct device_session *the_session;

static const char *call_name(enum call_class api, uint32_t callback)
{
    return api_calls_name(&the_session->cupti, api, callback);
}

static const CUpti_ActivityKind memory_kinds[] = {CUPTI_ACTIVITY_KIND_MEMORY2,
                                                  CUPTI_ACTIVITY_KIND_MEMORY_POOL};

/* Recorded only within the window. */
static const CUpti_ActivityKind window_kinds[] = {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
                                                  CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
                                                  CUPTI_ACTIVITY_KIND_OVERHEAD,
                                                  CUPTI_ACTIVITY_KIND_MEMCPY,
                                                  CUPTI_ACTIVITY_KIND_MEMCPY2,
                                                  CUPTI_ACTIVITY_KIND_MEMSET,
                                                  CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL};

static bool enable(const struct device_session *session, const CUpti_ActivityKind *kinds,
                   size_t count, GError **error)
{
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++)
        ok = cupti_library_good(&session->cupti, session->cupti.cuptiActivityEnable(kinds[i]),
                                "cuptiActivityEnable", error);
    return ok;
}

/* Nested calls belong to the outermost API. Calls made by the hook itself are ignored. */
static _Thread_local struct {
    int depth; /* of nested calls */
    bool in_hook;
} thread;

void device_session_watch(struct device_session *session, bool on)
{
    for (int api = 0; api < CALL_CLASSES && on != session->watching; api++) {
        if (on)
            api_calls_find_roles(&session->cupti, (enum call_class)api, session->roles[api]);
        api_calls_watch(&session->cupti, session->subscriber, (enum call_class)api,
                        session->roles[api], on, NULL);
    }
    session->watching = on;
}

static void disable_window(struct device_session *session)
{
    for (size_t i = 0; i < G_N_ELEMENTS(window_kinds); i++)
        session->cupti.cuptiActivityDisable(window_kinds[i]);
    api_calls_record(&session->cupti, session->all_calls, false, NULL);
}

static void disable_all(struct device_session *session)
{
    disable_window(session);
    for (size_t i = 0; i < G_N_ELEMENTS(memory_kinds); i++)
        session->cupti.cuptiActivityDisable(memory_kinds[i]);
    device_session_watch(session, false);
    if (!thread.in_hook) /* CUPTI would wait for its own callback to end */
        session->cupti.cuptiUnsubscribe(session->subscriber);
    session->phase = CLOSED;
}

/* On error nothing is recorded any more. */
static bool enable_window(struct device_session *session, GError **error)
{
    bool ok = enable(session, window_kinds, G_N_ELEMENTS(window_kinds), error) &&
              api_calls_record(&session->cupti, session->all_calls, true, error);
    if (!ok)
        disable_all(session);
    return ok;
}

/* Reports a call at its end, when its place in the stream is known. */
static void on_call(struct device_session *session, enum call_class api, CUpti_CallbackId id,
                    const CUpti_CallbackData *call)
{
    if (thread.in_hook)
        return;
    if (call->callbackSite == CUPTI_API_ENTER) {
        thread.depth++;
        return;
    }
    g_atomic_int_set(&session->newest_call, (gint)call->correlationId);
    bool outermost = thread.depth == 1;
    thread.depth = MAX(thread.depth - 1, 0);
    if (!outermost || id >= API_CALLS)
        return;
    bool wait = session->roles[api][id] == API_WAIT;
    thread.in_hook = true;
    session->hooks.launched(session->hooks.data, wait               ? NULL
                                                 : call->symbolName ? call->symbolName
                                                                    : "graph");
    thread.in_hook = false;
}

static void CUPTIAPI on_callback(void *data, CUpti_CallbackDomain domain, CUpti_CallbackId id,
                                 const void *details)
{
    struct device_session *session = data;
    if (domain == CUPTI_CB_DOMAIN_RUNTIME_API || domain == CUPTI_CB_DOMAIN_DRIVER_API)
        on_call(session, domain == CUPTI_CB_DOMAIN_DRIVER_API ? CALL_DRIVER : CALL_RUNTIME, id,
                details);
    if (domain != CUPTI_CB_DOMAIN_RESOURCE)
        return;
    const CUpti_ResourceData *resource = details;
    bool made = id == CUPTI_CBID_RESOURCE_CONTEXT_CREATED;
    g_mutex_lock(&session->lock);
    if (made) {
        g_ptr_array_add(session->contexts, resource->context);
        g_atomic_int_set(&session->initialised, TRUE);
    } else if (id == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING) {
        g_ptr_array_remove(session->contexts, resource->context);
    }
    g_mutex_unlock(&session->lock);
    if (made)
        session->hooks.context_made(session->hooks.data);
}

/* Subscribes to CUPTI. Only one tool may do so at a time; the error names the other one if CUPTI
 * knows it. */
static bool subscribe(struct device_session *session, GError **error)
{
    char holder[CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN + 1] = "";
    CUpti_SubscriberParams names = {.structSize = CUpti_SubscriberParams_STRUCT_SIZE,
                                    .subscriberName = "pstar-collect",
                                    .oldSubscriberName = holder,
                                    .oldSubscriberSize = CUPTI_OLD_SUBSCRIBER_NAME_MIN_LEN};
    CUptiResult result =
        session->cupti.cuptiSubscribe_v2 != NULL
            ? session->cupti.cuptiSubscribe_v2(&session->subscriber, on_callback, session, &names)
            : session->cupti.cuptiSubscribe(&session->subscriber, on_callback, session);
    if (result != CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED)
        return cupti_library_good(&session->cupti, result, "cuptiSubscribe", error);
    g_set_error(error, CUPTI_ERROR, CUPTI_ERROR_CALL,
                "%s uses CUPTI in this program, and only one tool at a time can (CUPTI error %d)",
                *holder != '\0' ? holder : "another profiler", (int)result);
    return false;
}

static bool follow_contexts(struct device_session *session, GError **error)
{
    static const CUpti_CallbackId ids[] = {CUPTI_CBID_RESOURCE_CONTEXT_CREATED,
                                           CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING};
    bool ok = true;
    for (size_t i = 0; ok && i < G_N_ELEMENTS(ids); i++)
        ok = cupti_library_good(&session->cupti,
                                session->cupti.cuptiEnableCallback(
                                    1, session->subscriber, CUPTI_CB_DOMAIN_RESOURCE, ids[i]),
                                "cuptiEnableCallback", error);
    return ok;
}

static bool begin(struct device_session *session, GError **error)
{
    if (!subscribe(session, error))
        return false;
    /* Use the kernel's thread ids, which NVTX ranges have, too. */
    session->cupti.cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
    bool ok = cupti_library_good(&session->cupti,
                                 session->cupti.cuptiActivityRegisterCallbacks(
                                     buffer_queue_request, buffer_queue_complete),
                                 "cuptiActivityRegisterCallbacks", error) &&
              follow_contexts(session, error) &&
              enable(session, memory_kinds, G_N_ELEMENTS(memory_kinds), error);
    if (!ok)
        disable_all(session);
    return ok;
}

struct device_session *device_session_new(struct recording *recording,
                                          const struct device_hooks *hooks, GError **error)
{
    struct device_session *session = g_new0(struct device_session, 1);
    g_mutex_init(&session->lock);
    session->recording = recording;
    session->hooks = *hooks;
    session->contexts = g_ptr_array_new();
    session->own = own_memory_new();
    the_session = session;
    buffer_queue_set_up(hooks->records_wait, hooks->data);
    if (!cupti_library_load(&session->cupti, error) || !begin(session, error))
        return NULL; /* not freed, because CUPTI may know its address */
    cuda_driver_find(&session->driver);
    const struct device_log_source source = {session->cupti.cuptiActivityGetNextRecord, call_name,
                                             session->cupti.record_bytes};
    session->log = device_log_new(&source, recording, (uint32_t)getpid());
    return session;
}

void device_session_read(struct device_session *session)
{
    struct full_buffer buffer;
    while (buffer_queue_take(&buffer)) {
        device_log_add_buffer(session->log, buffer.bytes, buffer.valid_bytes);
        buffer_queue_release(&buffer);
    }
    uint64_t now = 0;
    if (session->phase == BEFORE && session->cupti.cuptiGetTimestamp(&now) == CUPTI_SUCCESS)
        device_log_forget(session->log, now - LATEST_BUFFER_NS);
}

/* Reads complete records, or with `all` every record. */
static void flush(struct device_session *session, bool all)
{
    size_t dropped = 0;
    session->cupti.cuptiActivityFlushAll(all ? CUPTI_ACTIVITY_FLAG_FLUSH_FORCED : 0);
    if (session->cupti.cuptiActivityGetNumDroppedRecords(NULL, 0, &dropped) == CUPTI_SUCCESS)
        device_log_add_dropped(session->log, dropped);
    device_session_read(session);
}

/* Reads the clocks and adds a sample, so that the time of day of every record can be computed. Of
 * several readings the quickest counts, because the thread may lose its core within one. */
static struct device_clock read_clock(struct device_session *session)
{
    struct device_clock clock = {0};
    uint64_t least_ns = UINT64_MAX;
    for (int i = 0; i < CLOCK_READS; i++) {
        uint64_t cupti_ns = 0, before = recording_now();
        session->cupti.cuptiGetTimestamp(&cupti_ns);
        uint64_t took_ns = recording_now() - before;
        if (took_ns < least_ns) {
            least_ns = took_ns;
            clock = (struct device_clock){cupti_ns, before + took_ns / 2};
        }
    }
    recording_add_sample(session->recording, clock.monotonic_ns, "cupti_ns", clock.cupti_ns);
    return clock;
}

/* Returns a copy of the current contexts. */
static GPtrArray *list_contexts(struct device_session *session)
{
    g_mutex_lock(&session->lock);
    GPtrArray *contexts = g_ptr_array_copy(session->contexts, NULL, NULL);
    g_mutex_unlock(&session->lock);
    return contexts;
}

char *device_session_gpu(const struct device_session *session)
{
    uint32_t count = 0;
    if (!g_atomic_int_get(&session->initialised))
        return NULL;
    struct gpu_record *gpus = cuda_driver_devices(&session->driver, &count);
    char *name = count > 0 ? g_strdup(gpus[0].name) : NULL;
    gpu_records_free(gpus, count);
    return name;
}

/* Opens NVML for the devices that the program sees. */
static void open_nvml(struct device_session *session)
{
    uint32_t count;
    struct gpu_record *gpus = cuda_driver_devices(&session->driver, &count);
    session->nvml = !session->driver.cuDeviceGetPCIBusId ? NULL : nvml_new();
    for (uint32_t device = 0; device < count; device++) {
        char bus[32] = "";
        if (session->nvml &&
            session->driver.cuDeviceGetPCIBusId(bus, sizeof bus, (CUdevice)device) == CUDA_SUCCESS)
            nvml_add(session->nvml, device, bus, own_memory_of(session->own, device));
    }
    gpu_records_free(gpus, count);
}

void device_session_begin(struct device_session *session)
{
    session->begun_after = (uint32_t)g_atomic_int_get(&session->newest_call);
}

void device_session_pause(struct device_session *session)
{
    if (session->phase != OPEN)
        return;
    session->paused = true;
    device_log_leave_out(session->log, session->begun_after, UINT32_MAX);
    disable_window(session);
}

static bool go_on(struct device_session *session, GError **error)
{
    flush(session, false);
    device_log_leave_out(session->log, session->begun_after,
                         (uint32_t)g_atomic_int_get(&session->newest_call));
    session->paused = false;
    session->taken_to = read_clock(session);
    return enable_window(session, error);
}

bool device_session_open(struct device_session *session, GError **error)
{
    if (session->paused)
        return go_on(session, error);
    if (session->phase != BEFORE)
        return false;
    flush(session, false);
    device_log_forget(session->log, UINT64_MAX);
    g_autoptr(GPtrArray) contexts = list_contexts(session);
    own_memory_before(session->own, &session->driver, contexts);
    session->phase = OPEN;
    session->taken_to = read_clock(session);
    bool ok = enable_window(session, error);
    recording_add_sample(session->recording, recording_now(), "collector_device_bytes",
                         own_memory_after(session->own, &session->driver, contexts));
    return ok;
}

/* Records all calls from here on if CUPTI says nothing about ranges while only chosen calls are
 * recorded. */
static void count_correlations(struct device_session *session, struct activity *activity)
{
    activity->chosen_calls = !session->all_calls;
    if (g_atomic_int_get(&session->pushed) == 0)
        return;
    session->kernels += activity->kernel_count;
    session->correlations += activity->correlation_count;
    if (!device_session_lacks_ranges(session) || session->all_calls || session->phase != OPEN ||
        session->paused)
        return;
    api_calls_record(&session->cupti, false, false, NULL);
    session->all_calls = api_calls_record(&session->cupti, true, true, NULL);
}

bool device_session_lacks_ranges(const struct device_session *session)
{
    return session->kernels > 0 && session->correlations == 0;
}

static struct activity *take(struct device_session *session)
{
    struct device_clock now = read_clock(session);
    struct activity *activity = device_log_take(session->log, &session->taken_to, &now);
    session->taken_to = now;
    count_correlations(session, activity);
    bool initialised = g_atomic_int_get(&session->initialised);
    if (!session->described && initialised)
        activity->gpus = cuda_driver_devices(&session->driver, &activity->gpu_count);
    session->described = initialised;
    return activity;
}

struct activity *device_session_take(struct device_session *session)
{
    if (session->phase != OPEN)
        return NULL;
    flush(session, false);
    return take(session);
}

uint64_t device_session_wait(struct device_session *session)
{
    uint64_t asked = 0;
    g_autoptr(GPtrArray) contexts = list_contexts(session);
    session->cupti.cuptiGetTimestamp(&asked);
    for (guint i = 0; i < contexts->len; i++)
        cuda_driver_synchronize(&session->driver, g_ptr_array_index(contexts, i));
    return contexts->len > 0 ? asked : 0;
}

/* Reads until the record of the wait has come. Records follow the activity they describe; the
 * record of a synchronisation follows all earlier ones. */
static void read_up_to(struct device_session *session, uint64_t waited)
{
    gint64 latest = g_get_monotonic_time() + LONGEST_WAIT_US;
    flush(session, false);
    while (!device_log_has_sync_after(session->log, waited) && g_get_monotonic_time() < latest) {
        g_usleep(WAIT_STEP_US);
        flush(session, false);
    }
}

struct activity *device_session_close(struct device_session *session, uint64_t waited)
{
    if (session->phase != OPEN)
        return NULL;
    if (waited > 0)
        read_up_to(session, waited);
    disable_all(session);
    flush(session, true);
    return take(session);
}

void device_session_push(struct device_session *session, uint64_t range)
{
    g_atomic_int_set(&session->pushed, TRUE);
    session->cupti.cuptiActivityPushExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1,
                                                          range);
}

void device_session_pop(struct device_session *session)
{
    uint64_t range;
    session->cupti.cuptiActivityPopExternalCorrelationId(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM1,
                                                         &range);
}

void device_session_pinned(struct device_session *session, const uint64_t *times_ns, uint32_t count,
                           uint64_t *bytes)
{
    device_log_pinned(session->log, times_ns, count, bytes);
}

void device_session_sample(struct device_session *session,
                           void (*take_one)(void *, const char *, uint64_t), void *data)
{
    if (!session->nvml_looked && g_atomic_int_get(&session->initialised)) {
        session->nvml_looked = true;
        open_nvml(session);
    }
    if (session->nvml)
        nvml_sample(session->nvml, take_one, data);
}
