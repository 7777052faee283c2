/* A file that is read in pieces where they are needed. It is not mapped: a map of a file that is
 * cut off ends the program. */
#ifndef PSTAR_ENGINE_TRAIN_FILE_PIECES_H
#define PSTAR_ENGINE_TRAIN_FILE_PIECES_H

#include <glib.h>
#include <stdint.h>

struct file_pieces {
    int descriptor;
    uint64_t bytes; /* when it was opened */
    gint failure;   /* errno of a read that failed, or ENODATA if it found fewer; or 0; atomic */
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

#endif
