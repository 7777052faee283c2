#include "collect/live_memory.h"

struct allocation {
    uint64_t address; /* the key */
    uint64_t bytes;
    bool pinned;
};

struct change {
    uint64_t time_ns;
    int64_t bytes;
};

struct live_memory {
    GHashTable *allocations; /* of struct allocation */
    GArray *pinned;          /* of struct change */
};

struct live_memory *live_memory_new(void)
{
    struct live_memory *live = g_new(struct live_memory, 1);
    live->allocations = g_hash_table_new_full(g_int64_hash, g_int64_equal, g_free, NULL);
    live->pinned = g_array_new(FALSE, FALSE, sizeof(struct change));
    return live;
}

void live_memory_free(struct live_memory *live)
{
    if (!live)
        return;
    g_hash_table_unref(live->allocations);
    g_array_unref(live->pinned);
    g_free(live);
}

static void pin(struct live_memory *live, uint64_t time_ns, int64_t bytes)
{
    const struct change change = {time_ns, bytes};
    g_array_append_val(live->pinned, change);
}

void live_memory_add(struct live_memory *live, struct memory_record *record)
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
    const struct change *a = left, *b = right;
    return (a->time_ns > b->time_ns) - (a->time_ns < b->time_ns);
}

void live_memory_pinned(struct live_memory *live, const uint64_t *times_ns, uint32_t count,
                        uint64_t *bytes)
{
    int64_t level = 0;
    guint next = 0;
    g_array_sort(live->pinned, by_time);
    for (uint32_t i = 0; i < count; i++) {
        for (; next < live->pinned->len; next++) {
            const struct change *change = &g_array_index(live->pinned, struct change, next);
            if (change->time_ns > times_ns[i])
                break;
            level += change->bytes;
        }
        bytes[i] = (uint64_t)MAX(level, 0);
    }
}
