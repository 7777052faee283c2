/* From the tables of a trace file to activity records.
 *
 * A query calls an aggregate function of ours with each row's values. That costs a quarter less
 * than stepping through the rows and fetching each column, and a trace may have millions. */
#include "traces/activity/activity.h"
#include "traces/activity/activity_tables.h"
#include "traces/database.h"
#include "traces/trace.h"

#include <stdlib.h>
#include <string.h>

struct loading {
    const struct database *database;
    const struct activity_table *table;
    const struct activity_slice *slices[ACTIVITY_SLICES]; /* those that are wanted */
    GArray *records[ACTIVITY_SLICES];
    uint32_t slice_count;
    uint32_t row_count;
    uint64_t last_start_ns;
    bool sorted;
    GError *fault;
};

G_GNUC_PRINTF(2, 3)
static bool refuse(struct loading *loading, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *reason = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(&loading->fault, TRACE_ERROR, TRACE_ERROR_INVALID, "%s: %s: row %u: %s",
                loading->database->path, loading->table->name, loading->row_count, reason);
    return false;
}

static bool take_text(sqlite3_value *value, char **text)
{
    const char *given = (const char *)sqlite3_value_text(value);
    *text = !given ? NULL : g_utf8_make_valid(given, sqlite3_value_bytes(value));
    return true;
}

static bool take_32(struct loading *loading, const struct activity_column *column,
                    sqlite3_int64 number, uint32_t *field)
{
    if (number < 0 || number > UINT32_MAX)
        return refuse(loading, "%s is no number of 32 bits", column->name);
    if (column->below > 0 && number >= column->below)
        return refuse(loading, "%s has no value %u", column->name, (unsigned)number);
    *field = (uint32_t)number;
    return true;
}

/* The record's fields are 0 where the column is NULL. */
static bool take(struct loading *loading, const struct activity_column *column,
                 sqlite3_value *value, char *record)
{
    void *field = record + column->offset;
    int type = sqlite3_value_type(value);
    if (column->kind == COLUMN_TEXT)
        return take_text(value, (char **)field);
    if (type == SQLITE_NULL && column->kind != COLUMN_64 && column->kind != COLUMN_32)
        return true;
    if (type != SQLITE_INTEGER)
        return refuse(loading, "%s is no whole number", column->name);
    sqlite3_int64 number = sqlite3_value_int64(value);
    switch (column->kind) {
    case COLUMN_64:
    case COLUMN_64_OR_NULL:
        *(uint64_t *)field = (uint64_t)number;
        return true;
    case COLUMN_THREAD:
        ((uint32_t *)field)[1] = (uint32_t)number & 0xffffff;
        *(uint32_t *)field = (uint32_t)((uint64_t)number >> 24) & 0xffffff;
        return true;
    case COLUMN_PROCESS:
        *(uint32_t *)field = (uint32_t)((uint64_t)number >> 24) & 0xffffff;
        return true;
    default:
        return take_32(loading, column, number, field);
    }
}

/* start_ns and end_ns are a record's first fields. */
static bool check_times(struct loading *loading, const char *record)
{
    uint32_t times = loading->table->times;
    const uint64_t *fields = (const uint64_t *)(const void *)record;
    if (times == 2 && fields[1] < fields[0])
        return refuse(loading, "ends before it begins");
    if (times > 0) {
        loading->sorted = loading->sorted && loading->last_start_ns <= fields[0];
        loading->last_start_ns = fields[0];
    }
    return true;
}

static bool take_row(struct loading *loading, sqlite3_value **values)
{
    uint32_t row = loading->row_count;
    if (row == UINT32_MAX - 1)
        return refuse(loading, "more rows than a trace can have");
    for (uint32_t s = 0; s < loading->slice_count; s++)
        g_array_set_size(loading->records[s], row + 1);
    loading->row_count++;
    for (uint32_t s = 0; s < loading->slice_count; s++) {
        const struct activity_slice *slice = loading->slices[s];
        char *record = loading->records[s]->data + row * slice->record_bytes;
        for (uint32_t c = 0; c < slice->column_count; c++)
            if (!take(loading, &slice->columns[c], *values++, record))
                return false;
        if (s == 0 && !check_times(loading, record))
            return false;
    }
    return true;
}

static void step(sqlite3_context *context, int count, sqlite3_value **values)
{
    (void)count;
    if (!take_row((struct loading *)sqlite3_user_data(context), values))
        sqlite3_result_error(context, "refused", -1);
}

static void finish(sqlite3_context *context)
{
    sqlite3_result_null(context);
}

static char *select_columns(const struct loading *loading)
{
    GString *sql = g_string_new("SELECT take_row(");
    for (uint32_t s = 0; s < loading->slice_count; s++)
        for (uint32_t c = 0; c < loading->slices[s]->column_count; c++)
            g_string_append_printf(sql, "%s%s", s + c > 0 ? ", " : "",
                                   loading->slices[s]->columns[c].name);
    g_string_append_printf(sql, ") FROM %s", loading->table->name);
    return g_string_free(sql, FALSE);
}

static bool load_rows(struct loading *loading, GError **error)
{
    sqlite3 *handle = loading->database->handle;
    if (sqlite3_create_function(handle, "take_row", -1, SQLITE_UTF8, loading, NULL, step, finish) !=
        SQLITE_OK) {
        database_set_error(loading->database, error);
        return false;
    }
    g_autofree char *sql = select_columns(loading);
    sqlite3_stmt *query = database_prepare(loading->database, sql, error);
    if (!query)
        return false;
    bool good = sqlite3_step(query) == SQLITE_ROW;
    if (loading->fault)
        g_propagate_error(error, g_steal_pointer(&loading->fault));
    else if (!good)
        database_set_error(loading->database, error);
    sqlite3_finalize(query);
    return good;
}

struct key {
    uint64_t start_ns;
    uint32_t row;
};

static int by_start(const void *left, const void *right)
{
    const struct key *a = left, *b = right;
    if (a->start_ns != b->start_ns)
        return a->start_ns < b->start_ns ? -1 : 1;
    return a->row < b->row ? -1 : a->row > b->row;
}

/* Buffers of a profiler arrive in any order. */
static void sort_rows(struct loading *loading)
{
    g_autofree struct key *keys = g_new(struct key, loading->row_count);
    const struct activity_slice *first = loading->slices[0];
    for (uint32_t row = 0; row < loading->row_count; row++) {
        const char *record = loading->records[0]->data + row * first->record_bytes;
        keys[row] = (struct key){*(const uint64_t *)(const void *)record, row};
    }
    qsort(keys, loading->row_count, sizeof *keys, by_start);
    for (uint32_t s = 0; s < loading->slice_count; s++) {
        GArray *unsorted = loading->records[s];
        size_t bytes = loading->slices[s]->record_bytes;
        loading->records[s] = g_array_sized_new(FALSE, FALSE, (guint)bytes, loading->row_count);
        for (uint32_t row = 0; row < loading->row_count; row++)
            g_array_append_vals(loading->records[s], unsorted->data + keys[row].row * bytes, 1);
        g_array_unref(unsorted);
    }
}

static void add_slice(struct loading *loading, const struct activity_slice *slice)
{
    loading->slices[loading->slice_count] = slice;
    loading->records[loading->slice_count++] = g_array_new(FALSE, TRUE, (guint)slice->record_bytes);
}

/* On error, what was read is in the activity all the same, so that it can be freed. */
static bool load_table(const struct database *database, const struct activity_table *table,
                       uint32_t parts, struct activity *activity, GError **error)
{
    if (!database_has_table(database, table->name))
        return true;
    struct loading loading = {.database = database, .table = table, .sorted = true};
    for (uint32_t s = 0; s < table->slice_count; s++) {
        activity->recorded |= table->slices[s].part;
        if (parts & table->slices[s].part)
            add_slice(&loading, &table->slices[s]);
    }
    if (loading.slice_count == 0)
        return true;
    bool good = load_rows(&loading, error);
    if (good && !loading.sorted)
        sort_rows(&loading);
    *(uint32_t *)(void *)((char *)activity + table->count_offset) = loading.row_count;
    for (uint32_t s = 0; s < loading.slice_count; s++)
        *(void **)(void *)((char *)activity + loading.slices[s]->array_offset) =
            g_array_free(loading.records[s], loading.row_count == 0);
    return good;
}

/* In a damaged file the key may be NULL. */
static void take_meta(struct activity *activity, const char *key, sqlite3_int64 value)
{
    if (g_strcmp0(key, ACTIVITY_CHOSEN_CALLS) == 0)
        activity->chosen_calls = value == 1;
    for (int c = 0; c < ACTIVITY_COUNTS; c++)
        if (g_strcmp0(key, activity_counts[c].key) == 0)
            *(uint64_t *)(void *)((char *)activity + activity_counts[c].offset) = (uint64_t)value;
}

static bool load_meta(const struct database *database, struct activity *activity, GError **error)
{
    sqlite3_stmt *row = database_prepare(database, "SELECT key, value FROM meta", error);
    if (!row)
        return false;
    int status;
    while ((status = sqlite3_step(row)) == SQLITE_ROW)
        take_meta(activity, (const char *)sqlite3_column_text(row, 0),
                  sqlite3_column_int64(row, 1));
    if (status != SQLITE_DONE)
        database_set_error(database, error);
    sqlite3_finalize(row);
    return status == SQLITE_DONE;
}

struct activity *activity_read(const char *path, uint32_t parts, GError **error)
{
    struct database *database = database_open(path, error);
    if (!database)
        return NULL;
    if (parts & ACTIVITY_LAUNCHES)
        parts |= ACTIVITY_KERNELS;
    struct activity *activity = g_new0(struct activity, 1);
    /* One transaction, so that all tables are of one state of the file. */
    bool good = database_execute(database, "BEGIN", error) && load_meta(database, activity, error);
    for (int t = 0; good && t < ACTIVITY_TABLES; t++)
        good = load_table(database, &activity_tables[t], parts, activity, error);
    database_close(database);
    if (!good)
        g_clear_pointer(&activity, activity_free);
    return activity;
}

void activity_free(struct activity *activity)
{
    if (!activity)
        return;
    for (uint32_t i = 0; i < activity->gpu_count; i++) {
        g_free(activity->gpus[i].name);
        g_free(activity->gpus[i].uuid);
    }
    g_free(activity->gpus);
    g_free(activity->kernels);
    g_free(activity->launches);
    g_free(activity->copies);
    g_free(activity->sets);
    g_free(activity->syncs);
    g_free(activity->calls);
    g_free(activity->overheads);
    g_free(activity->memory);
    g_free(activity->pools);
    g_free(activity->correlations);
    g_free(activity);
}
