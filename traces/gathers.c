#include "traces/gathers.h"

#include "traces/annotations.h"

#include <stdlib.h>
#include <string.h>

static bool is_ours(const struct record *event, uint32_t domain, enum annotation_category category)
{
    return domain && event->domain == domain && event->category == category &&
           event->end_ns > event->start_ns &&
           (event->type == RECORD_PUSH_POP || event->type == RECORD_START_END);
}

/* When the collectives of a range ran on the device. */
struct device_span {
    uint64_t start_ns, end_ns;
};

/* Returns a table from correlations to the ranges whose calls have them (correlation_record). */
static GHashTable *index_ranges(const struct activity *activity)
{
    GHashTable *ranges = g_hash_table_new(NULL, NULL);
    for (uint32_t i = 0; activity && i < activity->correlation_count; i++)
        g_hash_table_insert(ranges, GUINT_TO_POINTER(activity->correlations[i].correlation),
                            &activity->correlations[i]);
    return ranges;
}

/* Returns a table from ranges (uint64_t) to when their collectives ran (struct device_span). */
static GHashTable *index_collectives(const struct records *records, const struct activity *activity)
{
    GHashTable *spans = g_hash_table_new_full(g_int64_hash, g_int64_equal, NULL, g_free);
    g_autoptr(GHashTable) ranges = index_ranges(activity);
    for (uint32_t i = 0; activity && i < activity->kernel_count; i++) {
        const struct kernel_record *kernel = &activity->kernels[i];
        struct correlation_record *by = g_hash_table_lookup(ranges,
                                                            GUINT_TO_POINTER(kernel->correlation));
        if (!by || !kernel_is_collective(records_text(records, kernel->short_name)))
            continue;
        struct device_span *span = g_hash_table_lookup(spans, &by->range);
        if (span) {
            span->start_ns = MIN(span->start_ns, kernel->start_ns);
            span->end_ns = MAX(span->end_ns, kernel->end_ns);
        } else {
            span = g_new(struct device_span, 1);
            *span = (struct device_span){kernel->start_ns, kernel->end_ns};
            g_hash_table_insert(spans, &by->range, span);
        }
    }
    return spans;
}

/* Returns the gather with the device's times, which are empty if they are not known. */
static struct record on_device(const struct record *queued, GHashTable *spans)
{
    const struct device_span *span = g_hash_table_lookup(spans, &queued->range_id);
    struct record gather = *queued;
    gather.start_ns = span ? span->start_ns : 0;
    gather.end_ns = span ? span->end_ns : 0;
    return gather;
}

/* Returns the gathers (struct record) of one iteration. The records are ordered by start. */
static GArray *gathers_within(const struct records *records, uint32_t domain,
                              const struct record *iteration, GHashTable *spans)
{
    GArray *found = g_array_new(FALSE, FALSE, sizeof(struct record));
    for (uint32_t i = 0; i < records->event_count; i++) {
        const struct record *event = &records->events[i];
        if (!is_ours(event, domain, ANNOTATION_EXCHANGE) || event->start_ns < iteration->start_ns ||
            event->end_ns > iteration->end_ns)
            continue;
        const char *text = records_text(records, event->text);
        bool queued = !strcmp(text, ANNOTATION_QUEUED_GATHER);
        const struct record gather = queued ? on_device(event, spans) : *event;
        if (queued || !strcmp(text, ANNOTATION_GATHER))
            g_array_append_val(found, gather);
    }
    return found;
}

static bool are_timed(const GArray *gathers)
{
    bool timed = true;
    for (guint i = 0; timed && i < gathers->len; i++)
        timed = g_array_index(gathers, struct record, i).end_ns > 0;
    return timed;
}

static bool are_alike(const GArray *a, const GArray *b)
{
    bool alike = a->len == b->len;
    for (guint i = 0; alike && i < a->len; i++)
        alike = g_array_index(a, struct record, i).payload ==
                g_array_index(b, struct record, i).payload;
    return alike;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t median_of(const GPtrArray *iterations, guint gather)
{
    g_autofree uint64_t *durations = g_new(uint64_t, iterations->len);
    for (guint i = 0; i < iterations->len; i++) {
        const struct record *event = &g_array_index((GArray *)g_ptr_array_index(iterations, i),
                                                    struct record, gather);
        durations[i] = event->end_ns - event->start_ns;
    }
    qsort(durations, iterations->len, sizeof *durations, compare);
    return durations[(iterations->len - 1) / 2];
}

static struct gathers *summarise(const GPtrArray *iterations)
{
    const GArray *first = iterations->len ? g_ptr_array_index(iterations, 0) : NULL;
    if (!first || !first->len)
        return NULL;
    for (guint i = 0; i < iterations->len; i++)
        if (!are_timed(g_ptr_array_index(iterations, i)) ||
            !are_alike(first, g_ptr_array_index(iterations, i)))
            return NULL;
    struct gathers *gathers = g_new0(struct gathers, 1);
    gathers->count = first->len;
    gathers->bytes = g_new(uint64_t, first->len);
    gathers->duration_ns = g_new(uint64_t, first->len);
    for (guint g = 0; g < first->len; g++) {
        gathers->bytes[g] = g_array_index(first, struct record, g).payload;
        gathers->duration_ns[g] = median_of(iterations, g);
    }
    return gathers;
}

struct gathers *gathers_find(const struct records *records, const struct activity *activity)
{
    g_autoptr(GHashTable) spans = index_collectives(records, activity);
    g_autoptr(GPtrArray) iterations = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);
    uint32_t domain = records_domain(records, ANNOTATION_DOMAIN);
    for (uint32_t i = 0; i < records->event_count; i++)
        if (is_ours(&records->events[i], domain, ANNOTATION_ITERATION))
            g_ptr_array_add(iterations,
                            gathers_within(records, domain, &records->events[i], spans));
    return summarise(iterations);
}

bool gathers_read(const char *path, struct gathers **gathers, GError **error)
{
    struct records *records = records_read(path, error);
    struct activity *activity =
        records ? activity_read(path, ACTIVITY_KERNELS | ACTIVITY_CORRELATIONS, error) : NULL;
    *gathers = activity ? gathers_find(records, activity) : NULL;
    bool ok = activity != NULL;
    activity_free(activity);
    if (records)
        records_free(records);
    return ok;
}

void gathers_free(struct gathers *gathers)
{
    if (!gathers)
        return;
    g_free(gathers->bytes);
    g_free(gathers->duration_ns);
    g_free(gathers);
}
