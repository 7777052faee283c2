#include "traces/database.h"

#include "base/files.h"
#include "base/output_file.h"
#include "traces/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Offsets in the first bytes of an SQLite file. Numbers are big-endian. */
enum {
    HEADER_BYTES = 100,
    AT_PAGE_BYTES = 16,
    AT_PAGE_COUNT = 28,
    AT_USER_VERSION = 60,
    AT_APPLICATION_ID = 68,
};

static uint32_t big_endian_32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] << 24 | (uint32_t)bytes[1] << 16 | (uint32_t)bytes[2] << 8 | bytes[3];
}

/* Returns whether there is a file of this name, with that ending, that is not empty. */
static bool has_beside(const char *path, const char *ending)
{
    g_autofree char *name = g_strconcat(path, ending, NULL);
    struct stat status;
    return stat(name, &status) == 0 && status.st_size > 0;
}

/* Returns whether a killed writer left a journal. SQLite rolls it back when it opens the file. */
static bool has_journal(const char *path)
{
    return has_beside(path, "-journal");
}

static bool check_bytes(const char *path, uint64_t file_bytes, const uint8_t *header,
                        GError **error)
{
    uint64_t page_bytes = (uint64_t)header[AT_PAGE_BYTES] << 8 | header[AT_PAGE_BYTES + 1];
    if (page_bytes == 1)
        page_bytes = 65536;
    uint64_t whole = page_bytes * big_endian_32(header + AT_PAGE_COUNT);
    if (file_bytes < whole && !has_journal(path)) {
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_NOT_OURS,
                    "%s: truncated: it has %" G_GUINT64_FORMAT " of its %" G_GUINT64_FORMAT
                    " bytes",
                    path, file_bytes, whole);
        return false;
    }
    return true;
}

static bool check_header(const char *path, const uint8_t *header, size_t read_bytes, GError **error)
{
    if (read_bytes < HEADER_BYTES || memcmp(header, "SQLite format 3", 16) != 0) {
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_NOT_OURS,
                    "%s: not a trace: it is not an SQLite database", path);
        return false;
    }
    if (big_endian_32(header + AT_APPLICATION_ID) != SCHEMA_APPLICATION_ID) {
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_NOT_OURS,
                    "%s: not a trace: it is an SQLite database of another program", path);
        return false;
    }
    uint32_t version = big_endian_32(header + AT_USER_VERSION);
    if (version < 1 || version > TRACE_SCHEMA_VERSION) {
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_VERSION,
                    "%s: a trace of version %u; this program reads versions 1 to %u", path, version,
                    (unsigned)TRACE_SCHEMA_VERSION);
        return false;
    }
    return true;
}

static bool check_file(const char *path, GError **error)
{
    if (!input_file_check(path, error))
        return false;
    FILE *file = fopen(path, "rb");
    if (!file) {
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_IO, "%s: %s", path, g_strerror(errno));
        return false;
    }
    uint8_t header[HEADER_BYTES] = {0};
    size_t read_bytes = fread(header, 1, sizeof header, file);
    bool ok = !ferror(file) && fseek(file, 0, SEEK_END) == 0;
    long file_bytes = ok ? ftell(file) : -1;
    if (file_bytes < 0)
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_IO, "%s: cannot be read: %s", path,
                    g_strerror(errno));
    fclose(file);
    return file_bytes >= 0 && check_header(path, header, read_bytes, error) &&
           check_bytes(path, (uint64_t)file_bytes, header, error);
}

/* SQLite takes some relative names for URIs or for databases in memory. */
static char *absolute(const char *path)
{
    g_autofree char *folder = g_path_is_absolute(path) ? NULL : g_get_current_dir();
    return folder ? g_build_filename(folder, path, NULL) : g_strdup(path);
}

/* Opens `name`, a file or a URI, which becomes the database at `path`. Takes `temporary`. */
static struct database *open_as(const char *path, const char *name, char *temporary, int flags,
                                GError **error)
{
    struct database *database = g_new0(struct database, 1);
    database->path = g_strdup(path);
    database->temporary = temporary;
    database->descriptor = -1;
    if (sqlite3_open_v2(name, &database->handle, flags | SQLITE_OPEN_URI, NULL) != SQLITE_OK) {
        database_set_error(database, error);
        database_close(database);
        return NULL;
    }
    /* Files come from anywhere: SQL in a schema must never be executed. */
    sqlite3_db_config(database->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(database->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(database->handle, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(database->handle, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_extended_result_codes(database->handle, 1);
    sqlite3_busy_timeout(database->handle, 5000);
    return database;
}

/* Opens `temporary`, which it takes, or `path` if that is NULL. */
static struct database *open_file(const char *path, char *temporary, int flags, GError **error)
{
    g_autofree char *name = absolute(temporary ? temporary : path);
    return open_as(path, name, temporary, flags, error);
}

/* Databases that are written with a log ahead get files beside them when they are read, unless
 * SQLite is told that nobody changes them. */
static bool has_log(const char *path)
{
    enum { AT_WRITE_VERSION = 18, LOGGED = 2 };
    uint8_t header[HEADER_BYTES] = {0};
    FILE *file = fopen(path, "rbe");
    if (!file)
        return false;
    bool ok = fread(header, 1, sizeof header, file) == sizeof header;
    fclose(file);
    return ok && header[AT_WRITE_VERSION] == LOGGED;
}

/* Returns whether a program has begun to change the file: it locks one byte then. */
static bool is_being_written(const char *path)
{
    enum { RESERVED_BYTE = 0x40000001 };
    struct flock lock = {.l_type = F_WRLCK, .l_start = RESERVED_BYTE, .l_len = 1};
    int descriptor = open(path, O_RDONLY | O_CLOEXEC);
    bool written = descriptor >= 0 && fcntl(descriptor, F_GETLK, &lock) == 0 &&
                   lock.l_type != F_UNLCK;
    if (descriptor >= 0)
        close(descriptor);
    return written;
}

static void refuse_unfinished(const char *path, const char *ending, GError **error)
{
    g_set_error(error, TRACE_ERROR, TRACE_ERROR_IO,
                "%s: another program is still writing it, or was killed: see %s%s", path, path,
                ending);
}

char *database_uri(const char *path, GError **error)
{
    const char *unfinished = has_journal(path)          ? "-journal"
                             : has_beside(path, "-wal") ? "-wal"
                                                        : NULL;
    if (unfinished) {
        refuse_unfinished(path, unfinished, error);
        return NULL;
    }
    g_autofree char *whole = absolute(path);
    g_autofree char *uri = g_filename_to_uri(whole, NULL, NULL);
    return g_strconcat(uri, has_log(path) ? "?immutable=1" : "?mode=ro", NULL);
}

/* What is not written is reported when the file is closed. */
static void write_piece(void *copy, const void *piece, size_t bytes)
{
    fwrite(piece, 1, bytes, copy);
}

static bool copy_into(const char *folder, const char *path, const char *ending, GError **error)
{
    g_autofree char *from = g_strconcat(path, ending, NULL);
    g_autofree char *name = g_strconcat("copy", ending, NULL);
    g_autofree char *to = g_build_filename(folder, name, NULL);
    struct output_file copy;
    if (!output_file_open(&copy, to, error))
        return false;
    if (input_file_read(from, write_piece, copy.stream, error))
        return output_file_close(&copy, error);
    output_file_abandon(&copy);
    return false;
}

static void remove_copy(const char *folder)
{
    static const char *const endings[] = {"", "-journal"};
    for (size_t i = 0; i < G_N_ELEMENTS(endings); i++) {
        g_autofree char *name = g_strconcat(folder, "/copy", endings[i], NULL);
        unlink(name);
    }
    rmdir(folder);
}

/* Opens a copy, so that the journal is not played into the file. */
static struct database *open_copy(const char *path, GError **error)
{
    struct database *database = NULL;
    if (is_being_written(path)) {
        refuse_unfinished(path, "-journal", error);
        return NULL;
    }
    char *folder = g_dir_make_tmp("pstar-XXXXXX", error);
    if (folder && copy_into(folder, path, "", error) &&
        copy_into(folder, path, "-journal", error)) {
        g_autofree char *copy = g_build_filename(folder, "copy", NULL);
        database = open_as(path, copy, NULL, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, error);
    }
    if (database) {
        database->folder = folder;
        return database;
    }
    if (folder)
        remove_copy(folder);
    g_free(folder);
    return NULL;
}

struct database *database_open(const char *path, GError **error)
{
    if (!check_file(path, error))
        return NULL;
    if (has_journal(path))
        return open_copy(path, error);
    g_autofree char *uri = database_uri(path, error);
    /* Readers use one thread; locking each value would cost a sixth of the time. */
    return uri ? open_as(path, uri, NULL, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, error) : NULL;
}

/* Searches for the descriptor, because SQLite does not tell it. */
static void find_descriptor(struct database *database)
{
    struct stat file, open;
    GDir *descriptors = g_dir_open("/proc/self/fd", 0, NULL);
    const char *name;
    bool known = descriptors && stat(database->path, &file) == 0;
    while (known && database->descriptor < 0 && (name = g_dir_read_name(descriptors))) {
        int number = atoi(name);
        if (fstat(number, &open) == 0 && open.st_dev == file.st_dev && open.st_ino == file.st_ino)
            database->descriptor = number;
    }
    database->device = known ? file.st_dev : 0;
    database->inode = known ? file.st_ino : 0;
    g_clear_pointer(&descriptors, g_dir_close);
}

struct database *database_open_for_writing(const char *path, GError **error)
{
    if (!check_file(path, error))
        return NULL;
    struct database *database = open_file(path, NULL, SQLITE_OPEN_READWRITE, error);
    if (database)
        find_descriptor(database);
    return database;
}

static bool has_file(const struct database *database)
{
    struct stat open;
    return database->descriptor < 0 ||
           (fstat(database->descriptor, &open) == 0 && open.st_dev == database->device &&
            open.st_ino == database->inode);
}

bool database_has_file(const struct database *database, GError **error)
{
    if (has_file(database))
        return true;
    g_set_error(error, TRACE_ERROR, TRACE_ERROR_IO, "%s: the program has closed the file",
                database->path);
    return false;
}

/* Refuses devices and pipes, which a file moved to `path` would replace. */
static bool may_create(const char *path, GError **error)
{
    struct stat status;
    if (stat(path, &status) != 0 || S_ISREG(status.st_mode))
        return true;
    g_set_error(error, TRACE_ERROR, TRACE_ERROR_IO, "%s: cannot be written: not a regular file",
                path);
    return false;
}

struct database *database_create(const char *path, GError **error)
{
    if (!may_create(path, error))
        return NULL;
    g_autofree char *target = output_file_target(path);
    char *temporary = output_file_temporary(target);
    struct database *database = open_file(target, temporary,
                                          SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, error);
    if (!database)
        return NULL;
    /* An unfinished file is deleted, so it needs no journal beside it. A defensive connection
     * refuses to have none at all. */
    char *sql = g_strdup_printf("PRAGMA journal_mode = MEMORY; PRAGMA locking_mode = EXCLUSIVE;"
                                "PRAGMA application_id = %d; PRAGMA user_version = %d; BEGIN;",
                                SCHEMA_APPLICATION_ID, TRACE_SCHEMA_PLAIN);
    if (!database_execute(database, sql, error)) {
        database_close(database);
        database = NULL;
    }
    g_free(sql);
    return database;
}

static bool move_into_place(const struct database *database, GError **error)
{
    /* A journal left by a killed writer belongs to the old file, but would be applied to the new
     * one. */
    char *journal = g_strconcat(database->path, "-journal", NULL);
    unlink(journal);
    g_free(journal);
    if (rename(database->temporary, database->path) == 0)
        return true;
    g_set_error(error, TRACE_ERROR, TRACE_ERROR_IO, "%s: cannot be written: %s", database->path,
                g_strerror(errno));
    return false;
}

bool database_publish(struct database *database, GError **error)
{
    bool ok = database_execute(database, "COMMIT", error);
    if (ok) {
        sqlite3_close(database->handle);
        database->handle = NULL;
        ok = move_into_place(database, error);
    }
    if (ok)
        g_clear_pointer(&database->temporary, g_free);
    database_close(database);
    return ok;
}

void database_close(struct database *database)
{
    if (!database)
        return;
    if (has_file(database)) /* otherwise SQLite would close a file of the program */
        sqlite3_close(database->handle);
    if (database->temporary)
        unlink(database->temporary);
    if (database->folder)
        remove_copy(database->folder);
    g_free(database->temporary);
    g_free(database->folder);
    g_free(database->path);
    g_free(database);
}

bool database_execute(const struct database *database, const char *sql, GError **error)
{
    if (sqlite3_exec(database->handle, sql, NULL, NULL, NULL) == SQLITE_OK)
        return true;
    database_set_error(database, error);
    return false;
}

sqlite3_stmt *database_prepare(const struct database *database, const char *sql, GError **error)
{
    sqlite3_stmt *statement = NULL;
    if (sqlite3_prepare_v2(database->handle, sql, -1, &statement, NULL) != SQLITE_OK)
        database_set_error(database, error);
    return statement;
}

bool database_insert(const struct database *database, sqlite3_stmt *statement, GError **error)
{
    int status = sqlite3_step(statement);
    if (status != SQLITE_DONE)
        database_set_error(database, error);
    sqlite3_reset(statement);
    return status == SQLITE_DONE;
}

/* SQLite opens files by absolute paths of up to 512 bytes, to which it adds names for journals, and
 * does not say so (SQLITE_MAX_PATHNAME in its os.h). */
enum { LONGEST_PATH = 500 };

static const char *why_not_opened(const struct database *database, int code)
{
    if (code != SQLITE_CANTOPEN || !database->path)
        return "";
    g_autofree char *absolute = g_canonicalize_filename(database->path, NULL);
    return strlen(absolute) > LONGEST_PATH
               ? ": its absolute path has more bytes than the 512 that SQLite takes"
               : "";
}

void database_set_error(const struct database *database, GError **error)
{
    int code = sqlite3_errcode(database->handle) & 0xff;
    bool damaged = code == SQLITE_CORRUPT || code == SQLITE_NOTADB || code == SQLITE_ERROR;
    g_set_error(error, TRACE_ERROR, damaged ? TRACE_ERROR_NOT_OURS : TRACE_ERROR_IO, "%s: %s%s%s",
                database->path, damaged ? "damaged: " : "", sqlite3_errmsg(database->handle),
                why_not_opened(database, code));
}

bool database_has_table(const struct database *database, const char *table)
{
    return sqlite3_table_column_metadata(database->handle, NULL, table, NULL, NULL, NULL, NULL,
                                         NULL, NULL) == SQLITE_OK;
}
