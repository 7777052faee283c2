#include "traces/records.h"

#include "traces/database.h"

#include <string.h>

/* NULL on error. */
static GArray *read_rows(const struct database *database, const char *sql, size_t row_bytes,
                         bool (*read)(sqlite3_stmt *, GArray *), GError **error)
{
    sqlite3_stmt *row = database_prepare(database, sql, error);
    if (!row)
        return NULL;
    GArray *rows = g_array_new(false, false, (guint)row_bytes);
    int status = sqlite3_step(row);
    while (status == SQLITE_ROW && rows->len < UINT32_MAX - 1 && read(row, rows))
        status = sqlite3_step(row);
    if (status == SQLITE_ROW)
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                    "%s: row %u of '%s' has an invalid value", database->path, rows->len, sql);
    else if (status != SQLITE_DONE)
        database_set_error(database, error);
    sqlite3_finalize(row);
    return rows;
}

static char *text(sqlite3_stmt *row, int column)
{
    const char *value = (const char *)sqlite3_column_text(row, column);
    return !value ? NULL : g_utf8_make_valid(value, sqlite3_column_bytes(row, column));
}

static bool read_string(sqlite3_stmt *row, GArray *rows)
{
    sqlite3_int64 id = sqlite3_column_int64(row, 0);
    if (id <= 0 || id > UINT32_MAX || sqlite3_column_type(row, 1) != SQLITE_TEXT)
        return false;
    struct record_string string = {.id = (uint32_t)id, .text = text(row, 1)};
    g_array_append_val(rows, string);
    return true;
}

static bool read_sample(sqlite3_stmt *row, GArray *rows)
{
    if (sqlite3_column_type(row, 1) != SQLITE_TEXT)
        return false;
    char *counter = text(row, 1);
    struct record_sample sample = {
        .time_ns = (uint64_t)sqlite3_column_int64(row, 0),
        .counter = g_intern_string(counter),
        .value = (uint64_t)sqlite3_column_int64(row, 2),
    };
    g_free(counter);
    g_array_append_val(rows, sample);
    return true;
}

#define SELECT_EVENTS                                                                             \
    "SELECT start, end, eventType, rangeId, category, globalTid, textId, domainId, uint64Value, " \
    "int64Value, doubleValue, uint32Value, int32Value, floatValue FROM NVTX_EVENTS "              \
    "ORDER BY start, end DESC"
enum { FIRST_PAYLOAD_COLUMN = 8 };

static void read_payload(sqlite3_stmt *row, struct record *event)
{
    for (int type = RECORD_UINT64; type <= RECORD_FLOAT; type++) {
        int column = FIRST_PAYLOAD_COLUMN + type - RECORD_UINT64;
        if (sqlite3_column_type(row, column) == SQLITE_NULL)
            continue;
        event->payload_type = (uint8_t)type;
        double real = sqlite3_column_double(row, column);
        float single = (float)real;
        uint32_t narrow = (uint32_t)sqlite3_column_int64(row, column);
        if (type == RECORD_DOUBLE)
            memcpy(&event->payload, &real, sizeof real);
        else if (type == RECORD_FLOAT)
            memcpy(&event->payload, &single, sizeof single);
        else if (type == RECORD_UINT32 || type == RECORD_INT32)
            memcpy(&event->payload, &narrow, sizeof narrow);
        else
            event->payload = (uint64_t)sqlite3_column_int64(row, column);
    }
}

static bool read_event(sqlite3_stmt *row, GArray *rows)
{
    sqlite3_int64 type = sqlite3_column_int64(row, 2);
    if (type < 0 || type > UINT8_MAX)
        return false;
    uint64_t thread = (uint64_t)sqlite3_column_int64(row, 5);
    struct record event = {
        .start_ns = (uint64_t)sqlite3_column_int64(row, 0),
        .end_ns = (uint64_t)sqlite3_column_int64(row, 1),
        .type = (uint8_t)type,
        .range_id = (uint64_t)sqlite3_column_int64(row, 3),
        .category = (uint32_t)sqlite3_column_int64(row, 4),
        .process = (thread >> 24) & 0xffffff,
        .thread = thread & 0xffffff,
        .text = (uint32_t)sqlite3_column_int64(row, 6),
        .domain = (uint32_t)sqlite3_column_int64(row, 7),
    };
    read_payload(row, &event);
    g_array_append_val(rows, event);
    return true;
}

/* Reads the rows of a table and sets *count. Returns NULL if there is no such table. */
static void *take(const struct database *database, const char *table, const char *sql,
                  size_t row_bytes, bool (*read)(sqlite3_stmt *, GArray *), uint32_t *count,
                  GError **error)
{
    *count = 0;
    if ((error && *error) || !database_has_table(database, table))
        return NULL;
    GArray *rows = read_rows(database, sql, row_bytes, read, error);
    if (!rows)
        return NULL;
    *count = rows->len;
    return g_array_free(rows, rows->len == 0);
}

/* Returns a text of meta; NULL if there is none. */
static char *read_meta(const struct database *database, const char *key, GError **error)
{
    sqlite3_stmt *row = database_prepare(database, "SELECT value FROM meta WHERE key = ?", error);
    char *lines = NULL;
    if (row)
        sqlite3_bind_text(row, 1, key, -1, SQLITE_STATIC);
    if (row && sqlite3_step(row) == SQLITE_ROW)
        lines = text(row, 0);
    sqlite3_finalize(row);
    return lines;
}

struct records *records_read(const char *path, GError **error)
{
    struct database *database = database_open(path, error);
    if (!database)
        return NULL;
    struct records *records = g_new0(struct records, 1);
    records->has_iteration = database_has_table(database, "operators");
    GError *fault = NULL;
    records->strings = take(database, "StringIds", "SELECT id, value FROM StringIds ORDER BY id",
                            sizeof(struct record_string), read_string, &records->string_count,
                            &fault);
    records->events = take(database, "NVTX_EVENTS", SELECT_EVENTS, sizeof(struct record),
                           read_event, &records->event_count, &fault);
    records->samples =
        take(database, "samples", "SELECT time, counter, value FROM samples ORDER BY time",
             sizeof(struct record_sample), read_sample, &records->sample_count, &fault);
    if (!fault)
        records->unknown = read_meta(database, "unknown", &fault);
    if (!fault)
        records->iterations_by = read_meta(database, "iterations_by", &fault);
    database_close(database);
    if (fault) {
        g_propagate_error(error, fault);
        g_clear_pointer(&records, records_free);
    }
    return records;
}

void records_free(struct records *records)
{
    if (!records)
        return;
    for (uint32_t i = 0; i < records->string_count; i++)
        g_free(records->strings[i].text);
    g_free(records->events);
    g_free(records->strings);
    g_free(records->samples);
    g_free(records->unknown);
    g_free(records->iterations_by);
    g_free(records);
}

void records_missing(const struct records *records, GPtrArray *missing)
{
    g_auto(GStrv) lines = g_strsplit(!records->unknown ? "" : records->unknown, "\n", -1);
    for (char **line = lines; *line; line++)
        if (**line != '\0')
            g_ptr_array_add(missing, g_strdup(*line));
}

const char *records_text(const struct records *records, uint32_t string)
{
    uint32_t low = 0, high = records->string_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (records->strings[middle].id < string)
            low = middle + 1;
        else
            high = middle;
    }
    return low < records->string_count && records->strings[low].id == string
               ? records->strings[low].text
               : "";
}

uint32_t records_domain(const struct records *records, const char *name)
{
    for (uint32_t i = 0; i < records->event_count; i++)
        if (records->events[i].type == RECORD_DOMAIN &&
            !strcmp(records_text(records, records->events[i].text), name))
            return records->events[i].domain;
    return 0;
}

struct string_table {
    GHashTable *ids;  /* original text to id, stored as a pointer */
    GPtrArray *texts; /* by id - 1 */
};

struct string_table *string_table_new(void)
{
    struct string_table *table = g_new0(struct string_table, 1);
    table->ids = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    table->texts = g_ptr_array_new_with_free_func(g_free);
    return table;
}

void string_table_free(struct string_table *table)
{
    g_hash_table_unref(table->ids);
    g_ptr_array_unref(table->texts);
    g_free(table);
}

uint32_t string_table_id(struct string_table *table, const char *text)
{
    uint32_t id = GPOINTER_TO_UINT(g_hash_table_lookup(table->ids, text));
    if (id == 0) {
        g_ptr_array_add(table->texts, g_utf8_make_valid(text, -1));
        id = table->texts->len;
        g_hash_table_insert(table->ids, g_strdup(text), GUINT_TO_POINTER(id));
    }
    return id;
}

const char *string_table_text(const struct string_table *table, uint32_t id)
{
    return (const char *)g_ptr_array_index(table->texts, id - 1);
}

struct record_string *string_table_strings(const struct string_table *table, uint32_t *count)
{
    struct record_string *strings = g_new(struct record_string, table->texts->len);
    *count = table->texts->len;
    for (uint32_t i = 0; i < *count; i++)
        strings[i] = (struct record_string){i + 1, (char *)g_ptr_array_index(table->texts, i)};
    return strings;
}
