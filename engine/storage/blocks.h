/* What the two ways of reading and writing share: which block comes next, and what becomes of its
 * result. For engine/storage/ alone. */
#ifndef PSTAR_ENGINE_STORAGE_BLOCKS_H
#define PSTAR_ENGINE_STORAGE_BLOCKS_H

#include "engine/storage/storage.h"

/* A block of a transfer, of which `done` bytes are read or written. */
struct store_block {
    struct storage_job *job;
    uint64_t index;  /* within the transfer, from 0 */
    uint64_t offset; /* in the file */
    uint64_t bytes;
    uint8_t *memory;
    bool writes;
    uint64_t done;
    uint32_t fruitless; /* calls since the last byte */
    int failure;        /* an errno; 0 if there was none */
};

/* Takes the next block that nobody has taken. Returns false if there is none now. */
bool blocks_take(struct store *storage, struct store_block *block);
/* The same, but waits for one. Returns false if the storage is closing. */
bool blocks_await(struct store *storage, struct store_block *block);

/* Asks the seam how much of what is left of the block may be read or written, or says that it
 * fails, as the seam's issue does. */
int64_t blocks_issue(const struct store *storage, const struct store_block *block);

/* Notes what a call returned: bytes, or the negative of an errno. Returns whether something is left
 * to be done. */
bool blocks_note(struct store_block *block, int64_t result);

/* Ends a block of which nothing is left to be done, or which failed. */
void blocks_end(struct store *storage, const struct store_block *block);

int blocks_file(const struct store *storage);
uint32_t blocks_depth(const struct store *storage);
struct storage_memory blocks_memory(const struct store *storage);

/* The way with io_uring, in one thread. */
struct uring;
/* Returns NULL, with the errno in *failure, where io_uring cannot be. */
struct uring *uring_start(struct store *storage, int *failure);
/* Says that there are blocks to take. */
void uring_wake(struct uring *uring);
bool uring_is_registered(const struct uring *uring);
/* Returns when all blocks are done and the thread has ended. */
void uring_stop(struct uring *uring);

#endif
