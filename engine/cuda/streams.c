#include "engine/cuda/streams.h"

#include <cuda.h>
#include <stdatomic.h>
#include <string.h>

/* ---- failures ---- */

bool cuda_failure_note(struct cuda_failure *failure, cudaError_t error, const char *call)
{
    return error == cudaSuccess ||
           cuda_failure_note_reason(failure, cudaGetErrorString(error), call);
}

bool cuda_failure_note_reason(struct cuda_failure *failure, const char *reason, const char *call)
{
    cuda_failure_note_text(
        failure, g_strdup_printf("CUDA: %s (%.*s)", reason, (int)strcspn(call, "("), call));
    return false;
}

void cuda_failure_note_text(struct cuda_failure *failure, char *text)
{
    g_mutex_lock(&failure->lock);
    if (!failure->text)
        failure->text = g_steal_pointer(&text);
    g_mutex_unlock(&failure->lock);
    g_free(text);
}

bool cuda_failure_check(struct cuda_failure *failure, enum device_error code, GError **error)
{
    g_mutex_lock(&failure->lock);
    if (failure->text)
        g_set_error_literal(error, DEVICE_ERROR, code, failure->text);
    bool ok = !failure->text;
    g_mutex_unlock(&failure->lock);
    return ok;
}

/* ---- stalls: how long a stream waits between pairs of events ---- */

/* More than the pieces that a stream can have queued; each of them may wait once. */
enum { STALLS = 512 };

struct stalls {
    struct cuda_failure *failure;
    cudaEvent_t begin[STALLS], end[STALLS];
    uint64_t first, next; /* stalls that are not in the sum yet */
    double seconds;
};

static void stalls_free(struct stalls *stalls)
{
    for (int i = 0; stalls && i < STALLS; i++) {
        if (stalls->begin[i])
            cudaEventDestroy(stalls->begin[i]);
        if (stalls->end[i])
            cudaEventDestroy(stalls->end[i]);
    }
    g_free(stalls);
}

static struct stalls *stalls_new(struct cuda_failure *failure)
{
    struct stalls *stalls = g_new0(struct stalls, 1);
    stalls->failure = failure;
    for (int i = 0; i < STALLS; i++) {
        if (CUDA_TRY(failure, cudaEventCreate(&stalls->begin[i])) &&
            CUDA_TRY(failure, cudaEventCreate(&stalls->end[i])))
            continue;
        stalls_free(stalls);
        return NULL;
    }
    return stalls;
}

static void add_first(struct stalls *stalls)
{
    uint64_t place = stalls->first++ % STALLS;
    float milliseconds = 0;
    if (CUDA_TRY(stalls->failure, cudaEventSynchronize(stalls->end[place])) &&
        CUDA_TRY(stalls->failure,
                 cudaEventElapsedTime(&milliseconds, stalls->begin[place], stalls->end[place])))
        stalls->seconds += milliseconds * 1e-3;
}

static void stalls_begin(struct stalls *stalls, cudaStream_t stream)
{
    if (stalls->next - stalls->first == STALLS)
        add_first(stalls);
    CUDA_TRY(stalls->failure, cudaEventRecord(stalls->begin[stalls->next % STALLS], stream));
}

static void stalls_end(struct stalls *stalls, cudaStream_t stream)
{
    CUDA_TRY(stalls->failure, cudaEventRecord(stalls->end[stalls->next++ % STALLS], stream));
}

static bool first_is_over(const struct stalls *stalls)
{
    cudaError_t state = cudaEventQuery(stalls->end[stalls->first % STALLS]);
    if (state == cudaErrorNotReady)
        (void)cudaGetLastError(); /* this is no error */
    return state != cudaErrorNotReady;
}

static double stalls_seconds(struct stalls *stalls)
{
    while (stalls->first < stalls->next && first_is_over(stalls))
        add_first(stalls);
    return stalls->seconds;
}

/* ---- streams ---- */

/* RING pieces may be queued on a stream; a caller that finds the ring full waits until FREED are
 * free again. A stream takes about a thousand kernels, two or three a piece; beyond that, calls
 * wait within the driver and do not yield. */
enum { RING = 256, FREED = RING / 4 };

typedef CUresult CUDAAPI wait_value(CUstream stream, CUdeviceptr address, cuuint64_t value,
                                    unsigned int flags);

struct stream {
    cudaStream_t stream;
    cudaEvent_t behind[RING];    /* if ticket t has an event, it is t % RING */
    mover_ticket recorded[RING]; /* the event's ticket */
    uint32_t waiting[RING];      /* threads in cudaEventSynchronize */
    mover_ticket put, covered;   /* by the thread that queues: the last, the last with an event */
    mover_ticket complete;       /* known to be complete */
    /* Tickets of other queues that this stream waits for already, or need not wait for. */
    mover_ticket passed[MOVER_QUEUES];
};

struct cuda_streams {
    struct cuda_failure *failure;
    void (*flush)(void *data); /* before events on the compute stream; NULL: nothing to do */
    void *flush_data;
    struct stream stream[MOVER_QUEUES]; /* those of threads have none */
    struct stalls *stalls;
    /* [MOVER_QUEUES] what threads have done; pinned, and mapped at the same address on the device
     */
    _Atomic uint64_t *threads_done;
    wait_value *wait_value;
    GMutex lock; /* of `waiting` and `complete` */
    GCond changed;
};

/* The thread that queues sleeps while it waits for compute or for fetches: enough work is queued in
 * the meantime, and the host's operators use every core. The host's thread waits for copies of
 * gradients to the host, and should go on as soon as possible: what the device computed before them
 * is then complete, too (cuda_streams_wait). */
static bool open_stream(struct cuda_streams *streams, enum mover_queue queue)
{
    struct stream *stream = &streams->stream[queue];
    struct cuda_failure *failure = streams->failure;
    unsigned int flags = cudaEventDisableTiming;
    if (queue != MOVER_D2H)
        flags |= cudaEventBlockingSync;
    if (!CUDA_TRY(failure, cudaStreamCreateWithFlags(&stream->stream, cudaStreamNonBlocking)))
        return false;
    for (int i = 0; i < RING; i++)
        if (!CUDA_TRY(failure, cudaEventCreateWithFlags(&stream->behind[i], flags)))
            return false;
    return true;
}

static bool find_wait_value(struct cuda_streams *streams)
{
    enum cudaDriverEntryPointQueryResult found;
    void *function = NULL;
    if (!CUDA_TRY(streams->failure,
                  cudaGetDriverEntryPointByVersion("cuStreamWaitValue64", &function, 12000,
                                                   cudaEnableDefault, &found)))
        return false;
    if (found != cudaDriverEntryPointSuccess)
        return cuda_failure_note(streams->failure, cudaErrorCallRequiresNewerDriver,
                                 "cuStreamWaitValue64");
    streams->wait_value = (wait_value *)function;
    return true;
}

struct cuda_streams *cuda_streams_new(struct cuda_failure *failure)
{
    struct cuda_streams *streams = g_new0(struct cuda_streams, 1);
    streams->failure = failure;
    g_mutex_init(&streams->lock);
    g_cond_init(&streams->changed);
    bool ok = find_wait_value(streams) &&
              CUDA_TRY(failure, cudaHostAlloc((void **)&streams->threads_done,
                                              MOVER_QUEUES * sizeof(uint64_t),
                                              cudaHostAllocMapped | cudaHostAllocPortable));
    for (int q = 0; ok && q < MOVER_QUEUES; q++)
        if (!cuda_streams_is_thread(q))
            ok = open_stream(streams, q);
    if (ok)
        ok = (streams->stalls = stalls_new(failure)) != NULL;
    if (!ok) {
        cuda_streams_free(streams);
        return NULL;
    }
    for (int q = 0; q < MOVER_QUEUES; q++)
        atomic_store(&streams->threads_done[q], 0);
    return streams;
}

static void close_stream(struct stream *stream)
{
    for (int i = 0; i < RING; i++)
        if (stream->behind[i])
            cudaEventDestroy(stream->behind[i]);
    if (stream->stream)
        cudaStreamDestroy(stream->stream);
}

void cuda_streams_free(struct cuda_streams *streams)
{
    for (int q = 0; q < MOVER_QUEUES; q++)
        if (streams->stream[q].stream)
            cudaStreamSynchronize(streams->stream[q].stream);
    for (int q = 0; q < MOVER_QUEUES; q++)
        close_stream(&streams->stream[q]);
    stalls_free(streams->stalls);
    if (streams->threads_done)
        cudaFreeHost((void *)streams->threads_done);
    g_cond_clear(&streams->changed);
    g_mutex_clear(&streams->lock);
    g_free(streams);
}

void cuda_streams_flush_with(struct cuda_streams *streams, void (*flush)(void *data), void *data)
{
    streams->flush = flush;
    streams->flush_data = data;
}

cudaStream_t cuda_streams_stream(const struct cuda_streams *streams, enum mover_queue queue)
{
    return streams->stream[queue].stream;
}

static void note_complete(struct cuda_streams *streams, struct stream *stream, mover_ticket ticket)
{
    g_mutex_lock(&streams->lock);
    stream->complete = MAX(stream->complete, ticket);
    g_mutex_unlock(&streams->lock);
}

static bool noted_complete(struct cuda_streams *streams, const struct stream *stream,
                           mover_ticket ticket)
{
    g_mutex_lock(&streams->lock);
    bool complete = stream->complete >= ticket;
    g_mutex_unlock(&streams->lock);
    return complete;
}

/* The ticket has an event. */
static bool known_complete(struct cuda_streams *streams, enum mover_queue queue,
                           mover_ticket ticket)
{
    if (cuda_streams_is_thread(queue))
        return atomic_load_explicit(&streams->threads_done[queue], memory_order_acquire) >= ticket;
    struct stream *stream = &streams->stream[queue];
    if (noted_complete(streams, stream, ticket))
        return true;
    cudaError_t state = cudaEventQuery(stream->behind[ticket % RING]);
    if (state == cudaErrorNotReady)
        (void)cudaGetLastError(); /* this is no error */
    else if (cuda_failure_note(streams->failure, state, "cudaEventQuery"))
        note_complete(streams, stream, ticket);
    return state == cudaSuccess;
}

static void wait_on_stream(struct cuda_streams *streams, cudaStream_t waiting,
                           enum mover_queue queue, mover_ticket ticket)
{
    if (!cuda_streams_is_thread(queue)) {
        CUDA_TRY(streams->failure,
                 cudaStreamWaitEvent(waiting, streams->stream[queue].behind[ticket % RING], 0));
        return;
    }
    CUresult result = streams->wait_value((CUstream)waiting,
                                          (CUdeviceptr)&streams->threads_done[queue], ticket,
                                          CU_STREAM_WAIT_VALUE_GEQ);
    if (result != CUDA_SUCCESS)
        cuda_failure_note(streams->failure, cudaErrorUnknown, "cuStreamWaitValue64");
}

/* Returns when the ticket is complete. While threads wait for an event, it is not used for another
 * ticket: they would wait for work that may depend on what they do next. */
static void wait_for(struct cuda_streams *streams, struct stream *stream, mover_ticket ticket)
{
    uint32_t place = (uint32_t)(ticket % RING);
    g_mutex_lock(&streams->lock);
    if (stream->complete >= ticket) {
        g_mutex_unlock(&streams->lock);
        return;
    }
    stream->waiting[place]++;
    g_mutex_unlock(&streams->lock);
    CUDA_TRY(streams->failure, cudaEventSynchronize(stream->behind[place]));
    g_mutex_lock(&streams->lock);
    stream->complete = MAX(stream->complete, ticket);
    stream->waiting[place]--;
    g_cond_broadcast(&streams->changed);
    g_mutex_unlock(&streams->lock);
}

/* Returns the first ticket from this one on that has an event. */
static mover_ticket covering(const struct stream *stream, mover_ticket ticket)
{
    while (stream->recorded[ticket % RING] != ticket)
        ticket++;
    return ticket;
}

/* A caller that waits for a full ring wakes once for many pieces, and enough pieces stay queued. */
static void make_place(struct cuda_streams *streams, struct stream *stream, mover_ticket ticket)
{
    if (ticket > RING && !noted_complete(streams, stream, ticket - RING))
        wait_for(streams, stream, covering(stream, ticket - RING + FREED));
    g_mutex_lock(&streams->lock);
    while (stream->waiting[ticket % RING])
        g_cond_wait(&streams->changed, &streams->lock);
    g_mutex_unlock(&streams->lock);
}

/* Puts an event behind the last piece. */
static void record(struct cuda_streams *streams, struct stream *stream)
{
    mover_ticket ticket = stream->covered = stream->put;
    if (streams->flush && stream == &streams->stream[MOVER_COMPUTE])
        streams->flush(streams->flush_data);
    CUDA_TRY(streams->failure, cudaEventRecord(stream->behind[ticket % RING], stream->stream));
    stream->recorded[ticket % RING] = ticket;
}

/* Returns a ticket that has an event: this one or a later one. */
static mover_ticket cover(struct cuda_streams *streams, enum mover_queue queue, mover_ticket ticket)
{
    struct stream *stream = &streams->stream[queue];
    if (cuda_streams_is_thread(queue) || ticket == 0 || noted_complete(streams, stream, ticket))
        return ticket;
    if (ticket > stream->covered)
        record(streams, stream);
    return covering(stream, ticket);
}

struct mover_after cuda_streams_cover(struct cuda_streams *streams, const struct mover_after *after)
{
    struct mover_after covered;
    for (int q = 0; q < MOVER_QUEUES; q++)
        covered.queue[q] = cover(streams, q, after->queue[q]);
    return covered;
}

void cuda_streams_begin(struct cuda_streams *streams, enum mover_queue queue,
                        const struct mover_after *after)
{
    struct stream *stream = &streams->stream[queue];
    bool timed = false;
    for (int q = 0; q < MOVER_QUEUES; q++) {
        mover_ticket ticket = after->queue[q];
        if (q == (int)queue || ticket <= stream->passed[q])
            continue;
        ticket = cover(streams, q, ticket);
        stream->passed[q] = ticket;
        if (known_complete(streams, q, ticket))
            continue;
        if (queue == MOVER_COMPUTE && !timed)
            stalls_begin(streams->stalls, stream->stream);
        timed = queue == MOVER_COMPUTE;
        wait_on_stream(streams, stream->stream, q, ticket);
    }
    if (timed)
        stalls_end(streams->stalls, stream->stream);
}

/* An event keeps the next kernel waiting for 2 to 3 us on an H200. Of the compute stream's pieces
 * those get one that something waits for (cover), and each FREED-th. */
mover_ticket cuda_streams_end(struct cuda_streams *streams, enum mover_queue queue)
{
    struct stream *stream = &streams->stream[queue];
    mover_ticket ticket = ++stream->put;
    make_place(streams, stream, ticket);
    if (queue != MOVER_COMPUTE || ticket % FREED == 0)
        record(streams, stream);
    return ticket;
}

void cuda_streams_thread_done(struct cuda_streams *streams, enum mover_queue queue,
                              mover_ticket ticket)
{
    atomic_store_explicit(&streams->threads_done[queue], ticket, memory_order_release);
}

void cuda_streams_wait(struct cuda_streams *streams, const struct mover_after *after)
{
    for (int q = MOVER_QUEUES - 1; q >= 0; q--) /* compute last: copies wait for it already */
        if (!cuda_streams_is_thread(q) && after->queue[q])
            wait_for(streams, &streams->stream[q], after->queue[q]);
}

struct mover_after cuda_streams_all(const struct cuda_streams *streams)
{
    struct mover_after all;
    for (int q = 0; q < MOVER_QUEUES; q++)
        all.queue[q] = streams->stream[q].put;
    return all;
}

double cuda_streams_stall_seconds(struct cuda_streams *streams)
{
    return stalls_seconds(streams->stalls);
}

/* ---- staging ---- */

bool cuda_staging_open(struct cuda_staging *staging, struct cuda_failure *failure)
{
    *staging = (struct cuda_staging){0};
    return CUDA_TRY(failure,
                    cudaHostAlloc((void **)&staging->places,
                                  CUDA_STAGING_PLACES * CUDA_STAGING_BYTES, cudaHostAllocPortable));
}

void cuda_staging_close(struct cuda_staging *staging)
{
    if (staging->places)
        cudaFreeHost(staging->places);
}

static mover_ticket send_piece(struct cuda_staging *staging, struct cuda_streams *streams,
                               struct cuda_failure *failure, uint8_t *to, uint64_t bytes,
                               const void *from, const struct mover_after *after)
{
    uint32_t place = staging->next++ % CUDA_STAGING_PLACES;
    uint8_t *staged = staging->places + (uint64_t)place * CUDA_STAGING_BYTES;
    const struct mover_after before = {.queue = {[MOVER_COMPUTE] = staging->used_by[place]}};
    cuda_streams_wait(streams, &before);
    memcpy(staged, from, bytes);
    cuda_streams_begin(streams, MOVER_COMPUTE, after);
    CUDA_TRY(failure, cudaMemcpyAsync(to, staged, bytes, cudaMemcpyHostToDevice,
                                      cuda_streams_stream(streams, MOVER_COMPUTE)));
    mover_ticket ticket = cuda_streams_end(streams, MOVER_COMPUTE);
    return staging->used_by[place] = cover(streams, MOVER_COMPUTE, ticket);
}

mover_ticket cuda_staging_send(struct cuda_staging *staging, struct cuda_streams *streams,
                               struct cuda_failure *failure, uint8_t *to, uint64_t bytes,
                               const void *from, const struct mover_after *after)
{
    mover_ticket ticket = 0;
    for (uint64_t done = 0; done < bytes; done += CUDA_STAGING_BYTES)
        ticket = send_piece(staging, streams, failure, to + done,
                            MIN(CUDA_STAGING_BYTES, bytes - done), (const uint8_t *)from + done,
                            after);
    return ticket;
}
