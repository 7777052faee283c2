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

/* Returns the gathers (struct record) of one iteration. The records are ordered by start. */
static GArray *gathers_within(const struct records *records, uint32_t domain,
                              const struct record *iteration)
{
    GArray *found = g_array_new(FALSE, FALSE, sizeof(struct record));
    for (uint32_t i = 0; i < records->event_count; i++) {
        const struct record *event = &records->events[i];
        if (is_ours(event, domain, ANNOTATION_EXCHANGE) && event->start_ns >= iteration->start_ns &&
            event->end_ns <= iteration->end_ns &&
            !strcmp(records_text(records, event->text), ANNOTATION_GATHER))
            g_array_append_val(found, *event);
    }
    return found;
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
    for (guint i = 1; i < iterations->len; i++)
        if (!are_alike(first, g_ptr_array_index(iterations, i)))
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

struct gathers *gathers_find(const struct records *records)
{
    g_autoptr(GPtrArray) iterations = g_ptr_array_new_with_free_func((GDestroyNotify)g_array_unref);
    uint32_t domain = records_domain(records, ANNOTATION_DOMAIN);
    for (uint32_t i = 0; i < records->event_count; i++)
        if (is_ours(&records->events[i], domain, ANNOTATION_ITERATION))
            g_ptr_array_add(iterations, gathers_within(records, domain, &records->events[i]));
    return summarise(iterations);
}

void gathers_free(struct gathers *gathers)
{
    if (!gathers)
        return;
    g_free(gathers->bytes);
    g_free(gathers->duration_ns);
    g_free(gathers);
}
