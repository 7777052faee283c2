/* A file that is read in pieces where they are needed. It is not mapped: a map of a file that is
 * cut off ends the program. */
#ifndef PSTAR_ENGINE_TRAIN_FILE_PIECES_H
#define PSTAR_ENGINE_TRAIN_FILE_PIECES_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

struct file_pieces {
    int descriptor;
    uint64_t bytes; /* when it was opened */
    gint failure;   /* errno of a read that failed, or ENODATA if it found fewer, or ESTALE of
                     * file_pieces_spoil; or 0; atomic */
    struct timespec written; /* the last time, as far as file_pieces_is_written has seen */
};

/* Returns NULL, with errno set, if the file cannot be opened. Any thread may read. A file that is
 * replaced or removed stays open. */
struct file_pieces *file_pieces_open(const char *path);
void file_pieces_close(struct file_pieces *file); /* NULL is allowed */

/* Reads so many bytes from `at` on. Those that are not there any more, or that the disk cannot
 * read, become 0. */
void file_pieces_read(struct file_pieces *file, uint64_t at, size_t bytes, void *to);

/* Returns what is wrong with the file, such as "has become shorter while it is read", as far as any
 * read has found, or NULL. */
const char *file_pieces_problem(const struct file_pieces *file);

/* Returns whether somebody has written to the file since this was asked last, or since it was
 * opened. What has been written may be what was there before. Not for several threads. */
bool file_pieces_is_written(struct file_pieces *file);
/* Marks the file as one that has been changed while it is read, which is then its problem. */
void file_pieces_spoil(struct file_pieces *file);

#endif
