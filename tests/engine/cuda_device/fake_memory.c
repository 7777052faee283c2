#include "fake_runtime.h"

#include <string.h>

enum memory_kind { ON_DEVICE, PINNED, PINNED_MAPPED };

struct range {
    const uint8_t *start;
    size_t bytes;
    enum memory_kind kind;
};

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

bool fake_is_kind(const void *start, size_t bytes, bool on_device)
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
    if (!fake_enter(&error))
        return error;
    *memory = g_aligned_alloc(1, bytes, 4096);
    memset(*memory, 0xA5, bytes);
    add_range(*memory, bytes, ON_DEVICE);
    return cudaSuccess;
}

cudaError_t cudaFree(void *memory)
{
    fake_finish_default();
    if (memory)
        remove_range(memory);
    g_aligned_free(memory);
    return fake.failure;
}

cudaError_t cudaHostAlloc(void **memory, size_t bytes, unsigned int flags)
{
    cudaError_t error;
    if (!fake_enter(&error))
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
    if (fake_enter(&error))
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

cudaError_t cudaMemGetInfo(size_t *available, size_t *total)
{
    cudaError_t error;
    uint64_t used = FAKE_CUDA_CONTEXT_BYTES;
    if (!fake_enter(&error))
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

void fake_cuda_check_all_freed(void)
{
    g_assert_true(!fake.ranges || fake.ranges->len == 0);
    g_assert_cmpint(fake.objects, ==, 0);
    g_clear_pointer(&fake.ranges, g_array_unref);
    g_clear_pointer(&fake.legacy, fake_stream_free);
}
