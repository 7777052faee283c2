#include "traces/import/import.h"
#include "traces/import/kineto.h"
#include "traces/import/kineto_iteration.h"

/* Operators and annotations are ranges of threads. */
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

bool import_write_profile(const char *from, const char *to, const struct trace *trace,
                          const struct kineto *profile, GPtrArray *unknown, GError **error)
{
    struct activity activity = kineto_activity(profile);
    struct records records = {
        .events = make_events(profile), .event_count = profile->ranges->len, .activity = &activity};
    note_events(profile, unknown);
    records.strings = string_table_strings(profile->strings, &records.string_count);
    bool good = import_write(from, to, trace, &records, unknown, error);
    g_free(records.events);
    g_free(records.strings);
    return good;
}

bool import_kineto(const char *from, const char *to, GPtrArray *unknown, GError **error)
{
    struct kineto *kineto = kineto_read(from, error);
    if (!kineto)
        return false;
    struct trace *trace = kineto_iteration(kineto, unknown);
    bool good = import_write_profile(from, to, trace, kineto, unknown, error);
    trace_free(trace);
    kineto_free(kineto);
    return good;
}
