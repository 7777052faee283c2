/* The SQLite database under a trace file: opening with checks, statements, errors that name the
 * file. Used by the files of this folder alone. */
#ifndef PSTAR_TRACES_DATABASE_H
#define PSTAR_TRACES_DATABASE_H

#include "traces/trace.h"

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

/* The tables of a trace file, as SQL; docs/formats.md describes them. */

/* In SQLite's header at offset 68: "pstr". */
#define SCHEMA_APPLICATION_ID 0x70737472

/* What a training iteration is. An id counts from 0 without gaps; an operator's is its moment. */
#define SCHEMA_META "CREATE TABLE meta (key TEXT PRIMARY KEY NOT NULL, value) WITHOUT ROWID;"
#define SCHEMA_ITERATION                                                                        \
    "CREATE TABLE tensors ("                                                                    \
    " id INTEGER PRIMARY KEY, name TEXT NOT NULL, elements INTEGER NOT NULL);"                  \
    "CREATE TABLE operators ("                                                                  \
    " id INTEGER PRIMARY KEY, name TEXT NOT NULL, phase TEXT NOT NULL, place TEXT NOT NULL,"    \
    " layer INTEGER, micro_batch INTEGER NOT NULL, flops INTEGER NOT NULL, bytes INTEGER NOT "  \
    "NULL,"                                                                                     \
    " h2d_bytes INTEGER NOT NULL, d2h_bytes INTEGER NOT NULL, duration_ns INTEGER);"            \
    "CREATE TABLE accesses ("                                                                   \
    " id INTEGER PRIMARY KEY, operator INTEGER NOT NULL REFERENCES operators,"                  \
    " tensor INTEGER NOT NULL REFERENCES tensors, list TEXT NOT NULL, mode TEXT NOT NULL);"     \
    "CREATE TABLE buffers ("                                                                    \
    " id INTEGER PRIMARY KEY, name TEXT NOT NULL, bytes INTEGER NOT NULL,"                      \
    " first INTEGER NOT NULL REFERENCES operators, last INTEGER NOT NULL REFERENCES operators," \
    " saved INTEGER NOT NULL, recompute_flops INTEGER NOT NULL);"                               \
    "CREATE TABLE moments ("                                                                    \
    " id INTEGER PRIMARY KEY REFERENCES operators, non_model_bytes INTEGER NOT NULL);"

/* What was recorded while it ran. Names and columns are those of Nsight Systems' export, but for
 * `samples` and parentRangeId, which are ours. */
#define SCHEMA_PROCESSES "PROCESSES (globalPid INTEGER, pid INTEGER, name TEXT)"
#define SCHEMA_CUDA_DEVICES                                                            \
    "TARGET_INFO_CUDA_DEVICE (gpuId INTEGER, cudaId INTEGER, pid INTEGER, uuid TEXT, " \
    "numMultiprocessors INTEGER)"
#define SCHEMA_SESSION \
    "TARGET_INFO_SESSION_START_TIME (utcEpochNs INTEGER, utcTime TEXT, localTime TEXT)"
#define SCHEMA_EVENT_TYPES                                                                        \
    "CREATE TABLE ENUM_NSYS_EVENT_TYPE (id INTEGER NOT NULL PRIMARY KEY, name TEXT, label TEXT);" \
    "INSERT INTO ENUM_NSYS_EVENT_TYPE VALUES (33, 'NvtxCategory', 'NVTX Category'),"              \
    " (34, 'NvtxMark', 'NVTX Mark'), (59, 'NvtxPushPopRange', 'NVTX Push/Pop Range'),"            \
    " (60, 'NvtxStartEndRange', 'NVTX Start/End Range'),"                                         \
    " (75, 'NvtxDomainCreate', 'NVTX Domain Create');"
#define SCHEMA_RECORDS                                                                      \
    SCHEMA_EVENT_TYPES                                                                      \
    "CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);"        \
    "CREATE TABLE NVTX_EVENTS ("                                                            \
    " start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER,"    \
    " category INTEGER, color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER," \
    " textId INTEGER REFERENCES StringIds(id), domainId INTEGER, uint64Value INTEGER,"      \
    " int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER,"       \
    " floatValue REAL, jsonTextId INTEGER, jsonText TEXT, binaryData TEXT,"                 \
    " parentRangeId INTEGER);"                                                              \
    "CREATE TABLE samples (time INTEGER NOT NULL, counter TEXT NOT NULL, value INTEGER NOT NULL);"

/* A trace's iteration, into a database that is being made. */

/* Creates and fills all tables but the records of a run. `trace` has passed trace_check. */
bool trace_store(const struct database *database, const struct trace *trace, GError **error);

/* The meta table and what `trace` has for it; a trace without an iteration has this table alone. */
bool trace_store_meta(const struct database *database, const struct trace *trace, GError **error);

#endif
