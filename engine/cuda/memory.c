#include "engine/cuda/memory.h"

#include "base/fault.h"
#include "base/size.h"
#include "engine/host/machine.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

static bool refuse(GError **error, const char *what, uint64_t bytes, const char *why)
{
    g_autofree char *size = size_format(bytes);
    g_set_error(error, DEVICE_ERROR, DEVICE_ERROR_MEMORY, "cannot allocate %s of %s: %s", what,
                size, why);
    return false;
}

/* The memory is zeroed when it returns: the default stream clears it, and our streams do not wait
 * for that one. */
static bool take_on_device(uint8_t **memory, const char *what, uint64_t bytes, GError **error)
{
    cudaError_t failed = fault_strikes(FAULT_DEVICE_MEMORY) ? cudaErrorMemoryAllocation
                                                            : cudaMalloc((void **)memory, bytes);
    if (failed == cudaSuccess)
        failed = cudaMemset(*memory, 0, bytes);
    if (failed == cudaSuccess)
        failed = cudaStreamSynchronize(NULL);
    return failed == cudaSuccess || refuse(error, what, bytes, cudaGetErrorString(failed));
}

enum { MOST_TOUCHERS = 16, SHARE_MULTIPLE = 2 << 20 };

struct share {
    uint8_t *start;
    uint64_t bytes;
    int failed; /* errno, or 0 */
};

static void *touch(void *data)
{
    struct share *share = data;
    share->failed = madvise(share->start, share->bytes, MADV_POPULATE_WRITE) == 0 ? 0 : errno;
    return NULL;
}

/* Returns whether the system has so much memory. Several threads touch it, because the system
 * clears every page. On Linux before 5.14 pages come later. */
static bool populate(uint8_t *pool, uint64_t bytes)
{
    uint32_t count = MIN(g_get_num_processors(), MOST_TOUCHERS);
    uint64_t each = (bytes / count / SHARE_MULTIPLE + 1) * SHARE_MULTIPLE;
    struct share shares[MOST_TOUCHERS];
    GThread *threads[MOST_TOUCHERS];
    bool ok = true;
    count = (uint32_t)((bytes + each - 1) / each);
    for (uint32_t i = 0; i < count; i++) {
        shares[i] = (struct share){pool + i * each, MIN(each, bytes - i * each), 0};
        threads[i] = g_thread_try_new("touch", touch, &shares[i], NULL);
        if (!threads[i])
            touch(&shares[i]);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (threads[i])
            g_thread_join(threads[i]);
        ok = ok && shares[i].failed != ENOMEM;
    }
    return ok;
}

/* The pool is mapped, not allocated by CUDA, so that several threads fault it in and its size is
 * the plan's to the page. */
static bool take_on_host(struct cuda_memory *memory, const struct nodes_spread *spread,
                         GError **error)
{
    static const char what[] = "pinned host memory";
    const struct machine_need need = {.host_pool_bytes = memory->host_pool_bytes,
                                      .address_bytes = memory->host_pool_bytes};
    if (!machine_check(&need, error))
        return false;
    void *pool = mmap(NULL, memory->host_pool_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (pool == MAP_FAILED)
        return refuse(error, what, memory->host_pool_bytes, g_strerror(errno));
    memory->host = pool;
    madvise(pool, memory->host_pool_bytes, MADV_HUGEPAGE);
    if (spread)
        nodes_touch(spread, pool, memory->host_pool_bytes);
    if (!populate(pool, memory->host_pool_bytes))
        return refuse(error, what, memory->host_pool_bytes, g_strerror(ENOMEM));
    cudaError_t failed = fault_strikes(FAULT_PINNED_MEMORY)
                             ? cudaErrorMemoryAllocation
                             : cudaHostRegister(pool, memory->host_pool_bytes,
                                                cudaHostRegisterPortable);
    return failed == cudaSuccess ||
           refuse(error, what, memory->host_pool_bytes, cudaGetErrorString(failed));
}

bool cuda_memory_open(struct cuda_memory *memory, uint64_t arena_bytes, uint64_t host_pool_bytes,
                      const struct nodes_spread *spread, GError **error)
{
    *memory = (struct cuda_memory){.arena_bytes = arena_bytes, .host_pool_bytes = host_pool_bytes};
    bool ok = take_on_device(&memory->bounce, "device memory", CUDA_MEMORY_BOUNCE, error) &&
              (!arena_bytes || take_on_device(&memory->arena, "arena", arena_bytes, error)) &&
              (!host_pool_bytes || take_on_host(memory, spread, error));
    if (!ok)
        cuda_memory_close(memory);
    return ok;
}

void cuda_memory_close(struct cuda_memory *memory)
{
    cudaFree(memory->arena);
    cudaFree(memory->bounce);
    if (memory->host) {
        cudaHostUnregister(memory->host);
        munmap(memory->host, memory->host_pool_bytes);
    }
    (void)cudaGetLastError(); /* for memory that was never pinned */
    *memory = (struct cuda_memory){0};
}

static cudaError_t copy(uint8_t *to, const uint8_t *from, uint64_t bytes, cudaStream_t stream)
{
    return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}

/* Moves a piece at a time, from the end that is not overwritten. Pieces as long as the distance do
 * not overlap; where the distance is short, pieces go through the bounce buffer. */
cudaError_t cuda_memory_move(const struct cuda_memory *memory, uint64_t to, uint64_t from,
                             uint64_t bytes, cudaStream_t stream)
{
    uint64_t distance = to < from ? from - to : to - from;
    bool bounce = distance < MIN(bytes, CUDA_MEMORY_BOUNCE);
    uint64_t piece = bounce ? CUDA_MEMORY_BOUNCE : distance;
    cudaError_t failed = cudaSuccess;
    for (uint64_t done = 0; distance && done < bytes && failed == cudaSuccess; done += piece) {
        uint64_t now = MIN(piece, bytes - done);
        uint64_t at = to < from ? done : bytes - done - now;
        if (bounce) {
            failed = copy(memory->bounce, memory->arena + from + at, now, stream);
            if (failed == cudaSuccess)
                failed = copy(memory->arena + to + at, memory->bounce, now, stream);
        } else {
            failed = copy(memory->arena + to + at, memory->arena + from + at, now, stream);
        }
    }
    return failed;
}
