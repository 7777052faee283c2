#include "traces/activity/activity_verify.h"
#include "traces/annotations.h"
#include "traces/database.h"
#include "traces/records.h"
#include "traces/trace_file.h"

#include <string.h>

static bool verify_pages(const struct database *database, GError **error)
{
    sqlite3_stmt *row = database_prepare(database, "PRAGMA integrity_check(1)", error);
    if (!row)
        return false;
    bool good = true;
    if (sqlite3_step(row) != SQLITE_ROW) {
        database_set_error(database, error);
        good = false;
    } else if (g_strcmp0((const char *)sqlite3_column_text(row, 0), "ok") != 0) {
        g_autofree char *reason = g_strdup((const char *)sqlite3_column_text(row, 0));
        g_set_error(error, TRACE_ERROR, TRACE_ERROR_NOT_OURS, "%s: damaged: %s", database->path,
                    g_strdelimit(reason, "\n", ' '));
        good = false;
    }
    sqlite3_finalize(row);
    return good;
}

/* The id of our domain; 0: no such domain was recorded. */
static uint32_t find_domain(const struct records *records)
{
    for (uint32_t i = 0; i < records->event_count; i++)
        if (records->events[i].type == RECORD_DOMAIN &&
            strcmp(records_text(records, records->events[i].text), ANNOTATION_DOMAIN) == 0)
            return records->events[i].domain;
    return 0;
}

/* `trace` NULL: the file holds no iteration. */
static bool verify_ranges(const char *path, const struct trace *trace,
                          const struct records *records, GError **error)
{
    uint32_t domain = find_domain(records);
    for (uint32_t i = 0; i < records->event_count; i++) {
        const struct record *event = &records->events[i];
        const char *fault = NULL;
        if (event->end_ns != 0 && event->end_ns < event->start_ns)
            fault = "ends before it begins";
        else if (domain != 0 && trace && event->domain == domain &&
                 event->type == RECORD_PUSH_POP && event->category == ANNOTATION_OPERATOR &&
                 event->payload >= trace->operator_count)
            fault = "is of an operator that the trace does not have";
        if (fault) {
            g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                        "%s: NVTX_EVENTS: the range '%s' that starts at %" G_GUINT64_FORMAT " %s",
                        path, records_text(records, event->text), event->start_ns, fault);
            return false;
        }
    }
    return true;
}

bool trace_verify(const char *path, GError **error)
{
    struct database *database = database_open(path, error);
    bool good = database && verify_pages(database, error);
    database_close(database);
    if (!good)
        return false;
    bool partial = false;
    struct trace *trace = NULL;
    struct activity *activity = NULL;
    struct records *records = records_read(path, error);
    if (records && trace_is_partial(path, &partial, error) &&
        (!records->has_iteration || (trace = trace_read(path, error))))
        activity = activity_read(path, ACTIVITY_ALL, error);
    good = activity && verify_ranges(path, trace, records, error) &&
           activity_verify(activity, records, partial, path, error);
    activity_free(activity);
    records_free(records);
    trace_free(trace);
    return good;
}
