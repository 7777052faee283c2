/* A CUDA runtime without a GPU. Streams are threads, device memory is the host's, and every piece
 * of work may take a while before it runs, so that work in no order soon runs out of order. A test
 * fails if a copy is not what its kind says, leaves an allocation, overlaps itself, or would not be
 * asynchronous on a GPU because its host memory is not pinned. Work that CUDA queues on the default
 * stream before it returns is late here, too. */
#ifndef PSTAR_TESTS_ENGINE_CUDA_DEVICE_FAKE_CUDA_H
#define PSTAR_TESTS_ENGINE_CUDA_DEVICE_FAKE_CUDA_H

#include <cuda_runtime_api.h>
#include <stdbool.h>
#include <stdint.h>

/* Queues `run(data)` on the stream, as a kernel would be. `data` is freed with g_free. */
cudaError_t fake_cuda_launch(cudaStream_t stream, void (*run)(void *data), void *data);

/* A kernel is loaded, which on a GPU waits for all streams. Fails the test if one of them waits for
 * the host, whose calls might not return in the meantime. */
void fake_cuda_load(void);

/* From the n-th call on, all calls fail with `error`; 0 for none. */
void fake_cuda_fail(uint64_t nth, cudaError_t error);

/* Returns the number of calls so far that may fail. */
uint64_t fake_cuda_calls(void);

/* Returns how many events have been recorded so far. */
uint64_t fake_cuda_records(void);

/* While stopped, streams take up no work. */
void fake_cuda_stop(bool stopped);

/* The most microseconds that a piece of work waits; the actual time is drawn. */
void fake_cuda_delay(uint32_t microseconds);

/* As many ranks as a host may have. All devices are alike; a process uses one. */
#define FAKE_CUDA_DEVICES 4

/* The device's memory, of which the context takes a part. Allocations are counted, not refused. */
#define FAKE_CUDA_BYTES         ((uint64_t)1 << 30)
#define FAKE_CUDA_CONTEXT_BYTES ((uint64_t)300 << 20)

/* Makes other programs hold `bytes` of it. */
void fake_cuda_hold(uint64_t bytes);

/* Asserts that everything that was allocated or created has been freed. */
void fake_cuda_check_all_freed(void);

#endif
