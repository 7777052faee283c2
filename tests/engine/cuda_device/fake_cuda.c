#include "fake_cuda.h"

#include <cuda.h>
#include <glib.h>
#include <stdbool.h>
#include <string.h>

struct CUevent_st {
    uint64_t recorded, complete; /* how often */
    gint64 time;                 /* of the last completion */
};

enum piece_kind { RECORD, WAIT_EVENT, WAIT_VALUE, COPY, SET, RUN };

struct piece {
    enum piece_kind kind;
    struct CUevent_st *event;
    const uint64_t *value;
    uint64_t number; /* of the record, or least value */
    void *to;
    const void *from;
    size_t bytes;
    int byte; /* that is set */
    void (*run)(void *data);
    void *data;
};

struct CUstream_st {
    GThread *thread;
    GQueue pieces;
    struct piece *running; /* NULL: none */
    bool ending;
    uint64_t put, done;
};

enum memory_kind { ON_DEVICE, PINNED, PINNED_MAPPED };

struct range {
    const uint8_t *start;
    size_t bytes;
    enum memory_kind kind;
};

static struct {
    GMutex lock;
    GCond changed;
    GArray *ranges; /* of struct range */
    int objects;    /* streams and events */
    GList *streams;
    struct CUstream_st *legacy; /* the default stream; NULL: not used yet */
    uint64_t calls, calls_until_failure;
    cudaError_t failure; /* what calls return from now on */
    cudaError_t to_come;
    uint64_t held; /* by other programs */
    bool stopped;
    uint32_t delay;
    uint32_t random;
} fake = {.random = 1};

/* ---- faults ---- */

void fake_cuda_fail(uint64_t nth, cudaError_t error)
{
    g_mutex_lock(&fake.lock);
    fake.calls_until_failure = nth;
    fake.to_come = error;
    fake.failure = cudaSuccess;
    g_mutex_unlock(&fake.lock);
}

void fake_cuda_delay(uint32_t microseconds)
{
    g_mutex_lock(&fake.lock);
    fake.delay = microseconds;
    g_mutex_unlock(&fake.lock);
}

uint64_t fake_cuda_calls(void)
{
    g_mutex_lock(&fake.lock);
    uint64_t calls = fake.calls;
    g_mutex_unlock(&fake.lock);
    return calls;
}

void fake_cuda_stop(bool stopped)
{
    g_mutex_lock(&fake.lock);
    fake.stopped = stopped;
    g_cond_broadcast(&fake.changed);
    g_mutex_unlock(&fake.lock);
}

void fake_cuda_hold(uint64_t bytes)
{
    g_mutex_lock(&fake.lock);
    fake.held = bytes;
    g_mutex_unlock(&fake.lock);
}

/* Whether the call goes through. */
static bool enter(cudaError_t *error)
{
    g_mutex_lock(&fake.lock);
    fake.calls++;
    if (fake.calls_until_failure && --fake.calls_until_failure == 0)
        fake.failure = fake.to_come;
    *error = fake.failure;
    g_mutex_unlock(&fake.lock);
    return *error == cudaSuccess;
}

static void maybe_wait(void)
{
    g_mutex_lock(&fake.lock);
    fake.random = fake.random * 1664525 + 1013904223;
    uint32_t drawn = fake.random >> 8, delay = fake.delay;
    g_mutex_unlock(&fake.lock);
    if (delay && drawn % 4 == 0)
        g_usleep(drawn / 4 % delay);
}

/* ---- memory ---- */

static void add_range(const void *start, size_t bytes, enum memory_kind kind)
{
    const struct range range = {start, bytes, kind};
    g_mutex_lock(&fake.lock);
    if (!fake.ranges)
        fake.ranges = g_array_new(FALSE, FALSE, sizeof(struct range));
    g_array_append_val(fake.ranges, range);
    g_mutex_unlock(&fake.lock);
}

static const struct range *range_of(const void *start, size_t bytes)
{
    for (guint i = 0; fake.ranges && i < fake.ranges->len; i++) {
        const struct range *range = &g_array_index(fake.ranges, struct range, i);
        const uint8_t *first = start;
        if (first >= range->start && first + bytes <= range->start + range->bytes)
            return range;
    }
    return NULL;
}

static bool is_kind(const void *start, size_t bytes, bool on_device)
{
    g_mutex_lock(&fake.lock);
    const struct range *range = range_of(start, bytes);
    bool is = range && (range->kind == ON_DEVICE) == on_device;
    g_mutex_unlock(&fake.lock);
    return is;
}

static void remove_range(const void *start)
{
    g_mutex_lock(&fake.lock);
    for (guint i = 0; i < fake.ranges->len; i++) {
        if (g_array_index(fake.ranges, struct range, i).start != start)
            continue;
        g_array_remove_index_fast(fake.ranges, i);
        g_mutex_unlock(&fake.lock);
        return;
    }
    g_error("freed what was never allocated");
}

cudaError_t cudaMalloc(void **memory, size_t bytes)
{
    cudaError_t error;
    if (!enter(&error))
        return error;
    *memory = g_aligned_alloc(1, bytes, 4096);
    memset(*memory, 0xA5, bytes);
    add_range(*memory, bytes, ON_DEVICE);
    return cudaSuccess;
}

static void finish_legacy(void);

cudaError_t cudaFree(void *memory)
{
    finish_legacy();
    if (memory)
        remove_range(memory);
    g_aligned_free(memory);
    return fake.failure;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned int flags)
{
    cudaError_t error;
    if (!enter(&error))
        return error;
    *memory = g_aligned_alloc(1, bytes, 4096);
    memset(*memory, 0xA5, bytes);
    add_range(*memory, bytes, flags & cudaHostAllocMapped ? PINNED_MAPPED : PINNED);
    return cudaSuccess;
}

cudaError_t cudaFreeHost(void *memory)
{
    remove_range(memory);
    g_aligned_free(memory);
    return fake.failure;
}

cudaError_t cudaHostRegister(void *memory, size_t bytes, unsigned int flags)
{
    cudaError_t error;
    (void)flags;
    if (enter(&error))
        add_range(memory, bytes, PINNED);
    return error;
}

cudaError_t cudaHostUnregister(void *memory)
{
    g_mutex_lock(&fake.lock);
    bool registered = range_of(memory, 1) != NULL;
    g_mutex_unlock(&fake.lock);
    if (!registered)
        return cudaErrorHostMemoryNotRegistered;
    remove_range(memory);
    return fake.failure;
}

/* ---- streams ---- */

static bool ready(const struct piece *piece)
{
    switch (piece->kind) {
    case WAIT_EVENT:
        return piece->event->complete >= piece->number;
    case WAIT_VALUE:
        return __atomic_load_n(piece->value, __ATOMIC_ACQUIRE) >= piece->number;
    default:
        return true;
    }
}

/* A value changes without a signal. */
static void wait_until_ready(const struct piece *piece)
{
    while (!ready(piece)) {
        if (piece->kind == WAIT_VALUE) {
            g_mutex_unlock(&fake.lock);
            g_usleep(20);
            g_mutex_lock(&fake.lock);
        } else {
            g_cond_wait(&fake.changed, &fake.lock);
        }
    }
}

static void run_piece(struct piece *piece)
{
    maybe_wait();
    if (piece->kind == COPY)
        memcpy(piece->to, piece->from, piece->bytes);
    else if (piece->kind == SET)
        memset(piece->to, piece->byte, piece->bytes);
    else if (piece->kind == RUN)
        piece->run(piece->data);
    g_mutex_lock(&fake.lock);
    wait_until_ready(piece);
    if (piece->kind == RECORD) {
        piece->event->complete = piece->number;
        piece->event->time = g_get_monotonic_time();
    }
    g_mutex_unlock(&fake.lock);
}

static void *serve(void *data)
{
    struct CUstream_st *stream = data;
    g_mutex_lock(&fake.lock);
    for (;;) {
        while ((g_queue_is_empty(&stream->pieces) || fake.stopped) && !stream->ending)
            g_cond_wait(&fake.changed, &fake.lock);
        struct piece *piece = stream->running = g_queue_pop_head(&stream->pieces);
        if (!piece)
            break;
        g_mutex_unlock(&fake.lock);
        run_piece(piece);
        g_mutex_lock(&fake.lock);
        stream->running = NULL;
        g_free(piece->data);
        g_free(piece);
        stream->done++;
        g_cond_broadcast(&fake.changed);
    }
    g_mutex_unlock(&fake.lock);
    return NULL;
}

static void put(cudaStream_t stream, const struct piece *piece)
{
    g_queue_push_tail(&stream->pieces, g_memdup2(piece, sizeof *piece));
    stream->put++;
    g_cond_broadcast(&fake.changed);
}

static cudaError_t put_locked(cudaStream_t stream, const struct piece *piece)
{
    g_mutex_lock(&fake.lock);
    put(stream, piece);
    g_mutex_unlock(&fake.lock);
    return cudaSuccess;
}

static struct CUstream_st *stream_new(void)
{
    struct CUstream_st *stream = g_new0(struct CUstream_st, 1);
    g_queue_init(&stream->pieces);
    stream->thread = g_thread_new("stream", serve, stream);
    return stream;
}

static void stream_free(struct CUstream_st *stream)
{
    g_mutex_lock(&fake.lock);
    stream->ending = true;
    g_cond_broadcast(&fake.changed);
    g_mutex_unlock(&fake.lock);
    g_thread_join(stream->thread);
    g_free(stream);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    cudaError_t error;
    if (!enter(&error))
        return error;
    g_assert_cmpuint(flags, ==, cudaStreamNonBlocking);
    *stream = stream_new();
    g_mutex_lock(&fake.lock);
    fake.streams = g_list_prepend(fake.streams, *stream);
    fake.objects++;
    g_mutex_unlock(&fake.lock);
    return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    g_mutex_lock(&fake.lock);
    fake.streams = g_list_remove(fake.streams, stream);
    fake.objects--;
    g_mutex_unlock(&fake.lock);
    stream_free(stream);
    return fake.failure;
}

/* NULL is the default stream, for which streams that do not block do not wait. */
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    if (!stream)
        stream = fake.legacy;
    g_mutex_lock(&fake.lock);
    while (stream && stream->done < stream->put)
        g_cond_wait(&fake.changed, &fake.lock);
    g_mutex_unlock(&fake.lock);
    return fake.failure;
}

static void finish_legacy(void)
{
    (void)cudaStreamSynchronize(NULL);
}

static void put_legacy(const struct piece *piece)
{
    if (!fake.legacy)
        fake.legacy = stream_new();
    put_locked(fake.legacy, piece);
}

/* Of device memory: returns before it is done. */
cudaError_t cudaMemset(void *memory, int value, size_t bytes)
{
    cudaError_t error;
    if (!enter(&error))
        return error;
    g_assert_true(is_kind(memory, bytes, true));
    put_legacy(&(struct piece){.kind = SET, .to = memory, .byte = value, .bytes = bytes});
    return cudaSuccess;
}

/* From pageable memory to the device it returns when the bytes have been taken, which is before
 * they are there. */
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaError_t error;
    (void)kind;
    if (!enter(&error))
        return error;
    finish_legacy();
    if (is_kind(to, bytes, true)) {
        void *staged = g_memdup2(from, bytes);
        put_legacy(&(struct piece){
            .kind = COPY, .to = to, .from = staged, .bytes = bytes, .data = staged});
    } else {
        memcpy(to, from, bytes);
    }
    return cudaSuccess;
}

void fake_cuda_check_all_freed(void)
{
    g_assert_true(!fake.ranges || fake.ranges->len == 0);
    g_assert_cmpint(fake.objects, ==, 0);
    g_clear_pointer(&fake.ranges, g_array_unref);
    g_clear_pointer(&fake.legacy, stream_free);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    cudaError_t error;
    (void)flags;
    if (!enter(&error))
        return error;
    g_mutex_lock(&fake.lock);
    put(stream, &(struct piece){.kind = WAIT_EVENT, .event = event, .number = event->recorded});
    g_mutex_unlock(&fake.lock);
    return cudaSuccess;
}

static CUresult CUDAAPI wait_value(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                   unsigned int flags)
{
    cudaError_t error;
    if (!enter(&error))
        return CUDA_ERROR_UNKNOWN;
    g_assert_cmpuint(flags, ==, CU_STREAM_WAIT_VALUE_GEQ);
    put_locked(
        stream,
        &(struct piece){.kind = WAIT_VALUE, .value = (const uint64_t *)address, .number = value});
    return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
                                             unsigned int version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *found)
{
    cudaError_t error;
    (void)version, (void)flags;
    if (!enter(&error))
        return error;
    g_assert_cmpstr(symbol, ==, "cuStreamWaitValue64");
    *function = (void *)wait_value;
    *found = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

cudaError_t fake_cuda_launch(cudaStream_t stream, void (*run)(void *data), void *data)
{
    cudaError_t error;
    if (!enter(&error)) {
        g_free(data);
        return error;
    }
    return put_locked(stream, &(struct piece){.kind = RUN, .run = run, .data = data});
}

static void assert_not_for_host(gpointer data, gpointer user_data)
{
    const struct piece *piece = data;
    (void)user_data;
    g_assert_true(!piece || piece->kind != WAIT_VALUE || ready(piece));
}

void fake_cuda_load(void)
{
    g_mutex_lock(&fake.lock);
    for (GList *at = fake.streams; at; at = at->next) {
        struct CUstream_st *stream = at->data;
        assert_not_for_host(stream->running, NULL);
        g_queue_foreach(&stream->pieces, assert_not_for_host, NULL);
    }
    g_mutex_unlock(&fake.lock);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    cudaError_t error;
    if (!enter(&error))
        return error;
    g_assert_true(is_kind(to, bytes, kind != cudaMemcpyDeviceToHost));
    g_assert_true(is_kind(from, bytes, kind != cudaMemcpyHostToDevice));
    const uint8_t *first = to, *second = from;
    g_assert_true(first + bytes <= second || second + bytes <= first);
    return put_locked(stream,
                      &(struct piece){.kind = COPY, .to = to, .from = from, .bytes = bytes});
}

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned int flags)
{
    cudaError_t error;
    (void)flags;
    if (!enter(&error))
        return error;
    *event = g_new0(struct CUevent_st, 1);
    g_atomic_int_inc(&fake.objects);
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *event)
{
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    g_free(event);
    g_atomic_int_add(&fake.objects, -1);
    return fake.failure;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t error;
    if (!enter(&error))
        return error;
    g_mutex_lock(&fake.lock);
    put(stream, &(struct piece){.kind = RECORD, .event = event, .number = ++event->recorded});
    g_mutex_unlock(&fake.lock);
    return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    cudaError_t error;
    if (!enter(&error))
        return error;
    g_mutex_lock(&fake.lock);
    bool complete = event->complete >= event->recorded;
    g_mutex_unlock(&fake.lock);
    return complete ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t error;
    if (!enter(&error))
        return error;
    g_mutex_lock(&fake.lock);
    for (uint64_t number = event->recorded; event->complete < number;)
        g_cond_wait(&fake.changed, &fake.lock);
    g_mutex_unlock(&fake.lock);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end)
{
    cudaError_t error;
    if (!enter(&error))
        return error;
    g_mutex_lock(&fake.lock);
    *milliseconds = (float)(end->time - begin->time) * 1e-3f;
    g_mutex_unlock(&fake.lock);
    return cudaSuccess;
}

/* ---- the rest ---- */

cudaError_t cudaGetDeviceCount(int *count)
{
    cudaError_t error;
    *count = enter(&error) ? 1 : 0;
    return error;
}

cudaError_t cudaDriverGetVersion(int *version)
{
    *version = 0;
    return cudaSuccess;
}

cudaError_t cudaSetDevice(int device)
{
    cudaError_t error;
    g_assert_cmpint(device, ==, 0);
    enter(&error);
    return error;
}

cudaError_t cudaSetDeviceFlags(unsigned int flags)
{
    cudaError_t error;
    (void)flags;
    enter(&error);
    return error;
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
    cudaError_t error;
    *properties = (struct cudaDeviceProp){.name = "no GPU"};
    g_assert_cmpint(device, ==, 0);
    enter(&error);
    return error;
}

/* Of what the engine asks: an H100's multiprocessors. */
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
    cudaError_t error;
    g_assert_cmpint(attribute, ==, cudaDevAttrMultiProcessorCount);
    g_assert_cmpint(device, ==, 0);
    *value = 132;
    enter(&error);
    return error;
}

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    cudaError_t error;
    uint64_t used = FAKE_CUDA_CONTEXT_BYTES;
    if (!enter(&error))
        return error;
    g_mutex_lock(&fake.lock);
    used += fake.held;
    for (guint i = 0; fake.ranges && i < fake.ranges->len; i++) {
        const struct range *range = &g_array_index(fake.ranges, struct range, i);
        used += range->kind == ON_DEVICE ? range->bytes : 0;
    }
    g_mutex_unlock(&fake.lock);
    *total = FAKE_CUDA_BYTES;
    *available = FAKE_CUDA_BYTES - MIN(used, FAKE_CUDA_BYTES);
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return fake.failure;
}

const char *cudaGetErrorString(cudaError_t error)
{
    return error == cudaSuccess ? "no error" : "made to fail";
}
