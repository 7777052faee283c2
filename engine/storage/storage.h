/* A file below host memory, for blocks that memory does not hold: whole transfers go in and out
 * behind the caller, several blocks at a time, past the system's cache of files.
 *
 * On Linux this takes io_uring with direct I/O and registered buffers. Where the kernel forbids
 * io_uring, or the file system refuses direct I/O, threads do the same with pread and pwrite. Both
 * ways read and write the same bytes and report the same errors. */
#ifndef PSTAR_ENGINE_STORAGE_STORAGE_H
#define PSTAR_ENGINE_STORAGE_STORAGE_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Offsets, lengths and memory of transfers are multiples of this many bytes. */
#define STORAGE_ALIGNMENT 4096

enum { STORAGE_DEPTH_LIMIT = 256 };

enum storage_way {
    STORAGE_BEST,   /* io_uring, or threads where that cannot be */
    STORAGE_URING,  /* fails where io_uring or direct I/O cannot be */
    STORAGE_THREADS /* direct I/O if the file system has it */
};

enum storage_error {
    STORAGE_ERROR_OPEN,   /* there can be no such file */
    STORAGE_ERROR_FULL,   /* the file system has no room */
    STORAGE_ERROR_IO,     /* reading or writing failed */
    STORAGE_ERROR_DAMAGED /* what was read is not what was written */
};
#define STORAGE_ERROR storage_error_quark()
GQuark storage_error_quark(void);

/* Memory that stays where it is while the file is open. */
struct storage_memory {
    void *start; /* aligned */
    uint64_t bytes;
};

/* Faults for tests. */
struct storage_seam {
    bool no_uring;  /* as if the kernel forbade io_uring */
    bool no_direct; /* as if the file system refused direct I/O */
    /* Called before each block is read or written, from any thread; may sleep. Returns how many
     * bytes are read or written instead, at most `bytes` and aligned, or the negative of an errno,
     * with which the block then fails. May be NULL. */
    int64_t (*issue)(void *self, bool writes, uint64_t offset, uint64_t bytes);
    void *self;
};

struct storage_options {
    /* Either the path of a file that stays, or a folder in which the file has no name and ends with
     * the process. */
    const char *path, *folder;
    uint64_t bytes;       /* of the file, reserved at once; aligned, above 0 */
    uint64_t block_bytes; /* that one call reads or writes; aligned, above 0 */
    uint32_t depth;       /* blocks under way at a time; from 1 to STORAGE_DEPTH_LIMIT */
    enum storage_way way;
    /* Memory of most transfers, which io_uring then need not map each time; start may be NULL. */
    struct storage_memory memory;
    const struct storage_seam *seam; /* NULL but in tests; must outlive the storage */
};

struct store;

/* Creates the file, or opens one that is there and keeps what is in it, and reserves its bytes.
 * Fails with STORAGE_ERROR_FULL, with what is free, or with STORAGE_ERROR_OPEN. */
struct store *storage_open(const struct storage_options *options, GError **error);
/* Completes what is under way. Every transfer must have been finished. NULL is allowed. */
void storage_close(struct store *storage);
/* Returns whether a file can be made in the folder. Leaves nothing there. */
bool storage_check_folder(const char *folder, GError **error);

struct storage_transfer {
    bool writes;
    uint64_t offset, bytes; /* in the file; aligned */
    void *memory;           /* aligned; the storage's until the transfer is finished */
    /* Writing sets it to the checksum of the bytes, and reading compares. May be NULL; the
     * storage's until the transfer is finished. A checksum holds for the same offset, bytes and
     * block_bytes. */
    uint64_t *checksum;
    const char *subject; /* what the bytes are, for errors; may be NULL; outlives the transfer */
};

struct storage_job;

/* Begins a transfer, which copies the description. Blocks of transfers are taken in the order in
 * which the transfers began, and may end in any order. Any thread may call this. */
struct storage_job *storage_begin(struct store *storage, const struct storage_transfer *transfer);
/* Waits for the transfer, computes its checksum meanwhile, and frees the job. Fails with
 * STORAGE_ERROR_IO or STORAGE_ERROR_FULL, with the file and the offset, or with
 * STORAGE_ERROR_DAMAGED. */
bool storage_finish(struct storage_job *job, GError **error);

/* How the file is read and written. */
struct storage_mode {
    bool uring, direct, registered;
    const char *reason; /* why not by io_uring; NULL if it is, or if threads were asked for */
};
struct storage_mode storage_mode(const struct store *storage);

/* The bytes and transfers that were finished without an error: [0] read, [1] written. */
struct storage_traffic {
    uint64_t bytes[2], transfers[2];
};
struct storage_traffic storage_traffic(struct store *storage);

#endif
