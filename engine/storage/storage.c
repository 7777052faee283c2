#include "engine/storage/storage.h"

#include "base/process_limits.h"
#include "base/size.h"
#include "engine/storage/blocks.h"
#include "engine/storage/checksum.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* Calls in a row that may neither read nor write anything before a block is given up. */
enum { MOST_FRUITLESS = 100 };

struct storage_job {
    struct store *storage;
    struct storage_transfer transfer;
    uint64_t blocks, taken, ended;
    uint64_t checksum; /* of the blocks that storage_finish has looked at */
    int failure;       /* the first block's; 0 */
    uint64_t failed_offset, failed_bytes;
    uint64_t order[]; /* [blocks] in which they ended */
};

struct store {
    char *name; /* of the file, for errors */
    int file;
    uint64_t bytes, block_bytes;
    uint32_t depth;
    struct storage_memory memory;
    const struct storage_seam *seam;
    struct storage_mode mode;

    GMutex lock;
    GCond changed;  /* a block can be taken, or the storage is closing */
    GCond ended;    /* a job has ended */
    GQueue waiting; /* jobs with blocks that nobody has taken */
    bool closing;
    struct storage_traffic traffic;

    struct uring *uring; /* or: */
    GThread **threads;   /* [thread_count] */
    uint32_t thread_count;
};

G_DEFINE_QUARK(pstar_storage_error, storage_error)

/* ---- blocks ---- */

static bool take_locked(struct store *storage, struct store_block *block)
{
    struct storage_job *job = g_queue_peek_head(&storage->waiting);
    uint64_t first;
    if (!job)
        return false;
    first = job->taken * storage->block_bytes;
    *block = (struct store_block){.job = job,
                                  .index = job->taken,
                                  .offset = job->transfer.offset + first,
                                  .bytes = MIN(storage->block_bytes, job->transfer.bytes - first),
                                  .memory = (uint8_t *)job->transfer.memory + first,
                                  .writes = job->transfer.writes};
    if (++job->taken == job->blocks)
        g_queue_pop_head(&storage->waiting);
    return true;
}

bool blocks_take(struct store *storage, struct store_block *block)
{
    g_mutex_lock(&storage->lock);
    bool taken = take_locked(storage, block);
    g_mutex_unlock(&storage->lock);
    return taken;
}

bool blocks_await(struct store *storage, struct store_block *block)
{
    bool taken;
    g_mutex_lock(&storage->lock);
    while (!(taken = take_locked(storage, block)) && !storage->closing)
        g_cond_wait(&storage->changed, &storage->lock);
    g_mutex_unlock(&storage->lock);
    return taken;
}

int64_t blocks_issue(const struct store *storage, const struct store_block *block)
{
    const struct storage_seam *seam = storage->seam;
    uint64_t left = block->bytes - block->done;
    return seam && seam->issue
               ? seam->issue(seam->self, block->writes, block->offset + block->done, left)
               : (int64_t)left;
}

/* Direct I/O goes on at aligned offsets only, so what is beyond the last one is done again. A read
 * of nothing is the end of the file. */
bool blocks_note(struct store_block *block, int64_t result)
{
    uint64_t whole = result > 0 ? (uint64_t)result / STORAGE_ALIGNMENT * STORAGE_ALIGNMENT : 0;
    block->done += whole;
    block->fruitless = whole ? 0 : block->fruitless + 1;
    if (result == 0 && !block->writes)
        block->failure = ENODATA;
    else if (result < 0 && result != -EINTR && result != -EAGAIN)
        block->failure = (int)-result;
    else if (block->fruitless > MOST_FRUITLESS)
        block->failure = EIO;
    return !block->failure && block->done < block->bytes;
}

/* Whoever waits for the job computes the checksums, so that reading and writing go on. */
void blocks_end(struct store *storage, const struct store_block *block)
{
    struct storage_job *job = block->job;
    g_mutex_lock(&storage->lock);
    if (block->failure && !job->failure) {
        job->failure = block->failure;
        job->failed_offset = block->offset + block->done;
        job->failed_bytes = block->bytes - block->done;
    }
    job->order[job->ended++] = block->index;
    if (job->ended == job->blocks || job->transfer.checksum)
        g_cond_broadcast(&storage->ended);
    g_mutex_unlock(&storage->lock);
}

int blocks_file(const struct store *storage)
{
    return storage->file;
}

uint32_t blocks_depth(const struct store *storage)
{
    return storage->depth;
}

struct storage_memory blocks_memory(const struct store *storage)
{
    return storage->memory;
}

/* ---- threads ---- */

static int64_t transfer_some(const struct store *storage, const struct store_block *block)
{
    int64_t bytes = blocks_issue(storage, block);
    uint8_t *memory = block->memory + block->done;
    off_t offset = (off_t)(block->offset + block->done);
    ssize_t result;
    if (bytes < 0)
        return bytes;
    result = block->writes ? pwrite(storage->file, memory, (size_t)bytes, offset)
                           : pread(storage->file, memory, (size_t)bytes, offset);
    return result < 0 ? -errno : result;
}

static void *serve(void *data)
{
    struct store *storage = data;
    struct store_block block;
    while (blocks_await(storage, &block)) {
        while (blocks_note(&block, transfer_some(storage, &block)))
            continue;
        blocks_end(storage, &block);
    }
    return NULL;
}

static bool start_threads(struct store *storage, GError **error)
{
    storage->threads = g_new0(GThread *, storage->depth);
    while (storage->thread_count < storage->depth) {
        GThread *thread = process_thread_new("storage", serve, storage, error);
        if (!thread)
            return false;
        storage->threads[storage->thread_count++] = thread;
    }
    return true;
}

/* ---- opening ---- */

/* A file without a name leaves nothing behind, however the process ends. */
static int create_nameless(const char *folder, int flags)
{
    g_autofree char *path = NULL;
    int file = open(folder, flags | O_TMPFILE, 0600);
    if (file >= 0 || (errno != EOPNOTSUPP && errno != EISDIR))
        return file;
    path = g_build_filename(folder, "pstar-storage-XXXXXX", NULL);
    file = g_mkstemp_full(path, flags, 0600);
    if (file >= 0)
        unlink(path);
    return file;
}

static int create(const struct storage_options *options, bool direct)
{
    int flags = O_RDWR | O_CLOEXEC | (direct ? O_DIRECT : 0);
    if (direct && options->seam && options->seam->no_direct) {
        errno = EINVAL;
        return -1;
    }
    return options->path ? open(options->path, flags | O_CREAT, 0600)
                         : create_nameless(options->folder, flags);
}

static bool refuse_open(const char *name, GError **error)
{
    g_set_error(error, STORAGE_ERROR, STORAGE_ERROR_OPEN,
                "%s: cannot open it for reading and "
                "writing: %s",
                name, g_strerror(errno));
    return false;
}

bool storage_check_folder(const char *folder, GError **error)
{
    int file = create_nameless(folder, O_RDWR | O_CLOEXEC);
    if (file < 0)
        return refuse_open(folder, error);
    close(file);
    return true;
}

static bool open_file(struct store *storage, const struct storage_options *options, GError **error)
{
    storage->file = create(options, true);
    storage->mode.direct = storage->file >= 0;
    if (storage->file < 0 && errno == EINVAL)
        storage->file = create(options, false);
    return storage->file >= 0 || refuse_open(storage->name, error);
}

static bool refuse_size(const struct store *storage, int failure, GError **error)
{
    g_autofree char *size = size_format(storage->bytes), *there = NULL;
    struct statvfs room;
    if (fstatvfs(storage->file, &room) == 0)
        there = size_format((uint64_t)room.f_bavail * room.f_frsize);
    g_set_error(error, STORAGE_ERROR, STORAGE_ERROR_FULL, "%s: there is no room for %s: %s%s%s",
                storage->name, size, g_strerror(failure), there ? "; free there: " : "",
                there ? there : "");
    return false;
}

/* File systems that cannot reserve only set the size. They may run out of room later. */
static bool reserve(const struct store *storage, GError **error)
{
    while (fallocate(storage->file, 0, 0, (off_t)storage->bytes) < 0)
        if (errno != EINTR) {
            if (errno == EOPNOTSUPP && ftruncate(storage->file, (off_t)storage->bytes) == 0)
                return true;
            return refuse_size(storage, errno, error);
        }
    return true;
}

static bool refuse_uring(const struct store *storage, GError **error)
{
    g_set_error(error, STORAGE_ERROR, STORAGE_ERROR_OPEN, "%s: cannot be used by io_uring: %s",
                storage->name, storage->mode.reason);
    return false;
}

static void start_uring(struct store *storage)
{
    int failure = storage->seam && storage->seam->no_uring ? EPERM : 0;
    if (!storage->mode.direct) {
        storage->mode.reason = "the file system refuses direct I/O";
        return;
    }
    if (!failure)
        storage->uring = uring_start(storage, &failure);
    storage->mode.uring = storage->uring;
    storage->mode.registered = storage->uring && uring_is_registered(storage->uring);
    storage->mode.reason = storage->uring ? NULL : g_strerror(failure);
}

static bool start(struct store *storage, enum storage_way way, GError **error)
{
    if (way != STORAGE_THREADS)
        start_uring(storage);
    if (way == STORAGE_URING && !storage->uring)
        return refuse_uring(storage, error);
    return storage->uring || start_threads(storage, error);
}

static bool is_aligned(uint64_t bytes)
{
    return bytes % STORAGE_ALIGNMENT == 0;
}

struct store *storage_open(const struct storage_options *options, GError **error)
{
    struct store *storage = g_new0(struct store, 1);
    g_assert(!options->path != !options->folder);
    g_assert(options->bytes && is_aligned(options->bytes));
    g_assert(options->block_bytes && is_aligned(options->block_bytes));
    g_assert(options->block_bytes <= G_MAXINT32);
    g_assert(options->depth && options->depth <= STORAGE_DEPTH_LIMIT);
    g_assert(is_aligned((uintptr_t)options->memory.start));
    storage->name = g_strdup(options->path ? options->path : options->folder);
    storage->file = -1;
    storage->bytes = options->bytes;
    storage->block_bytes = options->block_bytes;
    storage->depth = options->depth;
    storage->memory = options->memory;
    storage->seam = options->seam;
    g_mutex_init(&storage->lock);
    g_cond_init(&storage->changed);
    g_cond_init(&storage->ended);
    g_queue_init(&storage->waiting);
    if (open_file(storage, options, error) && reserve(storage, error) &&
        start(storage, options->way, error))
        return storage;
    storage_close(storage);
    return NULL;
}

void storage_close(struct store *storage)
{
    if (!storage)
        return;
    g_mutex_lock(&storage->lock);
    storage->closing = true;
    g_cond_broadcast(&storage->changed);
    g_mutex_unlock(&storage->lock);
    if (storage->uring)
        uring_stop(storage->uring);
    for (uint32_t t = 0; t < storage->thread_count; t++)
        g_thread_join(storage->threads[t]);
    if (storage->file >= 0)
        close(storage->file);
    g_mutex_clear(&storage->lock);
    g_cond_clear(&storage->changed);
    g_cond_clear(&storage->ended);
    g_free(storage->threads);
    g_free(storage->name);
    g_free(storage);
}

/* ---- transfers ---- */

struct storage_job *storage_begin(struct store *storage, const struct storage_transfer *transfer)
{
    uint64_t blocks = (transfer->bytes + storage->block_bytes - 1) / storage->block_bytes;
    struct storage_job *job = g_malloc0(sizeof *job + blocks * sizeof *job->order);
    g_assert(transfer->bytes && is_aligned(transfer->bytes) && is_aligned(transfer->offset));
    g_assert(is_aligned((uintptr_t)transfer->memory));
    g_assert(transfer->bytes <= storage->bytes &&
             transfer->offset <= storage->bytes - transfer->bytes);
    job->storage = storage;
    job->transfer = *transfer;
    job->blocks = blocks;
    g_mutex_lock(&storage->lock);
    g_queue_push_tail(&storage->waiting, job);
    g_cond_broadcast(&storage->changed);
    g_mutex_unlock(&storage->lock);
    if (storage->uring)
        uring_wake(storage->uring);
    return job;
}

static bool refuse_job(const struct storage_job *job, GError **error)
{
    const struct storage_transfer *transfer = &job->transfer;
    bool full = job->failure == ENOSPC || job->failure == EDQUOT;
    g_set_error(error, STORAGE_ERROR, full ? STORAGE_ERROR_FULL : STORAGE_ERROR_IO,
                "%s: cannot %s %" G_GUINT64_FORMAT " bytes at offset %" G_GUINT64_FORMAT "%s%s: %s",
                job->storage->name, transfer->writes ? "write" : "read", job->failed_bytes,
                job->failed_offset, transfer->subject ? ", of " : "",
                transfer->subject ? transfer->subject : "",
                job->failure == ENODATA ? "the file ends there" : g_strerror(job->failure));
    return false;
}

static bool refuse_damage(const struct storage_job *job, GError **error)
{
    const struct storage_transfer *transfer = &job->transfer;
    g_set_error(error, STORAGE_ERROR, STORAGE_ERROR_DAMAGED,
                "%s: damaged: %s, %" G_GUINT64_FORMAT " bytes at offset %" G_GUINT64_FORMAT
                ", not as written (its checksum is %016" G_GINT64_MODIFIER
                "x, and was %016" G_GINT64_MODIFIER "x)",
                job->storage->name, transfer->subject ? transfer->subject : "a transfer",
                transfer->bytes, transfer->offset, job->checksum, *transfer->checksum);
    return false;
}

static bool settle(const struct storage_job *job, GError **error)
{
    const struct storage_transfer *transfer = &job->transfer;
    if (job->failure)
        return refuse_job(job, error);
    if (transfer->checksum && transfer->writes)
        *transfer->checksum = job->checksum;
    else if (transfer->checksum && *transfer->checksum != job->checksum)
        return refuse_damage(job, error);
    return true;
}

static void add_checksum(struct storage_job *job, uint64_t index)
{
    uint64_t first = index * job->storage->block_bytes;
    if (job->transfer.checksum)
        job->checksum += checksum_block((const uint8_t *)job->transfer.memory + first,
                                        MIN(job->storage->block_bytes, job->transfer.bytes - first),
                                        index);
}

/* Waits for all blocks, and looks at each when it has ended. */
static void wait_for_blocks(struct storage_job *job)
{
    struct store *storage = job->storage;
    uint64_t seen = 0;
    g_mutex_lock(&storage->lock);
    while (seen < job->blocks) {
        uint64_t ended = job->ended;
        if (seen == ended) {
            g_cond_wait(&storage->ended, &storage->lock);
            continue;
        }
        g_mutex_unlock(&storage->lock);
        for (; seen < ended; seen++)
            add_checksum(job, job->order[seen]);
        g_mutex_lock(&storage->lock);
    }
    g_mutex_unlock(&storage->lock);
}

bool storage_finish(struct storage_job *job, GError **error)
{
    struct store *storage = job->storage;
    bool writes = job->transfer.writes, ok;
    wait_for_blocks(job);
    ok = settle(job, error);
    g_mutex_lock(&storage->lock);
    storage->traffic.bytes[writes] += ok ? job->transfer.bytes : 0;
    storage->traffic.transfers[writes] += ok;
    g_mutex_unlock(&storage->lock);
    g_free(job);
    return ok;
}

struct storage_mode storage_mode(const struct store *storage)
{
    return storage->mode;
}

struct storage_traffic storage_traffic(struct store *storage)
{
    g_mutex_lock(&storage->lock);
    struct storage_traffic traffic = storage->traffic;
    g_mutex_unlock(&storage->lock);
    return traffic;
}
