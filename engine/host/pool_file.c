#include "engine/host/pool_file.h"

#include "base/failure.h"
#include "engine/storage/storage.h"

struct pool_file {
    struct store *store;
    uint8_t *pool;
    uint64_t pool_bytes;
};

/* A disk without room is no failure of the program. */
bool pool_file_open(struct pool_file **file, const struct device_storage *options, void *pool,
                    uint64_t pool_bytes, GError **error)
{
    const struct storage_options storage = {.folder = options->folder,
                                            .bytes = options->bytes,
                                            .block_bytes = options->block_bytes,
                                            .depth = options->depth,
                                            .memory = {pool, pool_bytes}};
    *file = NULL;
    if (!options->bytes)
        return true;
    struct store *store = storage_open(&storage, error);
    if (!store) {
        if (error && g_error_matches(*error, STORAGE_ERROR, STORAGE_ERROR_FULL))
            failure_mark(error, FAILURE_DOES_NOT_FIT);
        return false;
    }
    *file = g_new(struct pool_file, 1);
    **file = (struct pool_file){store, pool, pool_bytes};
    return true;
}

void pool_file_close(struct pool_file *file)
{
    if (file)
        storage_close(file->store);
    g_free(file);
}

char *pool_file_transfer(struct pool_file *file, const struct pool_file_work *work)
{
    const struct device_transfer *transfer = &work->transfer;
    const struct storage_transfer stored = {.writes = work->queue == MOVER_NVME_WRITE,
                                            .offset = transfer->nvme_address,
                                            .bytes = transfer->bytes,
                                            .memory = file->pool + transfer->host_address,
                                            .checksum = transfer->checksum,
                                            .subject = transfer->subject};
    g_autoptr(GError) failure = NULL;
    g_assert(transfer->host_address + transfer->bytes <= file->pool_bytes);
    if (storage_finish(storage_begin(file->store, &stored), &failure))
        return NULL;
    return g_strdup(failure->message);
}

void pool_file_count(const struct pool_file *file, struct device_traffic *traffic)
{
    for (int writes = 0; file && writes < 2; writes++) {
        const struct storage_traffic stored = storage_traffic(file->store);
        traffic->bytes[MOVER_NVME_READ + writes] += stored.bytes[writes];
        traffic->copies[MOVER_NVME_READ + writes] += stored.transfers[writes];
    }
}
