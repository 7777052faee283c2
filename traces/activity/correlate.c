#include "traces/activity/activity_file.h"

#define CORRELATIONS "CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION"
#define CALLS        "CUPTI_ACTIVITY_KIND_RUNTIME"

/* Begins of ranges, and calls that no range asked for, of one thread after the other in the order
 * of time. A range that begins with a call begins before it. */
static const char happenings[] =
    "SELECT * FROM (SELECT globalTid, start, end, rangeId, NULL FROM NVTX_EVENTS"
    " WHERE eventType = 59 AND rangeId IS NOT NULL AND end IS NOT NULL "
    "UNION ALL SELECT globalTid, start, end, NULL, correlationId FROM " CALLS
    " WHERE correlationId NOT IN (SELECT correlationId FROM " CORRELATIONS ")"
    ") ORDER BY globalTid, start, rangeId IS NULL, rangeId";
enum column { THREAD, START, END, RANGE, CORRELATION };

struct timed_range {
    gint64 id, end_ns;
};

struct correlation_sweep {
    GArray *open; /* struct timed_range, of one thread */
    gint64 thread;
    sqlite3_stmt *add;
    uint32_t added;
};

/* Finds the innermost range that has not ended. Ranges of different domains may cross. */
static bool assign(struct correlation_sweep *sweep, const struct database *database,
                   gint64 start_ns, gint64 correlation, GError **error)
{
    for (guint i = sweep->open->len; i > 0; i--) {
        const struct timed_range *range = &g_array_index(sweep->open, struct timed_range, i - 1);
        if (range->end_ns < start_ns)
            continue;
        sqlite3_bind_int64(sweep->add, 1, range->id);
        sqlite3_bind_int64(sweep->add, 2, correlation);
        sweep->added++;
        return database_insert(database, sweep->add, error);
    }
    return true;
}

static void leave_ended(struct correlation_sweep *sweep, gint64 now_ns)
{
    while (sweep->open->len > 0 &&
           g_array_index(sweep->open, struct timed_range, sweep->open->len - 1).end_ns < now_ns)
        g_array_set_size(sweep->open, sweep->open->len - 1);
}

static bool pass(struct correlation_sweep *sweep, const struct database *database,
                 sqlite3_stmt *row, GError **error)
{
    gint64 thread = sqlite3_column_int64(row, THREAD), start = sqlite3_column_int64(row, START);
    if (thread != sweep->thread)
        g_array_set_size(sweep->open, 0);
    sweep->thread = thread;
    leave_ended(sweep, start);
    if (sqlite3_column_type(row, RANGE) == SQLITE_NULL)
        return assign(sweep, database, start, sqlite3_column_int64(row, CORRELATION), error);
    const struct timed_range range = {sqlite3_column_int64(row, RANGE),
                                      sqlite3_column_int64(row, END)};
    g_array_append_val(sweep->open, range);
    return true;
}

/* The rows are read before any is added, because the query reads the table that grows. */
static bool sweep_all(struct correlation_sweep *sweep, const struct database *database,
                      GError **error)
{
    sqlite3_stmt *rows = database_prepare(database, "SELECT * FROM temp.happenings", error);
    int state = SQLITE_ERROR;
    bool ok = rows != NULL;
    while (ok && (state = sqlite3_step(rows)) == SQLITE_ROW)
        ok = pass(sweep, database, rows, error);
    if (ok && state != SQLITE_DONE)
        database_set_error(database, error);
    sqlite3_finalize(rows);
    return ok && state == SQLITE_DONE;
}

static bool make_table(const struct database *database, GError **error)
{
    g_autofree char *sql = NULL;
    for (int i = 0; i < ACTIVITY_TABLES && !sql; i++)
        if (g_str_equal(activity_tables[i].name, CORRELATIONS))
            sql = g_strdup_printf("CREATE TABLE IF NOT EXISTS " CORRELATIONS " (%s)",
                                  activity_tables[i].columns);
    return database_execute(database, sql, error);
}

bool correlate_by_time(const struct database *database, uint32_t *added, GError **error)
{
    g_autofree char *copy = g_strdup_printf("PRAGMA temp_store = MEMORY;"
                                            "CREATE TEMP TABLE happenings AS %s",
                                            happenings);
    struct correlation_sweep sweep = {
        .open = g_array_new(FALSE, FALSE, sizeof(struct timed_range))};
    *added = 0;
    bool ok = true;
    if (database_has_table(database, CALLS)) {
        ok = make_table(database, error) && database_execute(database, copy, error) &&
             (sweep.add = database_prepare(
                  database, "INSERT INTO " CORRELATIONS " VALUES (4, ?, ?)", error)) &&
             sweep_all(&sweep, database, error);
        sqlite3_finalize(sweep.add);
        ok = ok && database_execute(database, "DROP TABLE temp.happenings", error);
    }
    *added = sweep.added;
    g_array_unref(sweep.open);
    return ok;
}
