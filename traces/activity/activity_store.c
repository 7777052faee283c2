#include "traces/activity/activity_store.h"

#include "traces/activity/activity_tables.h"
#include "traces/database.h"

struct activity_store {
    const struct database *database;
    sqlite3_stmt *inserts[ACTIVITY_TABLES]; /* NULL: not needed so far */
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

/* Each time: a transaction that fails takes the table with it. */
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

/* A slice whose array is NULL is written as zeros: its columns may not be NULL. */
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
    bool good = create(store, t, error);
    for (uint32_t row = 0; good && row < count; row++) {
        bind_row(store->inserts[t], table, activity, row);
        good = database_insert(store->database, store->inserts[t], error);
    }
    return good;
}

/* The numbers that the program has for the devices are those of the rows: CUDA gave them. */
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
    bool good = !activity->chosen_calls ||
                database_execute(
                    store->database,
                    "INSERT OR REPLACE INTO meta VALUES ('" ACTIVITY_CHOSEN_CALLS "', 1)", error);
    for (int c = 0; good && c < ACTIVITY_COUNTS; c++) {
        const char *count = (const char *)activity + activity_counts[c].offset;
        good = add_count(store, activity_counts[c].key, *(const uint64_t *)(const void *)count,
                         error);
    }
    return good;
}

bool activity_store_add(struct activity_store *store, const struct activity *activity,
                        GError **error)
{
    bool good = add_meta(store, activity, error);
    for (int t = 0; good && t < ACTIVITY_TABLES; t++)
        good = add_rows(store, t, activity, error);
    return good && (activity->gpu_count == 0 || add_devices(store, error));
}

void activity_store_free(struct activity_store *store)
{
    if (!store)
        return;
    for (int t = 0; t < ACTIVITY_TABLES; t++)
        sqlite3_finalize(store->inserts[t]);
    g_free(store);
}
