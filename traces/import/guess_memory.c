#include "traces/import/guess_parts.h"

/* How many kernels had been launched. */
static uint32_t moment_of(const GArray *launches, uint64_t ns)
{
    uint32_t low = 0, high = launches->len;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (launch_at(launches, middle)->ns < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool is_device_memory(const struct memory_record *event, uint32_t device)
{
    return event->device == device && (event->kind == MEMORY_DEVICE || event->kind == MEMORY_ARRAY);
}

/* Follows the allocations through the iteration. `visit` is called with each that comes and goes
 * within it. */
static GHashTable *passing_allocations(const struct activity *activity, const struct span *span,
                                       struct guessed_iteration *guessed)
{
    g_autoptr(GHashTable) live = g_hash_table_new(g_int64_hash, g_int64_equal);
    GHashTable *passing = g_hash_table_new(NULL, NULL); /* events: allocations and their frees */
    bool begun = false;
    GHashTableIter iterator;
    gpointer value;
    for (uint32_t i = 0; i <= activity->memory_count; i++) {
        const struct memory_record *event = &activity->memory[i];
        bool ended = i == activity->memory_count || event->start_ns >= span->end_ns;
        if (!begun && (ended || event->start_ns >= span->begin_ns)) {
            begun = true;
            g_hash_table_iter_init(&iterator, live);
            while (g_hash_table_iter_next(&iterator, NULL, &value)) {
                guessed->lasting_count++;
                guessed->lasting_bytes += ((const struct memory_record *)value)->bytes;
            }
        }
        if (ended)
            break;
        if (!is_device_memory(event, guessed->device))
            continue;
        const struct memory_record *before = g_hash_table_lookup(live, &event->address);
        if (event->operation == MEMORY_ALLOCATE) {
            g_hash_table_replace(live, (gpointer)&event->address, (gpointer)event);
        } else if (before) {
            g_hash_table_remove(live, &event->address);
            bool within = before->start_ns >= span->begin_ns;
            if (within) {
                g_hash_table_insert(passing, (gpointer)before, (gpointer)before);
                g_hash_table_insert(passing, (gpointer)event, (gpointer)before);
            } else if (begun) { /* freed within, after all */
                guessed->lasting_count--;
                guessed->lasting_bytes -= before->bytes;
            }
        }
    }
    g_hash_table_iter_init(&iterator, live);
    while (g_hash_table_iter_next(&iterator, NULL, &value)) {
        const struct memory_record *left = value;
        if (left->start_ns < span->begin_ns)
            continue;
        guessed->new_count++;
        guessed->new_bytes += left->bytes;
    }
    return passing;
}

GArray *guess_changes(const struct activity *activity, const struct span *span,
                      const GArray *launches, struct guessed_iteration *guessed)
{
    GArray *changes = g_array_new(FALSE, FALSE, sizeof(struct change));
    g_autoptr(GHashTable) passing = passing_allocations(activity, span, guessed);
    g_autoptr(GHashTable) begun = g_hash_table_new(NULL, NULL); /* allocations: 1 + their place */
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < activity->memory_count; i++) {
        const struct memory_record *event = &activity->memory[i];
        const struct memory_record *allocation = g_hash_table_lookup(passing, event);
        if (!allocation)
            continue;
        bool allocates = allocation == event;
        uint32_t moment = moment_of(launches, event->start_ns);
        struct change change = {moment, moment, (int64_t)allocation->bytes};
        if (allocates) {
            g_hash_table_insert(begun, (gpointer)event, GUINT_TO_POINTER(changes->len + 1));
        } else {
            guint place = GPOINTER_TO_UINT(g_hash_table_lookup(begun, allocation)) - 1;
            g_array_index(changes, struct change, place).until = moment;
            change.bytes = -change.bytes;
        }
        g_array_append_val(changes, change);
        guessed->passing_count += allocates;
        bytes += (uint64_t)change.bytes;
        if (bytes > guessed->passing_peak_bytes) {
            guessed->passing_peak_bytes = bytes;
            guessed->passing_peak_kernel = moment;
        }
    }
    return changes;
}

static int64_t highest(const GArray *changes, uint32_t update)
{
    int64_t bytes = 0, most = 0;
    for (guint i = 0; i < changes->len; i++) {
        const struct change *change = &g_array_index(changes, struct change, i);
        bytes += change->until < update ? change->bytes : 0;
        most = MAX(most, bytes);
    }
    return most;
}

/* A rise that is followed. */
struct follower {
    struct rise rise;
    int64_t bytes, peak, valley; /* the valley after the peak */
    uint32_t valley_end;         /* the moment of the first allocation after it */
    bool has_free, left_valley;
};

static void follow(struct follower *f, const struct change *change)
{
    f->bytes += change->bytes;
    if (f->bytes > f->peak) {
        f->peak = f->valley = f->bytes;
        f->has_free = f->left_valley = false;
        f->rise.all_free = UINT32_MAX;
    } else if (change->bytes < 0 && !f->has_free) {
        f->has_free = true;
        f->rise.first_free = change->moment;
    }
    if (f->bytes <= f->valley) {
        f->valley = f->bytes;
        f->left_valley = false;
    } else if (!f->left_valley) {
        f->left_valley = true;
        f->valley_end = change->moment;
    }
    if (f->has_free && f->rise.all_free == UINT32_MAX && f->bytes <= f->peak / 10)
        f->rise.all_free = change->moment;
}

GArray *guess_rises(const GArray *changes, uint32_t update)
{
    GArray *rises = g_array_new(FALSE, FALSE, sizeof(struct rise));
    int64_t half = MAX(highest(changes, update) / 2, 1);
    struct follower f = {.rise.all_free = UINT32_MAX};
    for (guint i = 0; i < changes->len; i++) {
        const struct change *change = &g_array_index(changes, struct change, i);
        if (change->until >= update)
            continue;
        bool again = f.peak - f.valley >= half && f.bytes + change->bytes - f.valley >= half;
        if (again && f.has_free) {
            g_array_append_val(rises, f.rise);
            uint32_t begin = f.left_valley ? f.valley_end : change->moment;
            f = (struct follower){.rise = {begin, begin, UINT32_MAX},
                                  .bytes = f.bytes,
                                  .peak = f.bytes,
                                  .valley = f.bytes};
        }
        follow(&f, change);
    }
    if (f.has_free)
        g_array_append_val(rises, f.rise);
    return rises;
}
