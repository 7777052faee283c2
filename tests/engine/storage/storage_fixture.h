/* A file in a folder of its own, and memory for transfers, for both ways. */
#ifndef PSTAR_TESTS_ENGINE_STORAGE_STORAGE_FIXTURE_H
#define PSTAR_TESTS_ENGINE_STORAGE_STORAGE_FIXTURE_H

#include "engine/storage/storage.h"

#include <glib/gstdio.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_BYTES = 8 << 20, BLOCK = 64 << 10 };

struct fixture {
    char *folder, *path;
    uint8_t *memory; /* [FILE_BYTES] */
    struct storage_seam seam;
    struct storage_options options;
    struct store *storage;
};

/* `way` is an enum storage_way. */
static inline void set_up(struct fixture *f, const void *way)
{
    f->folder = g_dir_make_tmp("storage-XXXXXX", NULL);
    f->path = g_build_filename(f->folder, "file", NULL);
    f->memory = aligned_alloc(STORAGE_ALIGNMENT, FILE_BYTES);
    memset(f->memory, 0, FILE_BYTES);
    f->options = (struct storage_options){.path = f->path,
                                          .bytes = FILE_BYTES,
                                          .block_bytes = BLOCK,
                                          .depth = 4,
                                          .way = (enum storage_way)GPOINTER_TO_INT(way),
                                          .memory = {f->memory, FILE_BYTES},
                                          .seam = &f->seam};
}

static inline void open_storage(struct fixture *f)
{
    g_autoptr(GError) error = NULL;
    f->storage = storage_open(&f->options, &error);
    g_assert_no_error(error);
}

/* In a build without liburing, or on a kernel that forbids io_uring, there is only one way. */
static inline bool is_missing(struct fixture *f)
{
    g_autoptr(GError) error = NULL;
    if (f->options.way != STORAGE_URING)
        return false;
    struct store *storage = storage_open(&f->options, &error);
    storage_close(storage);
    if (!storage)
        g_test_skip(error->message);
    return !storage;
}

static inline void tear_down(struct fixture *f, const void *way)
{
    (void)way;
    storage_close(f->storage);
    g_unlink(f->path);
    g_rmdir(f->folder);
    g_free(f->folder);
    g_free(f->path);
    free(f->memory);
}

static inline struct storage_transfer transfer_of(struct fixture *f, bool writes, uint64_t offset,
                                                  uint64_t bytes, uint64_t *checksum)
{
    return (struct storage_transfer){.writes = writes,
                                     .offset = offset,
                                     .bytes = bytes,
                                     .memory = f->memory + offset,
                                     .checksum = checksum,
                                     .subject = "chunk 7"};
}

static inline bool transfer(struct fixture *f, bool writes, uint64_t offset, uint64_t bytes,
                            uint64_t *checksum, GError **error)
{
    const struct storage_transfer what = transfer_of(f, writes, offset, bytes, checksum);
    return storage_finish(storage_begin(f->storage, &what), error);
}

static inline void fill_randomly(uint8_t *memory, uint64_t bytes, uint32_t seed)
{
    GRand *random = g_rand_new_with_seed(seed);
    for (uint64_t i = 0; i < bytes; i += 4) {
        uint32_t word = g_rand_int(random);
        memcpy(memory + i, &word, sizeof word);
    }
    g_rand_free(random);
}

#define ADD_BOTH(name, test)                                                                       \
    do {                                                                                           \
        g_test_add("/storage/uring/" name, struct fixture, GINT_TO_POINTER(STORAGE_URING), set_up, \
                   test, tear_down);                                                               \
        g_test_add("/storage/threads/" name, struct fixture, GINT_TO_POINTER(STORAGE_THREADS),     \
                   set_up, test, tear_down);                                                       \
    } while (0)

#endif
