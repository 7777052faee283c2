/* The file below a device's host pool, on which chunks at home in NVMe live, as both devices have
 * it. */
#ifndef PSTAR_ENGINE_HOST_POOL_FILE_H
#define PSTAR_ENGINE_HOST_POOL_FILE_H

#include "engine/device.h"

struct pool_file;

/* Creates the file and reserves its bytes. `pool` is the host pool, aligned to pages, which
 * outlives the file. Sets *file to NULL if the options name no file. Fails as storage_open, with
 * FAILURE_DOES_NOT_FIT if the disk has no room. */
bool pool_file_open(struct pool_file **file, const struct device_storage *options, void *pool,
                    uint64_t pool_bytes, GError **error);
/* Every transfer must have returned. NULL is allowed. */
void pool_file_close(struct pool_file *file);

/* A piece of work in one of the file's queues, MOVER_NVME_READ and MOVER_NVME_WRITE. */
struct pool_file_work {
    enum mover_queue queue;
    struct device_transfer transfer;
};

/* Copies between file and pool, and returns when that is done. Returns why it failed, to be freed
 * with g_free, or NULL. Any thread may call it. After a failure everything may go on, with bytes
 * that nobody may use, until the device's check says so. */
char *pool_file_transfer(struct pool_file *file, const struct pool_file_work *work);

/* Adds the bytes and transfers that went well. NULL is allowed. */
void pool_file_count(const struct pool_file *file, struct device_traffic *traffic);

#endif
