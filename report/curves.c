#include "report/curves.h"

#include "report/axis.h"

#include <math.h>
#include <string.h>

/* The part of the recording that is shown. */
struct window {
    uint64_t begin_ns, end_ns;
    GArray *const *curves;
};

static void add(const struct window *window, enum curve curve, uint64_t time_ns, double value)
{
    GArray *points = window->curves[curve];
    bool before = time_ns < window->begin_ns;
    const struct curve_point point = {before ? 0 : (double)(time_ns - window->begin_ns) * 1e-9,
                                      value};
    if (time_ns >= window->end_ns)
        return;
    if (before)
        g_array_set_size(points, 0);
    g_array_append_val(points, point);
}

/* ---- allocations ---- */

static int curve_of_memory(uint32_t kind)
{
    switch (kind) {
    case MEMORY_DEVICE:
    case MEMORY_ARRAY:
    case MEMORY_DEVICE_STATIC:
        return CURVE_ALLOCATED;
    case MEMORY_PINNED:
        return CURVE_PINNED;
    case MEMORY_MANAGED:
    case MEMORY_MANAGED_STATIC:
        return CURVE_MANAGED;
    default:
        return CURVES;
    }
}

/* What lies where, by address: the record that allocated it. */
static void follow_allocations(const struct activity *activity, const struct window *window)
{
    g_autoptr(GHashTable) live = g_hash_table_new(g_int64_hash, g_int64_equal);
    double levels[CURVES + 1] = {0};
    for (uint32_t i = 0; i < activity->memory_count; i++) {
        const struct memory_record *record = &activity->memory[i];
        const struct memory_record *before = g_hash_table_lookup(live, &record->address);
        int curve = curve_of_memory(before ? before->kind : record->kind);
        if (before)
            levels[curve] -= (double)before->bytes;
        if (record->operation == MEMORY_ALLOCATE) {
            g_hash_table_replace(live, (gpointer)&record->address, (gpointer)record);
            curve = curve_of_memory(record->kind);
            levels[curve] += (double)record->bytes;
        } else {
            g_hash_table_remove(live, &record->address);
        }
        if (curve < CURVES)
            add(window, (enum curve)curve, record->start_ns, levels[curve]);
    }
}

/* ---- samples ---- */

/* Bytes since some time become a rate; where they have wrapped, that sample says nothing. */
static void add_rate(const struct window *window, enum curve curve,
                     const struct record_sample *sample, struct record_sample *last)
{
    if (last->time_ns && sample->time_ns > last->time_ns && sample->value >= last->value)
        add(window, curve, sample->time_ns,
            (double)(sample->value - last->value) / (double)(sample->time_ns - last->time_ns) *
                1e9);
    *last = *sample;
}

static void follow_samples(const struct records *records, const struct window *window)
{
    struct record_sample received = {0}, sent = {0};
    for (uint32_t i = 0; i < records->sample_count; i++) {
        const struct record_sample *sample = &records->samples[i];
        if (!strcmp(sample->counter, "resident_bytes"))
            add(window, CURVE_RESIDENT, sample->time_ns, (double)sample->value);
        else if (!strcmp(sample->counter, "device0_used_bytes"))
            add(window, CURVE_DEVICE_USED, sample->time_ns, (double)sample->value);
        else if (!strcmp(sample->counter, "device0_pcie_received_bytes"))
            add_rate(window, CURVE_H2D, sample, &received);
        else if (!strcmp(sample->counter, "device0_pcie_sent_bytes"))
            add_rate(window, CURVE_D2H, sample, &sent);
    }
}

void curves_find(const struct records *records, const struct activity *activity, uint64_t begin_ns,
                 uint64_t end_ns, GArray *const *curves)
{
    const struct window window = {begin_ns, end_ns, curves};
    follow_allocations(activity, &window);
    follow_samples(records, &window);
}

double curve_most(const GArray *curve)
{
    double most = 0;
    for (guint i = 0; i < curve->len; i++)
        most = MAX(most, g_array_index(curve, struct curve_point, i).value);
    return most;
}

void curve_append_data(GString *data, const GArray *curve, double seconds, guint columns)
{
    double level = NAN, width = seconds / columns;
    guint next = 0;
    for (guint c = 0; c < columns; c++) {
        double most = level;
        for (; next < curve->len &&
               g_array_index(curve, struct curve_point, next).time < (c + 1) * width;
             next++) {
            level = g_array_index(curve, struct curve_point, next).value;
            most = isnan(most) ? level : MAX(most, level);
        }
        for (guint edge = 0; edge < 2; edge++) {
            axis_append(data, (c + edge) * width);
            g_string_append_c(data, ' ');
            axis_append(data, most);
            g_string_append_c(data, '\n');
        }
    }
}
