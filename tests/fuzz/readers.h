/* The readers of all files that pstar takes, as fuzzers and the test of their corpora call them. */
#ifndef PSTAR_TESTS_FUZZ_READERS_H
#define PSTAR_TESTS_FUZZ_READERS_H

#include <glib.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct fuzz_reader {
    const char *name; /* of its folder in corpus/ */
    const char *file; /* the name under which the reader gets an input */
    bool database;    /* inputs may be SQL (fuzz_write_database) */
    /* Returns whether the reader accepts the file, or sets the error. */
    bool (*read)(const char *path, GError **error);
};

extern const struct fuzz_reader fuzz_readers[];
extern const size_t fuzz_reader_count;

/* Returns NULL if no reader has this name. */
const struct fuzz_reader *fuzz_reader_find(const char *name);

/* Reads an input in a new folder, which is removed afterwards, and returns whether the reader
 * accepts it. Aborts if it refuses the input without a message or leaves another file in the
 * folder. */
bool fuzz_try(const struct fuzz_reader *reader, const uint8_t *input, size_t bytes);

/* Writes an input of a reader of SQLite databases. Random bytes rarely stay a database, so an input
 * that does not begin as one is taken as SQL: its statements make tables and rows, and those that
 * fail, or do anything else, are left out. */
void fuzz_write_database(const char *path, const uint8_t *input, size_t bytes);

#endif
