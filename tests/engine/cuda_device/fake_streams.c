#include "fake_runtime.h"

#include <cuda.h>
#include <string.h>

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

/* A value changes without a signal, so this thread polls it. */
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
    fake_maybe_wait();
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
            g_cond_wait(&stream->called, &fake.lock);
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

void fake_put(cudaStream_t stream, const struct piece *piece)
{
    g_queue_push_tail(&stream->pieces, g_memdup2(piece, sizeof *piece));
    stream->put++;
    g_cond_signal(&stream->called);
}

cudaError_t fake_queue(cudaStream_t stream, const struct piece *piece)
{
    g_mutex_lock(&fake.lock);
    fake_put(stream, piece);
    g_mutex_unlock(&fake.lock);
    return cudaSuccess;
}

static struct CUstream_st *stream_new(void)
{
    struct CUstream_st *stream = g_new0(struct CUstream_st, 1);
    g_queue_init(&stream->pieces);
    g_cond_init(&stream->called);
    stream->thread = g_thread_new("stream", serve, stream);
    return stream;
}

void fake_call_streams(void)
{
    for (GList *at = fake.streams; at; at = at->next)
        g_cond_signal(&((struct CUstream_st *)at->data)->called);
    if (fake.legacy)
        g_cond_signal(&fake.legacy->called);
}

void fake_stream_free(struct CUstream_st *stream)
{
    g_mutex_lock(&fake.lock);
    stream->ending = true;
    g_cond_signal(&stream->called);
    g_mutex_unlock(&fake.lock);
    g_thread_join(stream->thread);
    g_cond_clear(&stream->called);
    g_free(stream);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned int flags)
{
    cudaError_t error;
    if (!fake_enter(&error))
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
    fake_stream_free(stream);
    return fake.failure;
}

/* NULL is the default stream, which non-blocking streams do not wait for. */
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

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned int flags)
{
    cudaError_t error;
    (void)flags;
    if (!fake_enter(&error))
        return error;
    g_mutex_lock(&fake.lock);
    fake_put(stream,
             &(struct piece){.kind = WAIT_EVENT, .event = event, .number = event->recorded});
    g_mutex_unlock(&fake.lock);
    return cudaSuccess;
}

static CUresult CUDAAPI wait_value(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                   unsigned int flags)
{
    cudaError_t error;
    if (!fake_enter(&error))
        return CUDA_ERROR_UNKNOWN;
    g_assert_cmpuint(flags, ==, CU_STREAM_WAIT_VALUE_GEQ);
    fake_queue(
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
    if (!fake_enter(&error))
        return error;
    g_assert_cmpstr(symbol, ==, "cuStreamWaitValue64");
    *function = (void *)wait_value;
    *found = cudaDriverEntryPointSuccess;
    return cudaSuccess;
}

cudaError_t fake_cuda_launch(cudaStream_t stream, void (*run)(void *data), void *data)
{
    cudaError_t error;
    if (!fake_enter(&error)) {
        g_free(data);
        return error;
    }
    return fake_queue(stream, &(struct piece){.kind = RUN, .run = run, .data = data});
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

void fake_finish_default(void)
{
    (void)cudaStreamSynchronize(NULL);
}

void fake_queue_default(const struct piece *piece)
{
    if (!fake.legacy)
        fake.legacy = stream_new();
    fake_queue(fake.legacy, piece);
}
