/* The SQLite database under a trace file: opening with checks, statements, and errors that name the
 * file. Internal to traces/. */
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
    char *path;      /* path of the trace */
    char *temporary; /* path of a new file until it is published; NULL if published */
    char *folder;    /* with a copy of the file and its journal; NULL if there is none */
    int descriptor;  /* of a file opened for writing; -1 if unknown */
    dev_t device;    /* identifies the file, together with the inode */
    ino_t inode;
};

/* Opens an existing trace for reading, which changes nothing: if a killed writer left a journal, it
 * is rolled back in a copy. Fails, naming the reason, if the file is not an SQLite database, is
 * shorter than its header says, is not a trace, or has another schema version. */
struct database *database_open(const char *path, GError **error);

/* Returns the URI under which SQLite reads a database of another program without changing it or
 * leaving files beside it. Free with g_free. Returns NULL, with an error, if its last writer did
 * not end. */
char *database_uri(const char *path, GError **error);

/* Opens an existing trace for adding to it, with the checks of database_open. */
struct database *database_open_for_writing(const char *path, GError **error);

/* Returns whether a database opened for writing still has its file. A program that closes all
 * descriptors closes ours too, and its next file may get the same number. */
bool database_has_file(const struct database *database, GError **error);

/* Creates an empty trace in a temporary file beside `path` and begins a transaction. */
struct database *database_create(const char *path, GError **error);

/* Commits a new trace and moves it to its path, replacing an existing file. Closes and frees the
 * database, also on error; then the temporary file is removed and `path` is unchanged. */
bool database_publish(struct database *database, GError **error);

/* Closes and frees the database, which may be NULL. A new trace that was not published is removed.
 * A file that the program has closed is left as it is. */
void database_close(struct database *database);

/* Executes statements that return no rows. */
bool database_execute(const struct database *database, const char *sql, GError **error);

/* Prepares a statement. Returns NULL on error. Free with sqlite3_finalize. */
sqlite3_stmt *database_prepare(const struct database *database, const char *sql, GError **error);

/* Executes a prepared statement that returns no rows, and resets it. */
bool database_insert(const struct database *database, sqlite3_stmt *statement, GError **error);

/* Sets SQLite's message for the last call on the database, with the file name. The code is
 * TRACE_ERROR_NOT_OURS for a damaged file and TRACE_ERROR_IO for everything else. */
void database_set_error(const struct database *database, GError **error);

bool database_has_table(const struct database *database, const char *table);

/* The tables of a trace file in SQL. docs/formats.md describes them. */

/* "pstr", at offset 68 of SQLite's header. */
#define SCHEMA_APPLICATION_ID 0x70737472

/* The training iteration. Ids count from 0 without gaps; an operator's id is its moment. */
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
/* Of a trace with state blocks. */
#define SCHEMA_LISTS  "ALTER TABLE tensors ADD COLUMN lists TEXT NOT NULL DEFAULT '';"
#define SCHEMA_BLOCKS "ALTER TABLE accesses ADD COLUMN block INTEGER NOT NULL DEFAULT 0;"
/* Of several ranks. */
#define SCHEMA_EXCHANGES                                                       \
    "CREATE TABLE exchanges ("                                                 \
    " id INTEGER PRIMARY KEY, operator INTEGER NOT NULL REFERENCES operators," \
    " collective TEXT NOT NULL, sent_bytes INTEGER NOT NULL, received_bytes INTEGER NOT NULL);"
/* Where buffers may leave the device. */
#define SCHEMA_USES                                                        \
    "CREATE TABLE uses ("                                                  \
    " id INTEGER PRIMARY KEY, buffer INTEGER NOT NULL REFERENCES buffers," \
    " operator INTEGER NOT NULL REFERENCES operators, kind TEXT NOT NULL);"

/* The records of the run. Names and columns are those of Nsight Systems' export, except `samples`
 * and parentRangeId, which are our own. */
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

/* Writing the iteration into a new database. */

/* Creates and fills all tables of the iteration. `trace` must have passed trace_check. */
bool trace_store(const struct database *database, const struct trace *trace, GError **error);

/* Creates and fills the meta table, the only table of a trace without an iteration. */
bool trace_store_meta(const struct database *database, const struct trace *trace, GError **error);

#endif
