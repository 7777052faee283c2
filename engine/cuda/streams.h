/* The CUDA device's queues: a stream for compute and for each direction, and the host's.
 *
 * A ticket is the number of a piece of work in its queue, from 1. Behind each piece on a stream
 * stands an event, of a ring of them: one is used again only when its piece is known to be
 * complete. The host's progress is a number in pinned memory, on which streams wait by themselves
 * (cuStreamWaitValue64), so that nobody has to be there when an update on the host ends. */
#ifndef PSTAR_ENGINE_CUDA_STREAMS_H
#define PSTAR_ENGINE_CUDA_STREAMS_H

#include "chunks/residency/mover.h"
#include "engine/device.h"
#include <cuda_runtime_api.h>

/* The first call of the CUDA runtime that failed. Errors of queued work come with whichever call is
 * next, so later ones say nothing new. */
struct cuda_failure {
    GMutex lock;
    cudaError_t error; /* cudaSuccess: none */
    const char *call;
};

/* Any thread. Whether there is none, in this call. */
bool cuda_failure_note(struct cuda_failure *failure, cudaError_t error, const char *call);

/* Sets the error from the first failure; false where there is one. */
bool cuda_failure_check(struct cuda_failure *failure, enum device_error code, GError **error);

#define CUDA_TRY(failure, call) cuda_failure_note(failure, call, #call)

struct cuda_streams;

/* On the current device. NULL where CUDA fails; `failure` then says why. It must outlive them. */
struct cuda_streams *cuda_streams_new(struct cuda_failure *failure);
/* What is queued is completed first. */
void cuda_streams_free(struct cuda_streams *streams);

/* NULL for MOVER_HOST. */
cudaStream_t cuda_streams_stream(const struct cuda_streams *streams, enum mover_queue queue);

/* A piece of work on a stream: what is queued between the two runs when all of `after` is complete.
 * One thread. */
void cuda_streams_begin(struct cuda_streams *streams, enum mover_queue queue,
                        const struct mover_after *after);
mover_ticket cuda_streams_end(struct cuda_streams *streams, enum mover_queue queue);

/* The host's piece of work `ticket` is complete. Called in the order of the tickets. */
void cuda_streams_host_done(struct cuda_streams *streams, mover_ticket ticket);

/* Returns when the pieces of `after` on streams are complete; the host's is not waited for. Any
 * thread. */
void cuda_streams_wait(struct cuda_streams *streams, const struct mover_after *after);

/* Everything queued on streams so far. */
struct mover_after cuda_streams_all(const struct cuda_streams *streams);

/* Seconds in which the compute stream waited for others, of waits that are over. */
double cuda_streams_stall_seconds(struct cuda_streams *streams);

/* Small pinned places through which bytes of the caller go to the device behind earlier work. */
enum { CUDA_STAGING_PLACES = 4, CUDA_STAGING_BYTES = 1 << 20 };

struct cuda_staging {
    uint8_t *places; /* pinned */
    mover_ticket used_by[CUDA_STAGING_PLACES];
    uint32_t next;
};

bool cuda_staging_open(struct cuda_staging *staging, struct cuda_failure *failure);
void cuda_staging_close(struct cuda_staging *staging);

/* Sends bytes, in pieces, through the compute stream; the ticket of the last. */
mover_ticket cuda_staging_send(struct cuda_staging *staging, struct cuda_streams *streams,
                               struct cuda_failure *failure, uint8_t *to, uint64_t bytes,
                               const void *from, const struct mover_after *after);

#endif
