#include "traces/trace_load_meta.h"

#include "traces/trace_file.h"

/* One row of meta at a time: `row` selects the value of a key. */
static int step_to(sqlite3_stmt *row, const char *key)
{
    sqlite3_reset(row);
    sqlite3_bind_text(row, 1, key, -1, SQLITE_STATIC);
    return sqlite3_step(row);
}

/* *out stays NULL where the key is absent. */
static bool meta_text(const struct database *database, sqlite3_stmt *row, const char *key,
                      char **out, GError **error)
{
    int status = step_to(row, key);
    if (status == SQLITE_DONE)
        return true;
    if (status != SQLITE_ROW) {
        database_set_error(database, error);
        return false;
    }
    const char *value = (const char *)sqlite3_column_text(row, 0);
    if (!value || !g_utf8_validate(value, sqlite3_column_bytes(row, 0), NULL)) {
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID, "%s: meta: %s is no text",
                    database->path, key);
        return false;
    }
    *out = g_strdup(value);
    return true;
}

static bool meta_number(const struct database *database, sqlite3_stmt *row, const char *key,
                        uint64_t most, uint64_t *out, GError **error)
{
    int status = step_to(row, key);
    if (status != SQLITE_ROW && status != SQLITE_DONE) {
        database_set_error(database, error);
        return false;
    }
    sqlite3_int64 value = status == SQLITE_ROW ? sqlite3_column_int64(row, 0) : -1;
    if (value < 0 || (uint64_t)value > most || sqlite3_column_type(row, 0) != SQLITE_INTEGER) {
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                    "%s: meta: %s is %s, must be a whole number from 0 to %" G_GUINT64_FORMAT,
                    database->path, key, status == SQLITE_DONE ? "missing" : "wrong", most);
        return false;
    }
    *out = (uint64_t)value;
    return true;
}

static bool meta_element_bytes(const struct database *database, sqlite3_stmt *row,
                               struct trace *trace, GError **error)
{
    bool good = true;
    for (unsigned list = 0; good && list < TRACE_LISTS; list++) {
        char *key = g_strconcat("element_bytes_", trace_list_name((enum trace_list)list), NULL);
        uint64_t bytes = 0;
        good = meta_number(database, row, key, UINT8_MAX, &bytes, error);
        trace->list_element_bytes[list] = (uint8_t)bytes;
        g_free(key);
    }
    return good;
}

bool trace_is_partial(const char *path, bool *partial, GError **error)
{
    uint64_t number = 0;
    struct database *database = database_open(path, error);
    if (!database)
        return false;
    sqlite3_stmt *row = database_prepare(database, "SELECT value FROM meta WHERE key = ?", error);
    bool good = row && meta_number(database, row, "partial", 1, &number, error);
    sqlite3_finalize(row);
    database_close(database);
    *partial = number == 1;
    return good;
}

bool trace_load_meta(const struct database *database, struct trace *trace, GError **error)
{
    uint64_t batch = 0, sequence = 0, micro_batches = 0, estimated = 0, partial = 0;
    sqlite3_stmt *row = database_prepare(database, "SELECT value FROM meta WHERE key = ?", error);
    bool good = row && meta_text(database, row, "producer", &trace->producer, error) &&
                meta_text(database, row, "model", &trace->model, error) &&
                meta_text(database, row, "precision", &trace->precision, error) &&
                meta_text(database, row, "machine", &trace->machine, error) &&
                meta_number(database, row, "batch", UINT32_MAX, &batch, error) &&
                meta_number(database, row, "sequence", UINT32_MAX, &sequence, error) &&
                meta_number(database, row, "micro_batches", UINT32_MAX, &micro_batches, error) &&
                meta_number(database, row, "library_bytes", INT64_MAX, &trace->library_bytes,
                            error) &&
                meta_number(database, row, "estimated", 1, &estimated, error) &&
                meta_number(database, row, "partial", 1, &partial, error) &&
                meta_element_bytes(database, row, trace, error);
    sqlite3_finalize(row);
    trace->batch = (uint32_t)batch;
    trace->sequence = (uint32_t)sequence;
    trace->micro_batches = (uint32_t)micro_batches;
    trace->estimated = estimated == 1;
    trace->partial = partial == 1;
    return good;
}
