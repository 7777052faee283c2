/* The SQLite database under a trace file: opening with checks, statements, errors that name the
 * file. Used by the files of this folder alone. */
#ifndef PSTAR_TRACES_DATABASE_H
#define PSTAR_TRACES_DATABASE_H

#include <glib.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct database {
    sqlite3 *handle;
    char *path;      /* of the trace */
    char *temporary; /* where a new one lies until it is published; NULL: published */
    int descriptor;  /* of a file opened for writing; -1: not known */
    dev_t device;    /* with the inode: which file that is */
    ino_t inode;
};

/* Opens an existing trace for reading. Refuses by name what is no SQLite database, is shorter than
 * its header says, is not a trace, or has another schema version. */
struct database *database_open(const char *path, GError **error);

/* The same for adding to it. */
struct database *database_open_for_writing(const char *path, GError **error);

/* Whether a database that was opened for writing still has its file: a program that closes all
 * descriptors takes ours too, and what it opens then may get the number. */
bool database_has_file(const struct database *database, GError **error);

/* A new, empty trace in a temporary file beside `path`, in a transaction. */
struct database *database_create(const char *path, GError **error);

/* Commits a new trace and moves it to its path, in place of what was there. The database is closed
 * and freed, on error as well: then the temporary file is gone and `path` is as it was. */
bool database_publish(struct database *database, GError **error);

/* Closes; a new trace that was not published vanishes. What has lost its file is left as it is.
 * NULL is allowed. */
void database_close(struct database *database);

/* Executes statements that yield no rows. */
bool database_execute(const struct database *database, const char *sql, GError **error);

/* NULL on error. Free with sqlite3_finalize. */
sqlite3_stmt *database_prepare(const struct database *database, const char *sql, GError **error);

/* Executes a prepared statement that yields no rows, and makes it ready for the next. */
bool database_insert(const struct database *database, sqlite3_stmt *statement, GError **error);

/* Sets what SQLite says of the last call on the database, with the file's name: a damaged file is
 * TRACE_ERROR_NOT_OURS, all else TRACE_ERROR_IO. */
void database_set_error(const struct database *database, GError **error);

bool database_has_table(const struct database *database, const char *table);

#endif
