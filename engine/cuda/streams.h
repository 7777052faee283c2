/* The CUDA device's queues: a stream for compute and for each direction, and the host's.
 *
 * A ticket is the number of a piece of work in its queue, from 1. Behind each piece on a stream
 * stands an event, of a ring of them: one is used again only when its piece is known to be
 * complete. The host's progress is a number in pinned memory, on which streams wait by themselves
 * (cuStreamWaitValue64), so that nobody has to be there when an update on the host ends. */
#ifndef PSTAR_ENGINE_CUDA_STREAMS_H
#define PSTAR_ENGINE_CUDA_STREAMS_H

#include "chunks/residency/mover.h"
#include "engine/cuda/failure.h"

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

#endif
