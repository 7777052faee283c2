/* How long a stream waits between pairs of events. */
#ifndef PSTAR_ENGINE_CUDA_STALLS_H
#define PSTAR_ENGINE_CUDA_STALLS_H

#include "engine/cuda/failure.h"

struct cuda_stalls;

/* NULL where CUDA fails. `failure` must outlive them. */
struct cuda_stalls *cuda_stalls_new(struct cuda_failure *failure);
/* The stream must be idle; may be NULL. */
void cuda_stalls_free(struct cuda_stalls *stalls);

/* Around what the stream waits for. One thread. */
void cuda_stalls_begin(struct cuda_stalls *stalls, cudaStream_t stream);
void cuda_stalls_end(struct cuda_stalls *stalls, cudaStream_t stream);

/* Sum of those that are over. */
double cuda_stalls_seconds(struct cuda_stalls *stalls);

#endif
