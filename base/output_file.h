/* Files that programs write for people and other programs. */
#ifndef PSTAR_BASE_OUTPUT_FILE_H
#define PSTAR_BASE_OUTPUT_FILE_H

#include <glib.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct output_file {
    char *path, *temporary; /* temporary: NULL where what is written goes to path at once */
    FILE *stream;
};

/* Returns what messages call an output: "standard output" for a descriptor's path (see
 * output_stream_open), else its path. */
const char *output_file_name(const char *path);

/* Returns the path of the file that writing to `path` makes or replaces: where symbolic links lead,
 * whose last target may be missing. Free with g_free. */
char *output_file_target(const char *path);

/* Returns a name for the file that is to be moved to `target` when it is complete, which no other
 * process takes. Free with g_free. */
char *output_file_temporary(const char *target);

/* Checks early, before hours of computing its contents, whether an output can be created or
 * replaced. A file without permission to write stays, although its folder would let it be
 * replaced. Returns false with FAILURE_RUNNING (base/failure.h) if not. */
bool output_file_has_place(const char *path, GError **error);
/* The same for a file that is written where it is (output_stream_open). */
bool output_file_grows_in_place(const char *path, GError **error);
/* The same for a folder, which may be there, or is made with the folders above it. */
bool output_folder_has_place(const char *path, GError **error);

/* Opens a file for writing at once, without a temporary file. "/dev/fd/N" writes to the descriptor
 * as it is, without replacing what it is open on. Returns NULL, with errno set, if that fails. */
FILE *output_stream_open(const char *path);
/* Opens a file to go on behind its first `bytes` bytes; the others are removed. Returns NULL with
 * errno set if that cannot be done. */
FILE *output_stream_continue(const char *path, uint64_t bytes);

/* Opens what is to become `path`. It is written beside its place and moved there when complete, so
 * that a file that was there stays whole where writing fails; symbolic links stay links. What is no
 * regular file (a pipe, a device) is written to, never replaced. False, with FAILURE_RUNNING, where
 * that cannot be. */
bool output_file_open(struct output_file *file, const char *path, GError **error);

/* Ends with everything in its place, or, with FAILURE_RUNNING, as if it had not been opened. */
bool output_file_close(struct output_file *file, GError **error);

/* Ends as if it had not been opened. */
void output_file_abandon(struct output_file *file);

/* Removes the files that this process has begun to write for `path`, and what SQLite has beside
 * them. For a program that ends at once, whatever its other threads do. */
void output_file_remove_unfinished(const char *path);

/* `text` as the whole of the file. */
bool output_file_write(const char *path, const char *text, GError **error);

/* `root` in the form that jansson's `flags` say, and the end of a line. It must not be NULL: a text
 * of a user needs text_to_json (base/printable.h), because jansson takes none but UTF-8. */
bool output_file_write_json(const char *path, const json_t *root, size_t flags, GError **error);

#endif
