/* The CUDA device's queues: a stream for compute and for each direction, and the queues of the
 * host's threads, one for its operators and two for the file below the host pool.
 *
 * A ticket is the number of a piece of work in its queue, from 1. Behind each copy and collective
 * stands an event, from a ring of events: an event is used again only when its piece is known to be
 * complete. A piece of the compute stream gets an event when something is queued that waits for it.
 * What waits for an earlier piece than the last then waits for the last, too; copies and the host's
 * operators do so anyway, because they are bound to moments. The progress of a thread's queue
 * is a number in pinned memory, on which streams wait on their own (cuStreamWaitValue64), so that
 * no thread has to act when an update on the host ends. */
#ifndef PSTAR_ENGINE_CUDA_STREAMS_H
#define PSTAR_ENGINE_CUDA_STREAMS_H

#include "chunks/residency/mover.h"
#include "engine/device.h"
#include <cuda_runtime_api.h>

/* The first call of the CUDA runtime that failed. Errors of queued work are reported by whichever
 * call comes next, so later errors say nothing new. */
struct cuda_failure {
    GMutex lock;
    char *text; /* NULL for none */
};

/* Notes the error of a call unless it is cudaSuccess. Returns whether the call succeeded. Any
 * thread may call it. */
bool cuda_failure_note(struct cuda_failure *failure, cudaError_t error, const char *call);

/* Sets *error from the first failure. Returns false if there is one. */
bool cuda_failure_check(struct cuda_failure *failure, enum device_error code, GError **error);

/* Notes why a call of another library failed. Returns false. */
bool cuda_failure_note_reason(struct cuda_failure *failure, const char *reason, const char *call);

/* Notes an error that is described already. Frees `text`. */
void cuda_failure_note_text(struct cuda_failure *failure, char *text);

#define CUDA_TRY(failure, call) cuda_failure_note(failure, call, #call)

struct cuda_streams;

/* Opens streams on the current device. Returns NULL if CUDA fails; `failure` then says why.
 * `failure` must outlive them. */
struct cuda_streams *cuda_streams_new(struct cuda_failure *failure);
/* Completes the queued work first. */
void cuda_streams_free(struct cuda_streams *streams);

/* Lets `flush(data)` queue what the compute stream has still to get, before an event is put behind
 * it. */
void cuda_streams_flush_with(struct cuda_streams *streams, void (*flush)(void *data), void *data);

/* Returns whether a thread of the host does the queue's work. */
static inline bool cuda_streams_is_thread(enum mover_queue queue)
{
    return queue == MOVER_HOST || queue == MOVER_NVME_READ || queue == MOVER_NVME_WRITE;
}

/* Returns NULL for the queue of a thread. */
cudaStream_t cuda_streams_stream(const struct cuda_streams *streams, enum mover_queue queue);

/* Begin and end a piece of work on a stream: what is queued between the two calls runs when all of
 * `after` is complete. Only one thread may call them. */
void cuda_streams_begin(struct cuda_streams *streams, enum mover_queue queue,
                        const struct mover_after *after);
mover_ticket cuda_streams_end(struct cuda_streams *streams, enum mover_queue queue);

/* Reports that a thread's piece of work `ticket` is complete. Called in the order of the queue's
 * tickets. */
void cuda_streams_thread_done(struct cuda_streams *streams, enum mover_queue queue,
                              mover_ticket ticket);

/* Returns tickets that have events, and with which all of `after` is complete. Only the thread that
 * queues may call it. */
struct mover_after cuda_streams_cover(struct cuda_streams *streams,
                                      const struct mover_after *after);

/* Returns when the pieces of `after` on streams are complete; does not wait for threads. Any
 * thread may call it. `after` is what cuda_streams_cover has returned. */
void cuda_streams_wait(struct cuda_streams *streams, const struct mover_after *after);

/* Returns the tickets of everything queued on streams so far. */
struct mover_after cuda_streams_all(const struct cuda_streams *streams);

/* Returns the seconds in which the compute stream waited for others. Counts waits that are over. */
double cuda_streams_stall_seconds(struct cuda_streams *streams);

/* Small pinned places through which the caller's bytes go to the device behind earlier work. */
enum { CUDA_STAGING_PLACES = 4, CUDA_STAGING_BYTES = 1 << 20 };

struct cuda_staging {
    uint8_t *places; /* pinned */
    mover_ticket used_by[CUDA_STAGING_PLACES];
    uint32_t next;
};

bool cuda_staging_open(struct cuda_staging *staging, struct cuda_failure *failure);
void cuda_staging_close(struct cuda_staging *staging);

/* Sends bytes in pieces through the compute stream. Returns the ticket of the last piece. */
mover_ticket cuda_staging_send(struct cuda_staging *staging, struct cuda_streams *streams,
                               struct cuda_failure *failure, uint8_t *to, uint64_t bytes,
                               const void *from, const struct mover_after *after);

#endif
