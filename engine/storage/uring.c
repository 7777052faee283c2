/* Blocks by io_uring: one thread keeps the queue full and looks at what comes back. */
#include "engine/storage/blocks.h"

#include <errno.h>
#include <liburing.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* The most that the kernel registers as one buffer. */
#define LARGEST_BUFFER ((uint64_t)1 << 30)

struct uring {
    struct store *storage;
    struct io_uring ring;
    GThread *thread;
    int wake; /* an eventfd */
    bool registered;
    gint stopping; /* atomic */

    /* The thread's. */
    uint64_t woken;             /* what a read of `wake` gives */
    bool listening;             /* the ring reads `wake` */
    struct store_block *blocks; /* [depth] */
    uint32_t *idle; /* [depth] the blocks that are not under way: the first idle_count */
    uint32_t idle_count;
    uint32_t *back; /* [depth] blocks that are done */
};

/* Returns the registered buffer that holds the bytes, or -1. */
static int buffer_of(const struct uring *uring, const uint8_t *memory, uint64_t bytes)
{
    struct storage_memory all = blocks_memory(uring->storage);
    const uint8_t *start = all.start;
    if (!uring->registered || memory < start || memory + bytes > start + all.bytes)
        return -1;
    uint64_t first = (uint64_t)(memory - start) / LARGEST_BUFFER;
    uint64_t last = (uint64_t)(memory - start + bytes - 1) / LARGEST_BUFFER;
    return first == last ? (int)first : -1;
}

static void *data_of(uint32_t slot)
{
    return GUINT_TO_POINTER(slot + 1);
}

/* Puts what is left of the block into the ring. If it fails at once, as a test wants, the ring
 * brings its failure back. */
static void put(struct uring *uring, uint32_t slot)
{
    struct store_block *block = &uring->blocks[slot];
    struct io_uring_sqe *entry = io_uring_get_sqe(&uring->ring);
    int64_t bytes;
    int file = blocks_file(uring->storage);
    uint8_t *memory = block->memory + block->done;
    uint64_t offset = block->offset + block->done;
    while ((bytes = blocks_issue(uring->storage, block)) < 0 && blocks_note(block, bytes))
        continue;
    int buffer = bytes > 0 ? buffer_of(uring, memory, (uint64_t)bytes) : -1;
    if (bytes < 0) {
        io_uring_prep_nop(entry);
    } else if (buffer >= 0 && block->writes) {
        io_uring_prep_write_fixed(entry, file, memory, (unsigned)bytes, offset, buffer);
    } else if (buffer >= 0) {
        io_uring_prep_read_fixed(entry, file, memory, (unsigned)bytes, offset, buffer);
    } else if (block->writes) {
        io_uring_prep_write(entry, file, memory, (unsigned)bytes, offset);
    } else {
        io_uring_prep_read(entry, file, memory, (unsigned)bytes, offset);
    }
    io_uring_sqe_set_data(entry, data_of(slot));
}

static void fill(struct uring *uring)
{
    while (uring->idle_count) {
        uint32_t slot = uring->idle[uring->idle_count - 1];
        if (!blocks_take(uring->storage, &uring->blocks[slot]))
            return;
        uring->idle_count--;
        put(uring, slot);
    }
}

static void listen_for_wake(struct uring *uring)
{
    struct io_uring_sqe *entry;
    if (uring->listening)
        return;
    entry = io_uring_get_sqe(&uring->ring);
    io_uring_prep_read(entry, uring->wake, &uring->woken, sizeof uring->woken, 0);
    io_uring_sqe_set_data(entry, NULL);
    uring->listening = true;
}

/* Takes everything that has come back. Returns the number of blocks that are done. */
static uint32_t reap(struct uring *uring)
{
    struct io_uring_cqe *entry;
    uint32_t done = 0;
    while (io_uring_peek_cqe(&uring->ring, &entry) == 0) {
        uint32_t slot = GPOINTER_TO_UINT(io_uring_cqe_get_data(entry)) - 1;
        int result = entry->res;
        io_uring_cqe_seen(&uring->ring, entry);
        if (slot == UINT32_MAX)
            uring->listening = false;
        else if (!uring->blocks[slot].failure && blocks_note(&uring->blocks[slot], result))
            put(uring, slot);
        else
            uring->back[done++] = slot;
    }
    return done;
}

/* The queue is filled again before the checksums of what came back are computed. */
static void *serve(void *data)
{
    struct uring *uring = data;
    uint32_t depth = blocks_depth(uring->storage);
    g_autofree struct store_block *ended = g_new(struct store_block, depth);
    while (!g_atomic_int_get(&uring->stopping) || uring->idle_count < depth) {
        listen_for_wake(uring);
        fill(uring);
        io_uring_submit_and_wait(&uring->ring, 1);
        uint32_t done = reap(uring);
        for (uint32_t i = 0; i < done; i++) {
            ended[i] = uring->blocks[uring->back[i]];
            uring->idle[uring->idle_count++] = uring->back[i];
        }
        fill(uring);
        io_uring_submit(&uring->ring);
        for (uint32_t i = 0; i < done; i++)
            blocks_end(uring->storage, &ended[i]);
    }
    return NULL;
}

/* Without registered buffers all works, only slower. */
static void register_memory(struct uring *uring)
{
    struct storage_memory memory = blocks_memory(uring->storage);
    uint32_t count = (uint32_t)((memory.bytes + LARGEST_BUFFER - 1) / LARGEST_BUFFER);
    g_autofree struct iovec *buffers = g_new0(struct iovec, count + 1);
    for (uint32_t i = 0; i < count; i++)
        buffers[i] = (struct iovec){(uint8_t *)memory.start + i * LARGEST_BUFFER,
                                    MIN(LARGEST_BUFFER, memory.bytes - i * LARGEST_BUFFER)};
    uring->registered = memory.start && count &&
                        io_uring_register_buffers(&uring->ring, buffers, count) == 0;
}

static void uring_free(struct uring *uring)
{
    if (uring->wake >= 0)
        close(uring->wake);
    g_free(uring->blocks);
    g_free(uring->idle);
    g_free(uring->back);
    g_free(uring);
}

struct uring *uring_start(struct store *storage, int *failure)
{
    uint32_t depth = blocks_depth(storage);
    struct uring *uring = g_new0(struct uring, 1);
    uring->storage = storage;
    uring->wake = eventfd(0, EFD_CLOEXEC);
    uring->blocks = g_new0(struct store_block, depth);
    uring->idle = g_new(uint32_t, depth);
    uring->back = g_new(uint32_t, depth);
    for (uint32_t i = 0; i < depth; i++)
        uring->idle[uring->idle_count++] = i;
    *failure = uring->wake < 0 ? errno : -io_uring_queue_init(2 * depth + 2, &uring->ring, 0);
    if (*failure) {
        uring_free(uring);
        return NULL;
    }
    register_memory(uring);
    uring->thread = g_thread_try_new("storage", serve, uring, NULL);
    if (uring->thread)
        return uring;
    *failure = EAGAIN;
    io_uring_queue_exit(&uring->ring);
    uring_free(uring);
    return NULL;
}

void uring_wake(struct uring *uring)
{
    const uint64_t one = 1;
    while (write(uring->wake, &one, sizeof one) < 0 && errno == EINTR)
        continue;
}

bool uring_is_registered(const struct uring *uring)
{
    return uring->registered;
}

void uring_stop(struct uring *uring)
{
    g_atomic_int_set(&uring->stopping, 1);
    uring_wake(uring);
    g_thread_join(uring->thread);
    io_uring_queue_exit(&uring->ring);
    uring_free(uring);
}
