#include "traces/import/import.h"

#include "traces/database.h"
#include "traces/trace_file.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <string.h>

static char *join(const GPtrArray *lines)
{
    GString *text = g_string_new(NULL);
    for (guint i = 0; i < lines->len; i++)
        g_string_append_printf(text, "%s%s", i > 0 ? "\n" : "",
                               (const char *)g_ptr_array_index(lines, i));
    return g_string_free(text, FALSE);
}

static bool note(const struct database *database, const char *lines, GError **error)
{
    sqlite3_stmt *row = database_prepare(database, "INSERT INTO meta VALUES ('unknown', ?)", error);
    bool good = row != NULL;
    if (good) {
        sqlite3_bind_text(row, 1, lines, -1, SQLITE_STATIC);
        good = database_insert(database, row, error);
    }
    sqlite3_finalize(row);
    return good &&
           database_execute(database, "UPDATE meta SET value = 0 WHERE key = 'partial'", error);
}

static bool complete(const char *path, const GPtrArray *unknown, GError **error)
{
    g_autofree char *lines = join(unknown);
    struct database *database = database_open_for_writing(path, error);
    bool good = database && note(database, lines, error);
    database_close(database);
    return good;
}

bool import_publish(const char *from, const char *path, const char *to, const GPtrArray *unknown,
                    GError **error)
{
    GError *fault = NULL;
    if (!complete(path, unknown, &fault) || !trace_verify(path, &fault)) {
        import_blame(from, path, fault, error);
        return false;
    }
    if (g_rename(path, to) == 0)
        return true;
    g_set_error(error, TRACE_ERROR, TRACE_ERROR_IO, "%s: cannot be written: %s", to,
                g_strerror(errno));
    return false;
}

void import_blame(const char *from, const char *path, GError *fault, GError **error)
{
    if (fault->domain != TRACE_ERROR || fault->code == TRACE_ERROR_IO ||
        !g_str_has_prefix(fault->message, path)) {
        g_propagate_error(error, fault);
        return;
    }
    g_autofree char *line = g_strdup(fault->message + strlen(path));
    g_set_error(error, TRACE_ERROR, fault->code, "%s%s", from, g_strdelimit(line, "\n", ' '));
    g_error_free(fault);
}

static uint64_t *durations_of(const struct trace *trace)
{
    uint64_t *durations = g_new0(uint64_t, trace->operator_count);
    for (uint32_t m = 0; m < trace->operator_count; m++)
        durations[m] = trace->operators[m].duration_ns;
    return durations;
}

static bool store(const char *path, const struct trace *trace, const struct records *records,
                  GError **error)
{
    static const struct trace none = {0};
    const struct trace *written = !trace ? &none : trace;
    g_autofree uint64_t *durations = durations_of(written);
    struct record_file *file = record_file_new(path, trace, error);
    bool good = file && record_file_add(file, records, error) &&
                record_file_complete(file, durations, written->operator_count, false, error);
    record_file_free(file);
    return good;
}

bool import_write(const char *from, const char *to, const struct trace *trace,
                  const struct records *records, const GPtrArray *unknown, GError **error)
{
    g_autofree char *temporary = g_strconcat(to, ".import", NULL);
    bool good = store(temporary, trace, records, error) &&
                import_publish(from, temporary, to, unknown, error);
    if (!good)
        g_unlink(temporary);
    return good;
}
