/* A disk: the rate of reading and writing a file by the bytes of a call and by the calls that are
 * under way. */
#include "base/failure.h"
#include "engine/probe/probe_steps.h"
#include "engine/storage/storage.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { FILE_BYTES = 128 << 20, TRANSFER = 16 << 20, LARGE_PAGE = 2 << 20, TRIES = 3 };
#define LONG_SECONDS 0.5 /* one try is then enough */

static const uint64_t blocks[] = {256 << 10, 1 << 20, 4 << 20};
static const uint32_t depths[] = {1, 4, 16};

static bool pass(struct store *store, bool writes, uint8_t *memory, GError **error)
{
    enum { TRANSFERS = FILE_BYTES / TRANSFER };
    struct storage_job *jobs[TRANSFERS];
    bool ok = true;
    for (uint64_t i = 0; i < TRANSFERS; i++) {
        const struct storage_transfer transfer = {.writes = writes,
                                                  .offset = i * TRANSFER,
                                                  .bytes = TRANSFER,
                                                  .memory = memory + i * TRANSFER};
        jobs[i] = storage_begin(store, &transfer);
    }
    for (uint64_t i = 0; i < TRANSFERS; i++)
        ok = storage_finish(jobs[i], ok ? error : NULL) && ok;
    return ok;
}

/* Returns the bytes a second, or 0 after an error. */
static double rate(struct store *store, bool writes, uint8_t *memory, GError **error)
{
    double taken[TRIES];
    uint32_t tries = 0;
    do {
        double start = probe_now();
        if (!pass(store, writes, memory, error))
            return 0;
        taken[tries++] = probe_now() - start;
    } while (tries < TRIES && taken[0] < LONG_SECONDS);
    return FILE_BYTES / probe_median(taken, tries);
}

static void add(struct platform_disk *disk, int writes, const struct storage_options *options,
                double bytes_per_second)
{
    uint32_t count = disk->count[writes]++;
    disk->points[writes] = g_renew(struct platform_disk_point, disk->points[writes], count + 1);
    disk->points[writes][count] = (struct platform_disk_point){options->block_bytes, options->depth,
                                                               bytes_per_second};
}

/* The file is written first, so that what is read is there. */
static bool measure(const struct storage_options *options, struct platform_disk *disk,
                    GError **error)
{
    struct store *store = storage_open(options, error);
    bool ok = store && pass(store, true, options->memory.start, error);
    for (int writes = 1; ok && writes >= 0; writes--) {
        double found = rate(store, writes, options->memory.start, error);
        ok = found > 0;
        if (ok)
            add(disk, writes, options, found);
    }
    if (ok && !disk->source) {
        const struct storage_mode mode = storage_mode(store);
        disk->source = g_strdup_printf(
            "a file of %d MiB in %s, %s%s, median of %d", FILE_BYTES >> 20, options->folder,
            mode.uring ? "io_uring" : "threads", mode.direct ? " and direct I/O" : "", TRIES);
    }
    storage_close(store);
    return ok;
}

/* A disk without room is no failure of the program, and a folder that cannot be used is the user's.
 */
static bool mark(GError **error)
{
    if (error && g_error_matches(*error, STORAGE_ERROR, STORAGE_ERROR_FULL))
        return failure_mark(error, FAILURE_DOES_NOT_FIT);
    if (error && g_error_matches(*error, STORAGE_ERROR, STORAGE_ERROR_IO))
        return failure_mark(error, FAILURE_RUNNING);
    return false;
}

bool probe_disk(const char *folder, struct platform *platform, GError **error)
{
    struct storage_options options = {
        .folder = folder,
        .bytes = FILE_BYTES,
        .memory = {aligned_alloc(LARGE_PAGE, FILE_BYTES), FILE_BYTES}};
    bool ok = true;
    g_assert(options.memory.start);
    madvise(options.memory.start, FILE_BYTES, MADV_HUGEPAGE);
    for (uint64_t i = 0; i < FILE_BYTES; i += STORAGE_ALIGNMENT)
        ((uint8_t *)options.memory.start)[i] = (uint8_t)i;
    for (size_t b = 0; ok && b < G_N_ELEMENTS(blocks); b++)
        for (size_t d = 0; ok && d < G_N_ELEMENTS(depths); d++) {
            options.block_bytes = blocks[b];
            options.depth = depths[d];
            ok = measure(&options, &platform->disk, error);
        }
    free(options.memory.start);
    return ok || mark(error);
}
