#include "fake_runtime.h"

#include <string.h>

/* For device memory it returns before the memory is set. */
cudaError_t cudaMemset(void *memory, int value, size_t bytes)
{
    cudaError_t error;
    if (!fake_enter(&error))
        return error;
    g_assert_true(fake_is_kind(memory, bytes, true));
    fake_queue_default(&(struct piece){.kind = SET, .to = memory, .byte = value, .bytes = bytes});
    return cudaSuccess;
}

/* From pageable memory to the device it returns when it has taken the bytes, which is before they
 * arrive. */
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind)
{
    cudaError_t error;
    (void)kind;
    if (!fake_enter(&error))
        return error;
    fake_finish_default();
    if (fake_is_kind(to, bytes, true)) {
        void *staged = g_memdup2(from, bytes);
        fake_queue_default(&(struct piece){
            .kind = COPY, .to = to, .from = staged, .bytes = bytes, .data = staged});
    } else {
        memcpy(to, from, bytes);
    }
    return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    cudaError_t error;
    if (!fake_enter(&error))
        return error;
    g_assert_true(fake_is_kind(to, bytes, kind != cudaMemcpyDeviceToHost));
    g_assert_true(fake_is_kind(from, bytes, kind != cudaMemcpyHostToDevice));
    const uint8_t *first = to, *second = from;
    g_assert_true(first + bytes <= second || second + bytes <= first);
    return fake_queue(stream,
                      &(struct piece){.kind = COPY, .to = to, .from = from, .bytes = bytes});
}
