#include "traces/activity/activity_file.h"
#include "traces/annotations.h"

/* Work on the device itself. Copies over the link belong to no operator. */
#define WORK "SELECT correlationId, start, end FROM CUPTI_ACTIVITY_KIND_"
static const struct {
    const char *table, *rows;
} kinds[] = {{"CUPTI_ACTIVITY_KIND_MEMSET", " UNION ALL " WORK "MEMSET"},
             {"CUPTI_ACTIVITY_KIND_MEMCPY", " UNION ALL " WORK "MEMCPY WHERE copyKind = 8"}};

/* Common beginning of all queries. */
#define ASKED                                                      \
    "asked AS (SELECT DISTINCT externalId AS range, correlationId" \
    " FROM CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION) "

/* Ordered by id: a range's parent has a lower id. */
static const char all_ranges[] = ASKED
    "SELECT rangeId, start, end, uint64Value, parentRangeId, category = ?1 AND domainId IN"
    " (SELECT domainId FROM NVTX_EVENTS WHERE eventType = 75 AND text = ?2) "
    "FROM NVTX_EVENTS WHERE eventType = 59 AND rangeId IS NOT NULL ORDER BY rangeId";
enum range_column { RANGE, BEGIN, END, MOMENT, PARENT, IS_OPERATOR };

static const char waits[] = ASKED "SELECT range FROM asked JOIN CUPTI_ACTIVITY_KIND_RUNTIME"
                                  " USING (correlationId) JOIN StringIds s ON s.id = nameId"
                                  " WHERE s.value LIKE '%Synchronize%'";

/* Start and end of work, and the end of the call that asked for it. */
static const char asked_work[] = ASKED
    ", calls AS (SELECT correlationId, MIN(end) AS over FROM CUPTI_ACTIVITY_KIND_RUNTIME"
    " GROUP BY correlationId) "
    "SELECT range, start, end, over FROM asked JOIN work USING (correlationId)"
    " LEFT JOIN calls USING (correlationId) ORDER BY start, end";
enum work_column { WORK_BEGIN = 1, WORK_END, CALL_OVER };

static const char unasked_work[] = ASKED
    "SELECT start FROM work WHERE correlationId NOT IN (SELECT correlationId FROM asked) "
    "ORDER BY start";

/* The range of an operator. */
struct operator_range {
    uint64_t moment, begin_ns, end_ns;
    uint64_t busy_ns, until_ns; /* until_ns is the end of its work so far */
    uint32_t works;
    bool waited;
};

struct times {
    bool queued;        /* ranges only queue work */
    GArray *ranges;     /* struct operator_range */
    GHashTable *within; /* range id to 1 + index of the operator range around it */
    GArray *gaps;       /* uint64_t, gaps between queued work and the work before it */
    GArray *unasked;    /* uint64_t, sorted begins of work that no range asked for */
};

static sqlite3_stmt *prepare(const struct database *database, const char *query, GError **error)
{
    g_autoptr(GString) sql = g_string_new("WITH work AS (" WORK "KERNEL");
    for (size_t i = 0; i < G_N_ELEMENTS(kinds); i++)
        if (database_has_table(database, kinds[i].table))
            g_string_append(sql, kinds[i].rows);
    g_string_append(sql, "), ");
    g_string_append(sql, query);
    return database_prepare(database, sql->str, error);
}

static uint64_t number(sqlite3_stmt *row, int column)
{
    return (uint64_t)sqlite3_column_int64(row, column);
}

static guint place_of(const struct times *times, uint64_t range)
{
    return GPOINTER_TO_UINT(g_hash_table_lookup(times->within, GSIZE_TO_POINTER(range)));
}

/* Returns the operator around a range, which may be a library's range within it; NULL if there is
 * none. */
static struct operator_range *operator_around(const struct times *times, sqlite3_stmt *row)
{
    guint place = place_of(times, number(row, 0));
    return place ? &g_array_index(times->ranges, struct operator_range, place - 1) : NULL;
}

static void add_range(struct times *times, sqlite3_stmt *row)
{
    guint place = place_of(times, number(row, PARENT));
    if (number(row, IS_OPERATOR)) {
        const struct operator_range range = {.moment = number(row, MOMENT),
                                             .begin_ns = number(row, BEGIN),
                                             .end_ns = number(row, END)};
        g_array_append_val(times->ranges, range);
        place = times->ranges->len;
    }
    if (place)
        g_hash_table_insert(times->within, GSIZE_TO_POINTER(number(row, RANGE)),
                            GUINT_TO_POINTER(place));
}

static void add_wait(struct times *times, sqlite3_stmt *row)
{
    struct operator_range *range = operator_around(times, row);
    if (range)
        range->waited = true;
}

static void add_work(struct times *times, sqlite3_stmt *row)
{
    struct operator_range *range = operator_around(times, row);
    uint64_t begin = number(row, WORK_BEGIN), end = number(row, WORK_END);
    uint64_t over = number(row, CALL_OVER);
    if (!range)
        return;
    if (range->works && begin >= range->until_ns && over && over <= range->until_ns) {
        uint64_t gap = begin - range->until_ns;
        g_array_append_val(times->gaps, gap);
    }
    begin = MAX(begin, range->until_ns);
    range->busy_ns += end > begin ? end - begin : 0;
    range->until_ns = MAX(end, range->until_ns);
    range->works++;
}

static void add_unasked(struct times *times, sqlite3_stmt *row)
{
    uint64_t begin = number(row, 0);
    g_array_append_val(times->unasked, begin);
}

static bool read_rows(const struct database *database, struct times *times, const char *query,
                      void add(struct times *times, sqlite3_stmt *row), GError **error)
{
    sqlite3_stmt *rows = prepare(database, query, error);
    if (!rows)
        return false;
    if (query == all_ranges) {
        sqlite3_bind_int(rows, 1, ANNOTATION_OPERATOR);
        sqlite3_bind_text(rows, 2, ANNOTATION_DOMAIN, -1, SQLITE_STATIC);
    }
    int state;
    while ((state = sqlite3_step(rows)) == SQLITE_ROW)
        add(times, rows);
    if (state != SQLITE_DONE)
        database_set_error(database, error);
    sqlite3_finalize(rows);
    return state == SQLITE_DONE;
}

static int by_size(const void *left, const void *right)
{
    const uint64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

static uint64_t median(GArray *values)
{
    g_array_sort(values, by_size);
    return values->len ? g_array_index(values, uint64_t, values->len / 2) : 0;
}

/* Returns whether work of unknown origin began within the range. */
static bool is_doubtful(const struct times *times, const struct operator_range *range)
{
    guint first = 0, last = times->unasked->len;
    while (first < last) {
        guint middle = (first + last) / 2;
        if (g_array_index(times->unasked, uint64_t, middle) < range->begin_ns)
            first = middle + 1;
        else
            last = middle;
    }
    return first < times->unasked->len &&
           g_array_index(times->unasked, uint64_t, first) <= range->end_ns;
}

static uint64_t time_of(const struct times *times, const struct operator_range *range,
                        uint64_t gap_ns)
{
    uint64_t host_ns = range->end_ns - range->begin_ns;
    uint64_t device_ns = range->busy_ns + range->works * gap_ns;
    if (times->queued)
        return device_ns;
    if (is_doubtful(times, range))
        return host_ns;
    return range->waited ? MIN(host_ns, device_ns) : MAX(host_ns, device_ns);
}

static int by_moment(const void *left, const void *right)
{
    const struct operator_range *a = left, *b = right;
    return (a->moment > b->moment) - (a->moment < b->moment);
}

/* Returns the number of operators with a doubtful range. */
static uint32_t take(struct times *times, uint64_t *durations_ns, uint32_t operator_count)
{
    uint32_t doubtful = 0;
    bool doubt = false;
    uint64_t gap_ns = median(times->gaps);
    g_autoptr(GArray) of_moment = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    g_array_sort(times->ranges, by_moment);
    for (guint i = 0; i < times->ranges->len; i++) {
        const struct operator_range *range = &g_array_index(times->ranges, struct operator_range,
                                                            i);
        uint64_t taken = time_of(times, range, gap_ns);
        doubt |= !times->queued && is_doubtful(times, range);
        if (range->works)
            g_array_append_val(of_moment, taken);
        if (i + 1 < times->ranges->len && range[1].moment == range->moment)
            continue;
        if (range->moment < operator_count && of_moment->len)
            durations_ns[range->moment] = median(of_moment);
        g_array_set_size(of_moment, 0);
        doubtful += doubt;
        doubt = false;
    }
    return doubtful;
}

static bool has_tables(const struct database *database)
{
    static const char *const needed[] = {"CUPTI_ACTIVITY_KIND_KERNEL",
                                         "CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION",
                                         "CUPTI_ACTIVITY_KIND_RUNTIME"};
    for (size_t i = 0; i < G_N_ELEMENTS(needed); i++)
        if (!database_has_table(database, needed[i]))
            return false;
    return true;
}

static bool read_all(const struct database *database, struct times *times, uint64_t *durations_ns,
                     uint32_t operator_count, uint32_t *doubtful, GError **error)
{
    bool ok = read_rows(database, times, all_ranges, add_range, error) &&
              read_rows(database, times, waits, add_wait, error) &&
              read_rows(database, times, asked_work, add_work, error) &&
              read_rows(database, times, unasked_work, add_unasked, error);
    if (ok)
        *doubtful = take(times, durations_ns, operator_count);
    return ok;
}

/* Calls `visit` for every operator on the device. */
static bool visit_on_device(const struct database *database, uint32_t operator_count,
                            void (*visit)(uint64_t *duration_ns, uint32_t *count),
                            uint64_t *durations_ns, uint32_t *count, GError **error)
{
    sqlite3_stmt *rows = database_prepare(database, "SELECT id FROM operators WHERE place = ?",
                                          error);
    if (!rows)
        return false;
    sqlite3_bind_text(rows, 1, trace_place_name(TRACE_ON_DEVICE), -1, SQLITE_STATIC);
    int state;
    while ((state = sqlite3_step(rows)) == SQLITE_ROW)
        if (number(rows, 0) < operator_count)
            visit(&durations_ns[number(rows, 0)], count);
    if (state != SQLITE_DONE)
        database_set_error(database, error);
    sqlite3_finalize(rows);
    return state == SQLITE_DONE;
}

static void forget(uint64_t *duration_ns, uint32_t *count)
{
    (void)count;
    *duration_ns = 0;
}

static void count_unknown(uint64_t *duration_ns, uint32_t *count)
{
    *count += *duration_ns == 0;
}

bool device_times_take(const struct database *database, bool queued, uint64_t *durations_ns,
                       uint32_t operator_count, uint32_t *doubtful, GError **error)
{
    *doubtful = 0;
    if (operator_count == 0 || (!queued && !has_tables(database)))
        return true;
    if (queued && !visit_on_device(database, operator_count, forget, durations_ns, doubtful, error))
        return false;
    struct times times = {.queued = queued,
                          .ranges = g_array_new(FALSE, FALSE, sizeof(struct operator_range)),
                          .within = g_hash_table_new(NULL, NULL),
                          .gaps = g_array_new(FALSE, FALSE, sizeof(uint64_t)),
                          .unasked = g_array_new(FALSE, FALSE, sizeof(uint64_t))};
    bool ok = !has_tables(database) ||
              read_all(database, &times, durations_ns, operator_count, doubtful, error);
    if (ok && queued)
        ok = visit_on_device(database, operator_count, count_unknown, durations_ns, doubtful,
                             error);
    g_array_unref(times.unasked);
    g_array_unref(times.gaps);
    g_hash_table_unref(times.within);
    g_array_unref(times.ranges);
    return ok;
}
