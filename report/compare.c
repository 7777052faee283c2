#include "report/compare.h"

#include <math.h>

static bool first_two(const GPtrArray *all, bool measured, const struct strips **pair)
{
    unsigned found = 0;
    for (guint i = 0; i < all->len && found < 2; i++) {
        const struct strips *strips = g_ptr_array_index(all, i);
        if (strips->measured == measured)
            pair[found++] = strips;
    }
    return found == 2;
}

bool compare_pair(const struct inputs *inputs, const struct strips **a, const struct strips **b)
{
    const struct strips *pair[2];
    if (!first_two(inputs->strips, true, pair) && !first_two(inputs->strips, false, pair))
        return false;
    *a = pair[0];
    *b = pair[1];
    return true;
}

static void add_spans(GArray *changes, GHashTable *places, const GArray *spans, int which)
{
    for (guint i = 0; i < spans->len; i++) {
        const struct strip_span *span = &g_array_index(spans, struct strip_span, i);
        gpointer place;
        if (!g_hash_table_lookup_extended(places, span->name, NULL, &place)) {
            const struct compare_change fresh = {.name = span->name};
            place = GUINT_TO_POINTER(changes->len);
            g_array_append_val(changes, fresh);
            g_hash_table_insert(places, (gpointer)span->name, place);
        }
        g_array_index(changes, struct compare_change, GPOINTER_TO_UINT(place)).seconds[which] +=
            span->end - span->start;
    }
}

static double difference(const struct compare_change *change)
{
    return fabs(change->seconds[1] - change->seconds[0]);
}

static int by_difference(const void *left, const void *right)
{
    double a = difference(left), b = difference(right);
    return (a < b) - (a > b);
}

GArray *compare_names(const struct strips *a, const struct strips *b)
{
    GArray *changes = g_array_new(FALSE, FALSE, sizeof(struct compare_change));
    g_autoptr(GHashTable) places = g_hash_table_new(g_str_hash, g_str_equal);
    const struct strips *both[] = {a, b};
    for (int which = 0; which < 2; which++) {
        add_spans(changes, places, both[which]->spans[STRIP_COMPUTE], which);
        add_spans(changes, places, both[which]->spans[STRIP_HOST], which);
    }
    g_array_sort(changes, by_difference);
    return changes;
}
