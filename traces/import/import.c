#include "traces/import/import.h"

#include "base/failure.h"
#include "base/output_file.h"
#include "traces/database.h"
#include "traces/import/kineto.h"
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
    bool ok = row != NULL;
    if (ok) {
        sqlite3_bind_text(row, 1, lines, -1, SQLITE_STATIC);
        ok = database_insert(database, row, error);
    }
    sqlite3_finalize(row);
    return ok &&
           database_execute(database, "UPDATE meta SET value = 0 WHERE key = 'partial'", error);
}

static bool complete(const char *path, const GPtrArray *unknown, GError **error)
{
    g_autofree char *lines = join(unknown);
    struct database *database = database_open_for_writing(path, error);
    bool ok = database && note(database, lines, error);
    database_close(database);
    return ok;
}

char *import_temporary(const char *to)
{
    g_autofree char *target = output_file_target(to);
    return output_file_temporary(target);
}

bool import_publish(const char *from, const char *path, const char *to, const GPtrArray *unknown,
                    GError **error)
{
    GError *fault = NULL;
    if (!complete(path, unknown, &fault) || !trace_verify(path, &fault)) {
        import_blame(from, path, to, fault, error);
        return false;
    }
    g_autofree char *target = output_file_target(to); /* a link stays */
    if (g_rename(path, target) == 0)
        return true;
    g_set_error(error, TRACE_ERROR, TRACE_ERROR_IO, "%s: cannot be written: %s", to,
                g_strerror(errno));
    return failure_mark(error, FAILURE_RUNNING);
}

void import_blame(const char *from, const char *path, const char *to, GError *fault, GError **error)
{
    if (fault->domain != TRACE_ERROR || !g_str_has_prefix(fault->message, path)) {
        g_propagate_error(error, fault);
        return;
    }
    bool written = fault->code == TRACE_ERROR_IO;
    g_autofree char *line = g_strdup(fault->message + strlen(path));
    g_set_error(error, TRACE_ERROR, fault->code, "%s%s%s", written ? to : from,
                written ? ": cannot be written" : "", g_strdelimit(line, "\n", ' '));
    if (written)
        failure_mark(error, FAILURE_RUNNING);
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
    bool ok = file && record_file_add(file, records, error) &&
              record_file_complete(file, durations, written->operator_count, false, error);
    record_file_free(file);
    return ok;
}

bool import_write(const char *from, const char *to, const struct trace *trace,
                  const struct records *records, const GPtrArray *unknown, GError **error)
{
    g_autofree char *temporary = import_temporary(to);
    GError *fault = NULL;
    bool ok = store(temporary, trace, records, &fault);
    if (!ok)
        import_blame(from, temporary, to, fault, error);
    ok = ok && import_publish(from, temporary, to, unknown, error);
    if (!ok)
        g_unlink(temporary);
    return ok;
}

/* Operators and annotations become ranges of threads. */
static struct record *make_events(const struct kineto *kineto)
{
    struct record *events = g_new0(struct record, kineto->ranges->len);
    for (guint i = 0; i < kineto->ranges->len; i++) {
        const struct kineto_range *range = &g_array_index(kineto->ranges, struct kineto_range, i);
        events[i] = (struct record){.start_ns = range->start_ns,
                                    .end_ns = range->end_ns,
                                    .process = range->process,
                                    .thread = range->thread & 0xffffff,
                                    .text = range->name,
                                    .type = RECORD_PUSH_POP};
    }
    return events;
}

static void note_events(const struct kineto *kineto, GPtrArray *unknown)
{
    for (guint i = 0; i < kineto->notes->len; i++)
        g_ptr_array_add(unknown, g_strdup((const char *)g_ptr_array_index(kineto->notes, i)));
    GHashTableIter categories;
    gpointer category, count;
    g_hash_table_iter_init(&categories, kineto->ignored);
    while (g_hash_table_iter_next(&categories, &category, &count))
        g_ptr_array_add(unknown, g_strdup_printf("%u ranges of category '%s', which is not read",
                                                 GPOINTER_TO_UINT(count), (char *)category));
    if (kineto->kernels->len == 0)
        g_ptr_array_add(unknown, g_strdup("kernels: none was recorded; operators' times are the "
                                          "host's"));
}

/* Writes an imported trace with the profiler's records. Appends to `unknown` what they lack. */
static bool import_write_profile(const char *from, const char *to, const struct trace *trace,
                                 const struct kineto *profile, GPtrArray *unknown, GError **error)
{
    struct activity activity = kineto_activity(profile);
    struct records records = {
        .events = make_events(profile), .event_count = profile->ranges->len, .activity = &activity};
    note_events(profile, unknown);
    records.strings = string_table_strings(profile->strings, &records.string_count);
    bool ok = import_write(from, to, trace, &records, unknown, error);
    g_free(records.events);
    g_free(records.strings);
    return ok;
}

/* Without shapes nobody knows how large the parameters of a training step are, so that nothing can
 * be simulated or planned. */
static bool check_shapes(const struct kineto *kineto, const char *from, GError **error)
{
    const char *marked_by;
    g_autoptr(GPtrArray) steps = kineto_steps(kineto, &marked_by);
    if (kineto->shapes || steps->len == 0)
        return true;
    g_set_error(
        error, TRACE_ERROR, TRACE_ERROR_INVALID,
        "%s: the profile has no shapes, so the sizes of parameters are unknown: record again "
        "with profile(record_shapes=True, profile_memory=True)",
        from);
    return false;
}

/* Without an iteration and without anything that a device did, nothing can use the trace. The notes
 * say why there is no iteration. */
static bool check_use(const struct trace *trace, const struct kineto *profile, const char *from,
                      const GPtrArray *notes, GError **error)
{
    static const char why[] = "the iteration: ";
    const char *reason = NULL;
    if (trace || (profile && (profile->kernels->len || profile->copies->len || profile->sets->len ||
                              profile->allocations->len)))
        return true;
    for (guint i = 0; i < notes->len && !reason; i++)
        if (g_str_has_prefix(g_ptr_array_index(notes, i), why))
            reason = (const char *)g_ptr_array_index(notes, i) + strlen(why);
    g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID, "%s: there is no iteration: %s", from,
                reason);
    return false;
}

bool import_kineto(const char *from, const char *to, GPtrArray *unknown, GError **error)
{
    struct kineto *kineto = kineto_read(from, error);
    if (!kineto || !check_shapes(kineto, from, error)) {
        kineto_free(kineto);
        return false;
    }
    struct trace *trace = kineto_iteration(kineto, unknown);
    bool ok = check_use(trace, kineto, from, unknown, error) &&
              import_write_profile(from, to, trace, kineto, unknown, error);
    trace_free(trace);
    kineto_free(kineto);
    return ok;
}

bool import_chakra(const char *from, const char *to, GPtrArray *unknown, GError **error)
{
    const struct records nothing = {0};
    struct kineto *kineto = chakra_read(from, NULL, error);
    if (!kineto)
        return false;
    struct trace *trace = kineto_iteration(kineto, unknown);
    g_ptr_array_add(unknown, g_strdup("times: the file has the order of operators alone"));
    bool ok = check_use(trace, NULL, from, unknown, error) &&
              import_write(from, to, trace, &nothing, unknown, error);
    trace_free(trace);
    kineto_free(kineto);
    return ok;
}

static void share(GArray **array, GArray *with)
{
    g_array_unref(*array);
    *array = g_array_ref(with);
}

/* Shares the device activity, which operators' times are computed from. */
static void share_device(struct kineto *kineto, const struct kineto *profile)
{
    share(&kineto->kernels, profile->kernels);
    share(&kineto->launches, profile->launches);
    share(&kineto->copies, profile->copies);
    share(&kineto->sets, profile->sets);
    share(&kineto->syncs, profile->syncs);
    share(&kineto->calls, profile->calls);
    share(&kineto->gpus, profile->gpus);
}

bool import_chakra_timed(const char *from, const char *times, const char *to, GPtrArray *unknown,
                         GError **error)
{
    struct kineto *profile = kineto_read(times, error);
    struct kineto *kineto = !profile ? NULL : chakra_read(from, profile, error);
    struct trace *trace = NULL;
    bool ok = false;
    if (kineto) {
        share_device(kineto, profile);
        trace = kineto_iteration(kineto, unknown);
        for (guint i = 0; i < kineto->notes->len; i++)
            g_ptr_array_add(unknown, g_strdup((const char *)g_ptr_array_index(kineto->notes, i)));
        ok = check_use(trace, profile, from, unknown, error) &&
             import_write_profile(from, to, trace, profile, unknown, error);
    }
    trace_free(trace);
    kineto_free(kineto);
    kineto_free(profile);
    return ok;
}
