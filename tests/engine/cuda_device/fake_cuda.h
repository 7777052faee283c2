/* A CUDA runtime without a GPU: streams are threads, device memory is the host's, and every piece
 * of work may take a while before it runs, so that work which is not ordered soon runs out of
 * order. It fails the test where a copy is not what its kind says, leaves an allocation, overlaps
 * itself, or would not be asynchronous on a GPU because its host memory is not pinned. What CUDA
 * queues on the default stream and returns from is as late here. */
#ifndef PSTAR_TESTS_FAKE_CUDA_H
#define PSTAR_TESTS_FAKE_CUDA_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

/* Queues `run(data)` on the stream, as a kernel would be. `data` is freed with g_free. */
cudaError_t fake_cuda_launch(cudaStream_t stream, void (*run)(void *data), void *data);

/* A kernel is loaded, which waits for all streams on a GPU: fails the test where one of them waits
 * for the host, whose calls may not come through meanwhile. */
void fake_cuda_load(void);

/* The n-th call from now on, and all after it, fail with `error`; 0: none does. */
void fake_cuda_fail(uint64_t nth, cudaError_t error);

/* Calls so far that may fail. */
uint64_t fake_cuda_calls(void);

/* While stopped streams take up no work. */
void fake_cuda_stop(bool stopped);

/* Microseconds that a piece of work waits at most; which do is drawn. */
void fake_cuda_delay(uint32_t microseconds);

/* The device's memory, of which the context takes a share; allocations are counted, not refused. */
#define FAKE_CUDA_BYTES         ((uint64_t)1 << 30)
#define FAKE_CUDA_CONTEXT_BYTES ((uint64_t)300 << 20)

/* Other programs hold so much of it. */
void fake_cuda_hold(uint64_t bytes);

/* Nothing that was allocated or created is left. */
void fake_cuda_check_all_freed(void);

#endif
