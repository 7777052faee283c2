#include "collect/device_log.h"

#include "traces/activity/activity.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

struct allocation {
    uint64_t address; /* the key */
    uint64_t bytes;
    bool pinned;
};

struct pinned_change {
    uint64_t time_ns;
    int64_t bytes;
};

struct live_memory {
    GHashTable *allocations; /* struct allocation */
    GArray *pinned;          /* struct pinned_change */
};

static struct live_memory *live_memory_new(void)
{
    struct live_memory *live = g_new(struct live_memory, 1);
    live->allocations = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    live->pinned = g_array_new(FALSE, FALSE, sizeof(struct pinned_change));
    return live;
}

/* `live` may be NULL. */
static void live_memory_free(struct live_memory *live)
{
    if (!live)
        return;
    g_hash_table_unref(live->allocations);
    g_array_unref(live->pinned);
    g_free(live);
}

static void pin(struct live_memory *live, uint64_t time_ns, int64_t bytes)
{
    const struct pinned_change change = {time_ns, bytes};
    g_array_append_val(live->pinned, change);
}

/* Adds the next allocation or free. A free without bytes gets the bytes of the allocation at its
 * address. */
static void live_memory_add(struct live_memory *live, struct memory_record *record)
{
    const struct allocation *there = g_hash_table_lookup(live->allocations, &record->address);
    if (there && there->pinned)
        pin(live, record->start_ns, -(int64_t)there->bytes);
    if (record->operation == MEMORY_FREE) {
        if (there && record->bytes == 0)
            record->bytes = there->bytes;
        g_hash_table_remove(live->allocations, &record->address);
        return;
    }
    struct allocation *fresh = g_new(struct allocation, 1);
    *fresh = (struct allocation){record->address, record->bytes, record->kind == MEMORY_PINNED};
    g_hash_table_add(live->allocations, fresh);
    if (fresh->pinned)
        pin(live, record->start_ns, (int64_t)fresh->bytes);
}

static int by_time(const void *left, const void *right)
{
    const struct pinned_change *a = left, *b = right;
    return (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
}

/* Sets bytes[count] to the pinned bytes at the ascending times_ns[count]. Records may have been
 * added in any order. */
static void live_memory_pinned(struct live_memory *live, const uint64_t *times_ns, uint32_t count,
                               uint64_t *bytes)
{
    int64_t level = 0;
    guint next = 0;
    g_array_sort(live->pinned, by_time);
    for (uint32_t i = 0; i < count; i++) {
        for (; next < live->pinned->len; next++) {
            const struct pinned_change *change = &g_array_index(live->pinned, struct pinned_change,
                                                                next);
            if (change->time_ns > times_ns[i])
                break;
            level += change->bytes;
        }
        bytes[i] = (uint64_t)MAX(level, 0);
    }
}

struct device_log {
    struct device_log_source source;
    struct device_rows rows;
    struct live_memory *live;
    GArray *left_out; /* struct calls */
    uint64_t dropped, unreadable;
};

struct calls {
    uint32_t after, upto;
};

struct device_log *device_log_new(const struct device_log_source *source,
                                  struct recording *recording, uint32_t process)
{
    struct device_log *log = g_new0(struct device_log, 1);
    log->source = *source;
    log->rows.recording = recording;
    log->rows.call_name = source->call_name;
    log->rows.process = process;
    device_rows_set_up(&log->rows);
    log->live = live_memory_new();
    log->left_out = g_array_new(FALSE, FALSE, sizeof(struct calls));
    return log;
}

void device_log_free(struct device_log *log)
{
    if (!log)
        return;
    device_rows_tear_down(&log->rows);
    live_memory_free(log->live);
    g_array_unref(log->left_out);
    g_free(log);
}

void device_log_add_buffer(struct device_log *log, uint8_t *buffer, size_t valid_bytes)
{
    CUpti_Activity *record = NULL;
    const uint8_t *read_to = buffer;
    while (log->source.next_record(buffer, valid_bytes, &record) == CUPTI_SUCCESS) {
        device_rows_add(&log->rows, record);
        size_t bytes = record->kind < CUPTI_ACTIVITY_KIND_COUNT
                           ? log->source.record_bytes[record->kind]
                           : 0;
        /* The length of an unmeasured kind is known only from the next record. */
        read_to = bytes > 0 ? (const uint8_t *)record + bytes : buffer + valid_bytes;
    }
    if (read_to < buffer + valid_bytes)
        log->unreadable += (uint64_t)(buffer + valid_bytes - read_to);
}

void device_log_add_dropped(struct device_log *log, uint64_t records)
{
    log->dropped += records;
}

/* Compares by the first field, start_ns. Equal records keep their order. */
static int by_start(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

/* Keeps records from `before_ns` on, and allocations that were still live then. */
static void keep_allocated(GArray *memory, uint64_t before_ns)
{
    g_autoptr(GHashTable) last = g_hash_table_new(g_int64_hash, g_int64_equal);
    g_autoptr(GArray) kept = g_array_new(FALSE, FALSE, sizeof(struct memory_record));
    g_array_sort(memory, by_start);
    for (guint i = 0; i < memory->len; i++) {
        struct memory_record *record = &g_array_index(memory, struct memory_record, i);
        if (record->start_ns < before_ns)
            g_hash_table_replace(last, &record->address, record);
    }
    for (guint i = 0; i < memory->len; i++) {
        struct memory_record *record = &g_array_index(memory, struct memory_record, i);
        bool live = record->operation == MEMORY_ALLOCATE &&
                    g_hash_table_lookup(last, &record->address) == record;
        record->correlation = 0; /* its call was not recorded */
        if (live || record->start_ns >= before_ns)
            g_array_append_val(kept, *record);
    }
    g_array_set_size(memory, 0);
    g_array_append_vals(memory, kept->data, kept->len);
}

void device_log_forget(struct device_log *log, uint64_t before_ns)
{
    struct device_rows *rows = &log->rows;
    GArray *arrays[] = {rows->kernels,   rows->launches, rows->copies,
                        rows->sets,      rows->syncs,    rows->calls,
                        rows->overheads, rows->pools,    rows->correlations};
    for (size_t i = 0; i < G_N_ELEMENTS(arrays); i++)
        g_array_set_size(arrays[i], 0);
    rows->unfinished = rows->untimed = 0;
    keep_allocated(rows->memory, before_ns);
}

void device_log_leave_out(struct device_log *log, uint32_t after, uint32_t upto)
{
    struct calls *last = &g_array_index(log->left_out, struct calls, log->left_out->len - 1);
    if (log->left_out->len > 0 && last->after == after) {
        last->upto = upto;
        return;
    }
    const struct calls calls = {after, upto};
    g_array_append_val(log->left_out, calls);
}

static bool is_left_out(const struct device_log *log, uint32_t correlation)
{
    for (guint i = 0; i < log->left_out->len; i++) {
        const struct calls *calls = &g_array_index(log->left_out, struct calls, i);
        if (correlation > calls->after && correlation <= calls->upto)
            return true;
    }
    return false;
}

/* Removes rows whose `correlation` (an offset) is left out, and the same rows of `others`, which
 * may be NULL. */
static void leave_out(const struct device_log *log, GArray *rows, size_t correlation,
                      GArray *others)
{
    guint kept = 0, bytes = g_array_get_element_size(rows);
    guint other_bytes = !others ? 0 : g_array_get_element_size(others);
    for (guint i = 0; i < rows->len; i++) {
        const char *row = rows->data + (size_t)i * bytes;
        if (is_left_out(log, *(const uint32_t *)(const void *)(row + correlation)))
            continue;
        memmove(rows->data + (size_t)kept * bytes, row, bytes);
        if (others)
            memmove(others->data + (size_t)kept * other_bytes,
                    others->data + (size_t)i * other_bytes, other_bytes);
        kept++;
    }
    g_array_set_size(rows, kept);
    if (others)
        g_array_set_size(others, kept);
}

static void leave_all_out(const struct device_log *log)
{
    const struct device_rows *rows = &log->rows;
    if (log->left_out->len == 0)
        return;
    leave_out(log, rows->kernels, offsetof(struct kernel_record, correlation), rows->launches);
    leave_out(log, rows->copies, offsetof(struct copy_record, correlation), NULL);
    leave_out(log, rows->sets, offsetof(struct set_record, correlation), NULL);
    leave_out(log, rows->syncs, offsetof(struct sync_record, correlation), NULL);
    leave_out(log, rows->calls, offsetof(struct call_record, correlation), NULL);
    leave_out(log, rows->correlations, offsetof(struct correlation_record, correlation), NULL);
}

bool device_log_has_sync_after(const struct device_log *log, uint64_t cupti_ns)
{
    return log->rows.last_sync_ns >= cupti_ns;
}

struct shift {
    const struct device_clock *begin, *end;
};

static uint64_t moved(const struct shift *shift, uint64_t cupti_ns)
{
    int64_t since = (int64_t)(cupti_ns - shift->begin->cupti_ns);
    uint64_t cupti = shift->end->cupti_ns - shift->begin->cupti_ns;
    uint64_t monotonic = shift->end->monotonic_ns - shift->begin->monotonic_ns;
    double drift = cupti > 0 ? ((double)monotonic - (double)cupti) / (double)cupti : 0;
    return shift->begin->monotonic_ns + (uint64_t)(since + (int64_t)((double)since * drift));
}

/* `times` is as in struct activity_table. */
static void move_times(const struct shift *shift, GArray *rows, int times)
{
    guint bytes = g_array_get_element_size(rows);
    for (guint i = 0; i < rows->len; i++) {
        uint64_t *fields = (uint64_t *)(void *)(rows->data + (size_t)i * bytes);
        for (int t = 0; t < times; t++)
            fields[t] = moved(shift, fields[t]);
    }
}

struct kernel_place {
    uint64_t start_ns;
    guint row;
};

/* Sorts kernels and launches in the same order. */
static void sort_kernels(struct device_rows *rows)
{
    guint count = rows->kernels->len;
    g_autoptr(GArray) places = g_array_sized_new(FALSE, FALSE, sizeof(struct kernel_place), count);
    GArray *kernels = g_array_sized_new(FALSE, FALSE, sizeof(struct kernel_record), count);
    GArray *launches = g_array_sized_new(FALSE, FALSE, sizeof(struct launch_record), count);
    for (guint i = 0; i < count; i++) {
        struct kernel_place place = {g_array_index(rows->kernels, struct kernel_record, i).start_ns,
                                     i};
        g_array_append_val(places, place);
    }
    g_array_sort(places, by_start);
    for (guint i = 0; i < count; i++) {
        guint row = g_array_index(places, struct kernel_place, i).row;
        g_array_append_val(kernels, g_array_index(rows->kernels, struct kernel_record, row));
        g_array_append_val(launches, g_array_index(rows->launches, struct launch_record, row));
    }
    g_array_unref(rows->kernels);
    g_array_unref(rows->launches);
    rows->kernels = kernels;
    rows->launches = launches;
}

static void find_devices(struct device_rows *rows)
{
    for (guint i = 0; i < rows->syncs->len; i++) {
        struct sync_record *sync = &g_array_index(rows->syncs, struct sync_record, i);
        sync->device =
            GPOINTER_TO_UINT(g_hash_table_lookup(rows->devices, GUINT_TO_POINTER(sync->context)));
    }
}

/* Moves the elements out of an array and empties it. Returns NULL if it was empty. */
static void *take(GArray *array, uint32_t *count)
{
    gsize length = 0;
    void *elements = g_array_steal(array, &length);
    *count = (uint32_t)length;
    if (length == 0)
        g_clear_pointer(&elements, g_free);
    return elements;
}

struct activity *device_log_take(struct device_log *log, const struct device_clock *begin,
                                 const struct device_clock *end)
{
    struct device_rows *rows = &log->rows;
    const struct shift shift = {begin, end};
    struct activity *activity = g_new0(struct activity, 1);
    GArray *with_end[] = {rows->copies, rows->sets, rows->syncs, rows->calls, rows->overheads};
    GArray *with_start[] = {rows->memory, rows->pools};
    leave_all_out(log);
    sort_kernels(rows);
    move_times(&shift, rows->kernels, 2);
    for (size_t i = 0; i < G_N_ELEMENTS(with_end); i++) {
        g_array_sort(with_end[i], by_start);
        move_times(&shift, with_end[i], 2);
    }
    for (size_t i = 0; i < G_N_ELEMENTS(with_start); i++) {
        g_array_sort(with_start[i], by_start);
        move_times(&shift, with_start[i], 1);
    }
    for (guint i = 0; i < rows->memory->len; i++)
        live_memory_add(log->live, &g_array_index(rows->memory, struct memory_record, i));
    find_devices(rows);
    activity->launches = take(rows->launches, &activity->kernel_count);
    activity->kernels = take(rows->kernels, &activity->kernel_count);
    activity->copies = take(rows->copies, &activity->copy_count);
    activity->sets = take(rows->sets, &activity->set_count);
    activity->syncs = take(rows->syncs, &activity->sync_count);
    activity->calls = take(rows->calls, &activity->call_count);
    activity->overheads = take(rows->overheads, &activity->overhead_count);
    activity->memory = take(rows->memory, &activity->memory_count);
    activity->pools = take(rows->pools, &activity->pool_count);
    activity->correlations = take(rows->correlations, &activity->correlation_count);
    activity->dropped = log->dropped;
    activity->unfinished = rows->unfinished;
    activity->untimed = rows->untimed;
    activity->unreadable = log->unreadable;
    log->dropped = log->unreadable = rows->unfinished = rows->untimed = 0;
    return activity;
}

void device_log_pinned(struct device_log *log, const uint64_t *times_ns, uint32_t count,
                       uint64_t *bytes)
{
    live_memory_pinned(log->live, times_ns, count, bytes);
}
