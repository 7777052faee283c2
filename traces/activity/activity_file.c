/* Reads, writes and checks the activity tables of a trace file.
 *
 * A query passes each row's values to our own aggregate function. That takes a quarter less time
 * than stepping through the rows, and a trace may have millions of them. */
#include "traces/activity/activity_file.h"

#include "traces/activity/activity.h"
#include "traces/database.h"
#include "traces/trace.h"

#include <stdlib.h>
#include <string.h>

struct loading {
    const struct database *database;
    const struct activity_table *table;
    const struct activity_slice *slices[ACTIVITY_SLICES]; /* the requested ones */
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
        return refuse(loading, "%s must be an integer in [0, 4294967295]", column->name);
    if (column->below > 0 && number >= column->below)
        return refuse(loading, "%s has no value %u", column->name, (unsigned)number);
    *field = (uint32_t)number;
    return true;
}

/* Stores a value in its field. NULL becomes 0. */
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
        return refuse(loading, "%s is not an integer", column->name);
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

/* Relies on start_ns and end_ns being the first fields of a record. */
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
    bool ok = sqlite3_step(query) == SQLITE_ROW;
    if (loading->fault)
        g_propagate_error(error, g_steal_pointer(&loading->fault));
    else if (!ok)
        database_set_error(loading->database, error);
    sqlite3_finalize(query);
    return ok;
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

/* Sorts by start, because a profiler's buffers arrive in any order. */
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

/* Loads a table. On error, the activity holds the rows before the bad one, so that they can be
 * freed. */
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
    bool ok = load_rows(&loading, error);
    if (ok && !loading.sorted)
        sort_rows(&loading);
    *(uint32_t *)(void *)((char *)activity + table->count_offset) = loading.row_count;
    for (uint32_t s = 0; s < loading.slice_count; s++)
        *(void **)(void *)((char *)activity + loading.slices[s]->array_offset) =
            g_array_free(loading.records[s], loading.row_count == 0);
    return ok;
}

/* `key` may be NULL in a damaged file. */
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
    /* One transaction, so that all tables have the same state of the file. */
    bool ok = database_execute(database, "BEGIN", error) && load_meta(database, activity, error);
    for (int t = 0; ok && t < ACTIVITY_TABLES; t++)
        ok = load_table(database, &activity_tables[t], parts, activity, error);
    database_close(database);
    if (!ok)
        g_clear_pointer(&activity, activity_free);
    return activity;
}

void gpu_records_free(struct gpu_record *gpus, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        g_free(gpus[i].name);
        g_free(gpus[i].uuid);
    }
    g_free(gpus);
}

void activity_free(struct activity *activity)
{
    if (!activity)
        return;
    gpu_records_free(activity->gpus, activity->gpu_count);
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

struct activity_store {
    const struct database *database;
    sqlite3_stmt *inserts[ACTIVITY_TABLES]; /* NULL if not needed so far */
};

struct activity_store *activity_store_new(const struct database *database)
{
    struct activity_store *store = g_new0(struct activity_store, 1);
    store->database = database;
    return store;
}

static char *insert_columns(const struct activity_table *table)
{
    g_autoptr(GString) names = g_string_new(NULL), marks = g_string_new(NULL);
    for (uint32_t s = 0; s < table->slice_count; s++)
        for (uint32_t c = 0; c < table->slices[s].column_count; c++) {
            const char *comma = names->len > 0 ? ", " : "";
            g_string_append_printf(names, "%s%s", comma, table->slices[s].columns[c].name);
            g_string_append_printf(marks, "%s?", comma);
        }
    return g_strdup_printf("INSERT INTO %s (%s) VALUES (%s)", table->name, names->str, marks->str);
}

/* Runs for every addition, because a failed transaction also removes the table. */
static bool create(struct activity_store *store, int t, GError **error)
{
    const struct activity_table *table = &activity_tables[t];
    g_autofree char *sql = g_strdup_printf("%s CREATE TABLE IF NOT EXISTS %s (%s)",
                                           activity_enumerations, table->name, table->columns);
    if (!database_execute(store->database, sql, error))
        return false;
    if (!store->inserts[t]) {
        g_autofree char *insert = insert_columns(table);
        store->inserts[t] = database_prepare(store->database, insert, error);
    }
    return store->inserts[t] != NULL;
}

static void bind(sqlite3_stmt *row, int place, const struct activity_column *column,
                 const void *field)
{
    const uint32_t *narrow = field;
    switch (column->kind) {
    case COLUMN_64:
    case COLUMN_64_OR_NULL:
        if (column->kind == COLUMN_64_OR_NULL && *(const uint64_t *)field == 0)
            sqlite3_bind_null(row, place);
        else
            sqlite3_bind_int64(row, place, (sqlite3_int64) * (const uint64_t *)field);
        break;
    case COLUMN_32:
    case COLUMN_32_OR_NULL:
        if (column->kind == COLUMN_32_OR_NULL && *narrow == 0)
            sqlite3_bind_null(row, place);
        else
            sqlite3_bind_int64(row, place, *narrow);
        break;
    case COLUMN_PROCESS:
        sqlite3_bind_int64(row, place, (sqlite3_int64)*narrow << 24);
        break;
    case COLUMN_THREAD:
        sqlite3_bind_int64(row, place, (sqlite3_int64)narrow[0] << 24 | narrow[1]);
        break;
    default:
        sqlite3_bind_text(row, place, *(char *const *)field, -1, SQLITE_STATIC);
    }
}

static const char *array(const struct activity *activity, const struct activity_slice *slice)
{
    return *(const char *const *)(const void *)((const char *)activity + slice->array_offset);
}

/* Writes zeros for a slice without an array: its columns must not be NULL. */
static void bind_row(sqlite3_stmt *insert, const struct activity_table *table,
                     const struct activity *activity, uint32_t row)
{
    static const uint64_t nothing[32] = {0};
    int place = 1;
    for (uint32_t s = 0; s < table->slice_count; s++) {
        const struct activity_slice *slice = &table->slices[s];
        const char *records = array(activity, slice);
        const char *record = !records ? (const char *)nothing : records + row * slice->record_bytes;
        g_assert(records || slice->record_bytes <= sizeof nothing);
        for (uint32_t c = 0; c < slice->column_count; c++)
            bind(insert, place++, &slice->columns[c], record + slice->columns[c].offset);
    }
}

static bool add_rows(struct activity_store *store, int t, const struct activity *activity,
                     GError **error)
{
    const struct activity_table *table = &activity_tables[t];
    const char *fields = (const char *)activity;
    uint32_t count = *(const uint32_t *)(const void *)(fields + table->count_offset);
    if (count == 0)
        return true;
    bool ok = create(store, t, error);
    for (uint32_t row = 0; ok && row < count; row++) {
        bind_row(store->inserts[t], table, activity, row);
        ok = database_insert(store->database, store->inserts[t], error);
    }
    return ok;
}

/* Lists the devices for TARGET_INFO_CUDA_DEVICE. The rows already have CUDA's device numbers. */
static bool add_devices(const struct activity_store *store, GError **error)
{
    return database_execute(
        store->database,
        "CREATE TABLE IF NOT EXISTS " SCHEMA_CUDA_DEVICES ";"
        "CREATE TABLE IF NOT EXISTS " SCHEMA_PROCESSES ";"
        "INSERT INTO TARGET_INFO_CUDA_DEVICE SELECT id, id, (SELECT pid FROM PROCESSES), uuid, "
        "smCount FROM TARGET_INFO_GPU",
        error);
}

static bool add_count(const struct activity_store *store, const char *key, uint64_t count,
                      GError **error)
{
    if (count == 0)
        return true;
    g_autofree char *sql =
        g_strdup_printf("INSERT INTO meta VALUES ('%s', %" G_GUINT64_FORMAT
                        ") ON CONFLICT (key) DO UPDATE SET value = value + excluded.value",
                        key, count);
    return database_execute(store->database, sql, error);
}

static bool add_meta(const struct activity_store *store, const struct activity *activity,
                     GError **error)
{
    bool ok = !activity->chosen_calls ||
              database_execute(
                  store->database,
                  "INSERT OR REPLACE INTO meta VALUES ('" ACTIVITY_CHOSEN_CALLS "', 1)", error);
    for (int c = 0; ok && c < ACTIVITY_COUNTS; c++) {
        const char *count = (const char *)activity + activity_counts[c].offset;
        ok = add_count(store, activity_counts[c].key, *(const uint64_t *)(const void *)count,
                       error);
    }
    return ok;
}

bool activity_store_add(struct activity_store *store, const struct activity *activity,
                        GError **error)
{
    bool ok = add_meta(store, activity, error);
    for (int t = 0; ok && t < ACTIVITY_TABLES; t++)
        ok = add_rows(store, t, activity, error);
    return ok && (activity->gpu_count == 0 || add_devices(store, error));
}

void activity_store_free(struct activity_store *store)
{
    if (!store)
        return;
    for (int t = 0; t < ACTIVITY_TABLES; t++)
        sqlite3_finalize(store->inserts[t]);
    g_free(store);
}

struct verifying {
    const struct activity *activity;
    const char *path;
    GHashTable *names;   /* ids of strings */
    GHashTable *devices; /* ids of described devices */
    GHashTable *calls;   /* correlations; NULL if they need not be checked */
    GError **error;
};

static bool refuse_reference(const struct verifying *verifying, const char *table,
                             uint64_t start_ns, const char *what, uint32_t number)
{
    g_set_error(verifying->error, TRACE_ERROR, TRACE_ERROR_INVALID,
                "%s: %s: the row that starts at %" G_GUINT64_FORMAT
                " names %s %u, which does not exist",
                verifying->path, table, start_ns, what, number);
    return false;
}

/* Checks device and correlation. An empty table of devices allows any device. */
static bool check(const struct verifying *verifying, const char *table, uint64_t start_ns,
                  uint32_t device, uint32_t correlation)
{
    if (g_hash_table_size(verifying->devices) > 0 &&
        !g_hash_table_contains(verifying->devices, GUINT_TO_POINTER(device)))
        return refuse_reference(verifying, table, start_ns, "device", device);
    if (verifying->calls && !g_hash_table_contains(verifying->calls, GUINT_TO_POINTER(correlation)))
        return refuse_reference(verifying, table, start_ns, "correlation", correlation);
    return true;
}

static bool check_name(const struct verifying *verifying, const char *table, uint64_t start_ns,
                       uint32_t name)
{
    return g_hash_table_contains(verifying->names, GUINT_TO_POINTER(name)) ||
           refuse_reference(verifying, table, start_ns, "string", name);
}

static bool check_kernels(const struct verifying *verifying)
{
    static const char table[] = "CUPTI_ACTIVITY_KIND_KERNEL";
    for (uint32_t i = 0; i < verifying->activity->kernel_count; i++) {
        const struct kernel_record *kernel = &verifying->activity->kernels[i];
        if (!check(verifying, table, kernel->start_ns, kernel->device, kernel->correlation) ||
            !check_name(verifying, table, kernel->start_ns, kernel->name) ||
            !check_name(verifying, table, kernel->start_ns, kernel->short_name))
            return false;
    }
    return true;
}

static bool check_copies(const struct verifying *verifying)
{
    const struct activity *activity = verifying->activity;
    for (uint32_t i = 0; i < activity->copy_count; i++)
        if (!check(verifying, "CUPTI_ACTIVITY_KIND_MEMCPY", activity->copies[i].start_ns,
                   activity->copies[i].device, activity->copies[i].correlation))
            return false;
    for (uint32_t i = 0; i < activity->set_count; i++)
        if (!check(verifying, "CUPTI_ACTIVITY_KIND_MEMSET", activity->sets[i].start_ns,
                   activity->sets[i].device, activity->sets[i].correlation))
            return false;
    return true;
}

static bool check_calls(const struct verifying *verifying)
{
    const struct activity *activity = verifying->activity;
    for (uint32_t i = 0; i < activity->call_count; i++)
        if (!check_name(verifying, "CUPTI_ACTIVITY_KIND_RUNTIME", activity->calls[i].start_ns,
                        activity->calls[i].name))
            return false;
    for (uint32_t i = 0; i < activity->overhead_count; i++)
        if (activity->overheads[i].name != 0 &&
            !check_name(verifying, "CUPTI_ACTIVITY_KIND_OVERHEAD", activity->overheads[i].start_ns,
                        activity->overheads[i].name))
            return false;
    return true;
}

bool activity_verify(const struct activity *activity, const struct records *records, bool partial,
                     const char *path, GError **error)
{
    g_autoptr(GHashTable) names = g_hash_table_new(NULL, NULL);
    g_autoptr(GHashTable) devices = g_hash_table_new(NULL, NULL);
    g_autoptr(GHashTable) calls = g_hash_table_new(NULL, NULL);
    bool complete = activity->call_count > 0 && activity->dropped == 0 && !partial &&
                    activity->unreadable == 0 && !activity->chosen_calls &&
                    !records->unknown; /* other tools do not record all calls */
    for (uint32_t i = 0; i < records->string_count; i++)
        g_hash_table_add(names, GUINT_TO_POINTER(records->strings[i].id));
    for (uint32_t i = 0; i < activity->gpu_count; i++)
        g_hash_table_add(devices, GUINT_TO_POINTER(activity->gpus[i].id));
    for (uint32_t i = 0; complete && i < activity->call_count; i++)
        g_hash_table_add(calls, GUINT_TO_POINTER(activity->calls[i].correlation));
    const struct verifying verifying = {.activity = activity,
                                        .path = path,
                                        .names = names,
                                        .devices = devices,
                                        .calls = complete ? calls : NULL,
                                        .error = error};
    return check_kernels(&verifying) && check_copies(&verifying) && check_calls(&verifying);
}
