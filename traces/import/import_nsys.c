/* Imports SQLite exports of Nsight Systems by copying the tables that traces have, too. */
#include "base/files.h"
#include "traces/activity/activity_file.h"
#include "traces/database.h"
#include "traces/import/import.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <stdio.h>
#include <string.h>

/* Texts stored in the events become strings. */
#define STRINGS                                                                                   \
    "CREATE TEMP TABLE ids (value TEXT PRIMARY KEY, id INTEGER) WITHOUT ROWID;"                   \
    "INSERT OR IGNORE INTO ids SELECT value, id FROM StringIds;"                                  \
    "INSERT INTO StringIds SELECT (SELECT ifnull(max(id), 0) FROM ids) + row_number() OVER (), "  \
    " text FROM (SELECT DISTINCT text FROM NVTX_EVENTS WHERE textId IS NULL AND text IS NOT NULL" \
    " EXCEPT SELECT value FROM ids);"                                                             \
    "INSERT OR IGNORE INTO ids SELECT value, id FROM StringIds;"                                  \
    "UPDATE NVTX_EVENTS SET textId = (SELECT id FROM ids WHERE value = text)"                     \
    " WHERE textId IS NULL AND text IS NOT NULL;"                                                 \
    "DROP TABLE temp.ids;"

/* Returns a text column of all rows; NULL on error. */
static GPtrArray *list(const struct database *database, const char *sql, GError **error)
{
    sqlite3_stmt *row = database_prepare(database, sql, error);
    if (!row)
        return NULL;
    GPtrArray *texts = g_ptr_array_new_with_free_func(g_free);
    int status;
    while ((status = sqlite3_step(row)) == SQLITE_ROW)
        g_ptr_array_add(texts, g_strdup((const char *)sqlite3_column_text(row, 0)));
    if (status != SQLITE_DONE) {
        database_set_error(database, error);
        g_clear_pointer(&texts, g_ptr_array_unref);
    }
    sqlite3_finalize(row);
    return texts;
}

/* Returns the columns that both tables have, separated by commas. */
static char *shared_columns(const struct database *database, const char *table, GError **error)
{
    g_autofree char *sql = g_strdup_printf("SELECT name FROM pragma_table_info('%s', 'main') WHERE "
                                           "name IN (SELECT name FROM pragma_table_info('%s', "
                                           "'source'))",
                                           table, table);
    g_autoptr(GPtrArray) names = list(database, sql, error);
    if (!names)
        return NULL;
    g_ptr_array_add(names, NULL);
    return g_strjoinv(", ", (char **)names->pdata);
}

/* Returns the first number that the statement finds, or -1. */
static int64_t find_row(const struct database *database, const char *sql)
{
    sqlite3_stmt *row = database_prepare(database, sql, NULL);
    int64_t number = row && sqlite3_step(row) == SQLITE_ROW ? sqlite3_column_int64(row, 0) : -1;
    sqlite3_finalize(row);
    return number;
}

/* After a row could not be inserted, says which one of the export it is, and why. Returns false. */
static bool blame_row(const struct database *database, const char *table, GError **error)
{
    int code = sqlite3_extended_errcode(database->handle);
    /* SQLite says "NOT NULL constraint failed: TABLE.COLUMN". */
    const char *dot = strrchr(sqlite3_errmsg(database->handle), '.');
    g_autofree char *column = g_strdup(dot ? dot + 1 : "");
    bool empty = code == SQLITE_CONSTRAINT_NOTNULL;
    if (!empty && code != SQLITE_CONSTRAINT_PRIMARYKEY && code != SQLITE_CONSTRAINT_UNIQUE)
        return false;
    g_autofree char *sql =
        empty
            ? g_strdup_printf("SELECT rowid FROM source.%s WHERE %s IS NULL LIMIT 1", table, column)
            : g_strdup_printf("SELECT max(rowid) FROM source.%s GROUP BY %s HAVING count(*) > 1",
                              table, column);
    int64_t row = find_row(database, sql);
    g_clear_error(error);
    if (row < 0)
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID, "%s: %s: there is no column %s",
                    database->path, table, column);
    else
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                    "%s: %s: row %" G_GINT64_FORMAT ": %s %s", database->path, table, row, column,
                    empty ? "is empty" : "is that of another row");
    return false;
}

/* Copies a table. `columns` is NULL if the table exists already. */
static bool copy(const struct database *database, const char *table, const char *columns,
                 const char *condition, GError **error)
{
    g_autofree char *create = !columns ? g_strdup("")
                                       : g_strdup_printf("CREATE TABLE %s (%s);", table, columns);
    if (!database_execute(database, create, error))
        return false;
    g_autofree char *shared = shared_columns(database, table, error);
    if (!shared)
        return false;
    g_autofree char *sql = g_strdup_printf("INSERT INTO main.%s (%s) SELECT %s FROM source.%s %s",
                                           table, shared, shared, table, condition);
    return *shared == '\0' || database_execute(database, sql, error) ||
           blame_row(database, table, error);
}

static bool has(const GPtrArray *tables, const char *table)
{
    return g_ptr_array_find_with_equal_func((GPtrArray *)tables, table, g_str_equal, NULL);
}

/* Tables that describe the run. Few exports lack one. */
static const struct {
    const char *name, *definition;
} descriptions[] = {{"PROCESSES", SCHEMA_PROCESSES},
                    {"TARGET_INFO_CUDA_DEVICE", SCHEMA_CUDA_DEVICES},
                    {"TARGET_INFO_SESSION_START_TIME", SCHEMA_SESSION}};

static bool copy_descriptions(const struct database *database, const GPtrArray *tables,
                              GError **error)
{
    bool ok = true;
    for (size_t i = 0; ok && i < G_N_ELEMENTS(descriptions); i++) {
        g_autofree char *create = g_strdup_printf("CREATE TABLE %s", descriptions[i].definition);
        ok = !has(tables, descriptions[i].name) ||
             (database_execute(database, create, error) &&
              copy(database, descriptions[i].name, NULL, "", error));
    }
    return ok;
}

/* Columns that say in which memory bytes lie. Not every export fills them. */
static const struct {
    const char *table, *column;
} memory_columns[] = {{"CUPTI_ACTIVITY_KIND_MEMCPY", "srcKind"},
                      {"CUPTI_ACTIVITY_KIND_MEMCPY", "dstKind"},
                      {"CUPTI_ACTIVITY_KIND_MEMSET", "memKind"}};

static bool fill_memory_kinds(const struct database *database, const GPtrArray *tables,
                              GError **error)
{
    bool ok = true;
    for (size_t i = 0; ok && i < G_N_ELEMENTS(memory_columns); i++) {
        const char *table = memory_columns[i].table, *column = memory_columns[i].column;
        g_autofree char *sql = g_strdup_printf("UPDATE main.%s SET %s = %d WHERE %s IS NULL", table,
                                               column, MEMORY_UNKNOWN, column);
        ok = !has(tables, table) || database_execute(database, sql, error);
    }
    return ok;
}

static bool copy_all(const struct database *database, const GPtrArray *tables, GError **error)
{
    if (!database_execute(database, activity_enumerations, error) ||
        (has(tables, "StringIds") && !copy(database, "StringIds", NULL, "WHERE id > 0", error)) ||
        (has(tables, "NVTX_EVENTS") && !copy(database, "NVTX_EVENTS", NULL, "", error)))
        return false;
    for (int t = 0; t < ACTIVITY_TABLES; t++)
        if (has(tables, activity_tables[t].name) &&
            !copy(database, activity_tables[t].name, activity_tables[t].columns, "", error))
            return false;
    return fill_memory_kinds(database, tables, error) &&
           copy_descriptions(database, tables, error) && database_execute(database, STRINGS, error);
}

static bool is_read(const char *table)
{
    bool read = g_str_equal(table, "StringIds") || g_str_equal(table, "NVTX_EVENTS") ||
                g_str_has_prefix(table, "ENUM_") || g_str_has_prefix(table, "META_DATA") ||
                g_str_has_prefix(table, "EXPORT_") || g_str_has_prefix(table, "TARGET_INFO");
    for (int t = 0; t < ACTIVITY_TABLES; t++)
        read = read || g_str_equal(table, activity_tables[t].name);
    return read || g_str_equal(table, "PROCESSES");
}

static void note_tables(const GPtrArray *tables, GPtrArray *unknown)
{
    g_ptr_array_add(unknown, g_strdup("the iteration: tensors, operators and who uses what are not "
                                      "in an export of Nsight Systems"));
    for (guint i = 0; i < tables->len; i++)
        if (!is_read((const char *)g_ptr_array_index(tables, i)))
            g_ptr_array_add(unknown, g_strdup_printf("the table %s, which is not read",
                                                     (const char *)g_ptr_array_index(tables, i)));
}

static bool attach(const struct database *database, const char *from, GError **error)
{
    g_autofree char *uri = database_uri(from, error);
    sqlite3_stmt *row = uri ? database_prepare(database, "ATTACH ? AS source", error) : NULL;
    bool ok = row != NULL;
    if (ok) {
        sqlite3_bind_text(row, 1, uri, -1, SQLITE_STATIC);
        ok = database_insert(database, row, error);
    }
    sqlite3_finalize(row);
    return ok;
}

static GPtrArray *list_tables(const struct database *database, const char *from, GError **error)
{
    GPtrArray *tables = list(database,
                             "SELECT name FROM source.sqlite_master WHERE type = 'table' "
                             "AND name NOT LIKE 'sqlite_%' ORDER BY name",
                             error);
    bool ours = find_row(database, "PRAGMA source.application_id") == SCHEMA_APPLICATION_ID;
    const char *wrong = !tables                     ? NULL
                        : ours                      ? "it is a trace of pstar already"
                        : !has(tables, "StringIds") ? "it has no table StringIds"
                                                    : NULL;
    if (wrong) {
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_NOT_OURS,
                    "%s: not an export of Nsight Systems: %s", from, wrong);
        g_clear_pointer(&tables, g_ptr_array_unref);
    }
    return tables;
}

/* A trace without ranges and activities, but for the names of devices, would tell nobody anything.
 */
static bool check_content(const struct database *database, const GPtrArray *tables,
                          const char *from, GError **error)
{
    bool any = has(tables, "NVTX_EVENTS") &&
               find_row(database, "SELECT 1 FROM main.NVTX_EVENTS LIMIT 1") > 0;
    for (int t = 0; !any && t < ACTIVITY_TABLES; t++) {
        if (!activity_tables[t].times)
            continue;
        g_autofree char *sql = g_strdup_printf("SELECT 1 FROM main.%s LIMIT 1",
                                               activity_tables[t].name);
        any = has(tables, activity_tables[t].name) && find_row(database, sql) > 0;
    }
    if (!any)
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                    "%s: the export has neither NVTX ranges nor CUDA calls and kernels: record "
                    "again with nsys profile --trace=cuda,nvtx",
                    from);
    return any;
}

static bool fill(const char *path, const char *from, GPtrArray *unknown, GError **error)
{
    struct database *database = database_open_for_writing(path, error);
    if (!database)
        return false;
    GPtrArray *tables = NULL;
    bool ok = attach(database, from, error) && (tables = list_tables(database, from, error)) &&
              database_execute(database, "BEGIN", error) && copy_all(database, tables, error) &&
              check_content(database, tables, from, error) &&
              database_execute(database, "COMMIT", error);
    if (ok)
        note_tables(tables, unknown);
    g_clear_pointer(&tables, g_ptr_array_unref);
    database_close(database);
    return ok;
}

static bool is_sqlite(const char *path, GError **error)
{
    char header[16] = {0};
    FILE *file = input_file_check(path, error) ? fopen(path, "rbe") : NULL;
    if (!file) {
        if (!*error)
            g_set_error(error, TRACE_ERROR, TRACE_ERROR_IO, "%s: %s", path, g_strerror(errno));
        return false;
    }
    size_t got = fread(header, 1, sizeof header, file);
    fclose(file);
    if (got == sizeof header && memcmp(header, "SQLite format 3", sizeof header) == 0)
        return true;
    g_set_error(error, TRACE_ERROR, TRACE_ERROR_NOT_OURS,
                "%s: not an export of Nsight Systems: it is not an SQLite database", path);
    return false;
}

bool import_nsys(const char *from, const char *to, GPtrArray *unknown, GError **error)
{
    g_autofree char *temporary = import_temporary(to);
    GError *fault = NULL;
    if (!is_sqlite(from, error))
        return false;
    struct record_file *file = record_file_new(temporary, NULL, &fault);
    bool ok = file != NULL;
    record_file_free(file);
    ok = ok && fill(temporary, from, unknown, &fault);
    if (!ok)
        import_blame(from, temporary, to, fault, error);
    ok = ok && import_publish(from, temporary, to, unknown, error);
    if (!ok)
        g_unlink(temporary);
    return ok;
}
