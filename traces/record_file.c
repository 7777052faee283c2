#include "traces/activity/activity_file.h"
#include "traces/database.h"
#include "traces/records.h"

#include <string.h>

struct record_file {
    struct database *database;
    sqlite3_stmt *event, *string, *sample;
    struct activity_store *activity;
};

/* The columns of NVTX_EVENTS that we fill. Many scripts read only the text column, so it is filled,
 * too. */
#define INSERT_EVENT                                                                         \
    "INSERT INTO NVTX_EVENTS (start, end, eventType, rangeId, category, globalTid, textId, " \
    "domainId, uint64Value, int64Value, doubleValue, uint32Value, int32Value, floatValue, "  \
    "parentRangeId, text) VALUES (?, ?, ?, ?, ?, ?, ?7, ?, ?, ?, ?, ?, ?, ?, ?, "            \
    "(SELECT value FROM StringIds WHERE id = ?7))" /* copy of the string */
enum { FIRST_PAYLOAD_COLUMN = 9, PARENT_COLUMN = 15 };

static bool store(const struct database *database, const struct trace *trace, GError **error)
{
    if (!trace) {
        const struct trace none = {.partial = true};
        return trace_store_meta(database, &none, error);
    }
    struct trace partial = *trace;
    partial.partial = true;
    return trace_check(&partial, database->path, error) && trace_store(database, &partial, error);
}

static bool publish(const char *path, const struct trace *trace, GError **error)
{
    struct database *database = database_create(path, error);
    if (!database)
        return false;
    if (!store(database, trace, error) || !database_execute(database, SCHEMA_RECORDS, error)) {
        database_close(database);
        return false;
    }
    return database_publish(database, error);
}

static bool prepare(struct record_file *file, GError **error)
{
    /* The file must survive the program but not the machine, so do not wait for the disk. */
    return database_execute(file->database, "PRAGMA synchronous = OFF", error) &&
           (file->event = database_prepare(file->database, INSERT_EVENT, error)) &&
           (file->string = database_prepare(file->database, "INSERT INTO StringIds VALUES (?, ?)",
                                            error)) &&
           (file->sample = database_prepare(file->database, "INSERT INTO samples VALUES (?, ?, ?)",
                                            error));
}

struct record_file *record_file_new(const char *path, const struct trace *trace, GError **error)
{
    if (!publish(path, trace, error))
        return NULL;
    struct record_file *file = g_new0(struct record_file, 1);
    file->database = database_open_for_writing(path, error);
    if (!file->database || !prepare(file, error)) {
        record_file_free(file);
        return NULL;
    }
    file->activity = activity_store_new(file->database);
    return file;
}

static void bind_or_null(sqlite3_stmt *statement, int column, uint64_t value)
{
    if (value == 0)
        sqlite3_bind_null(statement, column);
    else
        sqlite3_bind_int64(statement, column, (sqlite3_int64)value);
}

static void bind_payload(sqlite3_stmt *statement, const struct record *event)
{
    float single;
    double real;
    int32_t narrow;
    memcpy(&single, &event->payload, sizeof single);
    memcpy(&real, &event->payload, sizeof real);
    memcpy(&narrow, &event->payload, sizeof narrow);
    for (int type = RECORD_UINT64; type <= RECORD_FLOAT; type++)
        sqlite3_bind_null(statement, FIRST_PAYLOAD_COLUMN + type - RECORD_UINT64);
    int column = FIRST_PAYLOAD_COLUMN + event->payload_type - RECORD_UINT64;
    switch (event->payload_type) {
    case RECORD_UINT64:
    case RECORD_INT64:
        sqlite3_bind_int64(statement, column, (sqlite3_int64)event->payload);
        break;
    case RECORD_DOUBLE:
        sqlite3_bind_double(statement, column, real);
        break;
    case RECORD_UINT32:
        sqlite3_bind_int64(statement, column, (uint32_t)narrow);
        break;
    case RECORD_INT32:
        sqlite3_bind_int64(statement, column, narrow);
        break;
    case RECORD_FLOAT:
        sqlite3_bind_double(statement, column, (double)single);
        break;
    default:
        break;
    }
}

static bool add_event(const struct record_file *file, const struct record *event, GError **error)
{
    sqlite3_bind_int64(file->event, 1, (sqlite3_int64)event->start_ns);
    bind_or_null(file->event, 2, event->end_ns);
    sqlite3_bind_int64(file->event, 3, event->type);
    bind_or_null(file->event, 4, event->range_id);
    bind_or_null(file->event, 5, event->category);
    /* Nsight Systems' thread id has 24 bits each for process and thread. */
    sqlite3_bind_int64(file->event, 6,
                       (sqlite3_int64)event->process << 24 | (event->thread & 0xffffff));
    bind_or_null(file->event, 7, event->text);
    sqlite3_bind_int64(file->event, 8, event->domain);
    bind_payload(file->event, event);
    bind_or_null(file->event, PARENT_COLUMN, event->parent);
    return database_insert(file->database, file->event, error);
}

static bool add_rows(const struct record_file *file, const struct records *more, GError **error)
{
    bool ok = true;
    for (uint32_t i = 0; ok && i < more->string_count; i++) {
        sqlite3_bind_int64(file->string, 1, more->strings[i].id);
        sqlite3_bind_text(file->string, 2, more->strings[i].text, -1, SQLITE_STATIC);
        ok = database_insert(file->database, file->string, error);
    }
    for (uint32_t i = 0; ok && i < more->event_count; i++)
        ok = add_event(file, &more->events[i], error);
    for (uint32_t i = 0; ok && i < more->sample_count; i++) {
        sqlite3_bind_int64(file->sample, 1, (sqlite3_int64)more->samples[i].time_ns);
        sqlite3_bind_text(file->sample, 2, more->samples[i].counter, -1, SQLITE_STATIC);
        sqlite3_bind_int64(file->sample, 3, (sqlite3_int64)more->samples[i].value);
        ok = database_insert(file->database, file->sample, error);
    }
    return ok && (!more->activity || activity_store_add(file->activity, more->activity, error));
}

static bool begin(const struct record_file *file, GError **error)
{
    return database_has_file(file->database, error) &&
           database_execute(file->database, "BEGIN IMMEDIATE", error);
}

/* Commits the transaction if `ok`, otherwise rolls it back. */
static bool end(const struct record_file *file, bool ok, GError **error)
{
    ok = ok && database_execute(file->database, "COMMIT", error);
    if (!ok)
        sqlite3_exec(file->database->handle, "ROLLBACK", NULL, NULL, NULL);
    return ok;
}

bool record_file_add(struct record_file *file, const struct records *more, GError **error)
{
    return begin(file, error) && end(file, add_rows(file, more, error), error);
}

/* Nsight Systems counts from the start of the session; ours is the zero of the trace's clock. */
bool record_file_describe(struct record_file *file, const struct record_session *session,
                          GError **error)
{
    static const char sql[] = "INSERT INTO TARGET_INFO_SESSION_START_TIME VALUES (?1, "
                              "strftime('%Y-%m-%dT%H:%M:%S', ?1 / 1000000000, 'unixepoch'), "
                              "strftime('%Y-%m-%dT%H:%M:%S', ?1 / 1000000000, 'unixepoch', "
                              "'localtime'))";
    if (!database_execute(file->database,
                          "CREATE TABLE " SCHEMA_SESSION "; CREATE TABLE " SCHEMA_PROCESSES, error))
        return false;
    sqlite3_stmt *times = database_prepare(file->database, sql, error);
    sqlite3_stmt *process = !times ? NULL
                                   : database_prepare(file->database,
                                                      "INSERT INTO PROCESSES VALUES "
                                                      "(?1 << 24, ?1, ?2)",
                                                      error);
    bool ok = process != NULL;
    if (ok) {
        sqlite3_bind_int64(times, 1, session->realtime_ns);
        sqlite3_bind_int64(process, 1, session->process);
        sqlite3_bind_text(process, 2, session->program, -1, SQLITE_STATIC);
        ok = database_insert(file->database, times, error) &&
             database_insert(file->database, process, error);
    }
    sqlite3_finalize(times);
    sqlite3_finalize(process);
    return ok;
}

bool record_file_note(struct record_file *file, const char *key, const char *text, GError **error)
{
    if (!database_has_file(file->database, error))
        return false;
    sqlite3_stmt *row = database_prepare(file->database,
                                         "INSERT OR REPLACE INTO meta VALUES (?, ?)", error);
    bool ok = row != NULL;
    if (ok) {
        sqlite3_bind_text(row, 1, key, -1, SQLITE_STATIC);
        sqlite3_bind_text(row, 2, text, -1, SQLITE_STATIC);
        ok = database_insert(file->database, row, error);
    }
    sqlite3_finalize(row);
    return ok;
}

bool record_file_device_times(struct record_file *file, bool queued, uint64_t *durations_ns,
                              uint32_t operator_count, struct record_doubts *doubts, GError **error)
{
    *doubts = (struct record_doubts){0};
    return database_has_file(file->database, error) &&
           correlate_by_time(file->database, &doubts->calls, error) &&
           device_times_take(file->database, queued, durations_ns, operator_count,
                             &doubts->operators, error);
}

static bool update_durations(const struct record_file *file, const uint64_t *durations_ns,
                             uint32_t operator_count, GError **error)
{
    if (operator_count == 0) /* no iteration, so no table */
        return true;
    sqlite3_stmt *row = database_prepare(
        file->database, "UPDATE operators SET duration_ns = ? WHERE id = ?", error);
    bool ok = row != NULL;
    for (uint32_t m = 0; ok && m < operator_count; m++) {
        bind_or_null(row, 1, durations_ns[m]);
        sqlite3_bind_int64(row, 2, m);
        ok = database_insert(file->database, row, error);
    }
    sqlite3_finalize(row);
    return ok;
}

static bool update(const struct record_file *file, const uint64_t *durations_ns,
                   uint32_t operator_count, bool partial, GError **error)
{
    const char *sql = partial ? "UPDATE meta SET value = 1 WHERE key = 'partial'"
                              : "UPDATE meta SET value = 0 WHERE key = 'partial'";
    return update_durations(file, durations_ns, operator_count, error) &&
           database_execute(file->database, sql, error);
}

bool record_file_complete(struct record_file *file, const uint64_t *durations_ns,
                          uint32_t operator_count, bool partial, GError **error)
{
    return begin(file, error) &&
           end(file, update(file, durations_ns, operator_count, partial, error), error);
}

void record_file_free(struct record_file *file)
{
    if (!file)
        return;
    sqlite3_finalize(file->event);
    sqlite3_finalize(file->string);
    sqlite3_finalize(file->sample);
    activity_store_free(file->activity);
    database_close(file->database);
    g_free(file);
}
