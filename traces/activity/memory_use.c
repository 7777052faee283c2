#include "traces/activity/memory_use.h"

/* A process's address names one allocation. */
static guint hash(const void *key)
{
    const struct memory_record *record = key;
    return (guint)((record->address >> 8) * 2654435761U) ^ record->process;
}

static gboolean same_place(const void *left, const void *right)
{
    const struct memory_record *a = left, *b = right;
    return a->address == b->address && a->process == b->process;
}

static struct device_memory *device_of(struct memory_use *use, uint32_t device)
{
    guint place = 0;
    while (place < use->devices->len &&
           g_array_index(use->devices, struct device_memory, place).device < device)
        place++;
    if (place == use->devices->len ||
        g_array_index(use->devices, struct device_memory, place).device != device) {
        struct device_memory fresh = {.device = device};
        g_array_insert_val(use->devices, place, fresh);
    }
    return &g_array_index(use->devices, struct device_memory, place);
}

/* NULL: of no interest. */
static struct memory_level *level_of(struct memory_use *use, const struct memory_record *record)
{
    switch (record->kind) {
    case MEMORY_DEVICE:
    case MEMORY_ARRAY:
    case MEMORY_DEVICE_STATIC:
        return &device_of(use, record->device)->allocated;
    case MEMORY_PINNED:
        return &use->pinned;
    case MEMORY_MANAGED:
    case MEMORY_MANAGED_STATIC:
        return &use->managed;
    default:
        return NULL;
    }
}

static void release(struct memory_use *use, const struct memory_record *allocation)
{
    struct memory_level *level = level_of(use, allocation);
    if (level)
        level->live_bytes -= allocation->bytes;
}

static void allocate(struct memory_use *use, const struct memory_record *record)
{
    struct memory_level *level = level_of(use, record);
    if (!level)
        return;
    level->live_bytes += record->bytes;
    if (level->live_bytes > level->peak_bytes) {
        level->peak_bytes = level->live_bytes;
        level->peak_ns = record->start_ns;
    }
}

/* A free's own size and kind are not trusted: profilers leave them out. */
static void follow(struct memory_use *use, GHashTable *live, const struct memory_record *record)
{
    const struct memory_record *before = g_hash_table_lookup(live, record);
    if (before) {
        release(use, before);
        g_hash_table_remove(live, record);
    }
    if (record->operation == MEMORY_FREE) {
        use->unseen += before == NULL;
    } else {
        use->reused += before != NULL;
        g_hash_table_add(live, (void *)record);
        allocate(use, record);
    }
    if (record->pool_bytes > 0) {
        struct device_memory *device = device_of(use, record->device);
        device->pool_peak_bytes = MAX(device->pool_peak_bytes, record->pool_bytes);
    }
}

struct memory_use *memory_use_of(const struct activity *activity)
{
    struct memory_use *use = g_new0(struct memory_use, 1);
    g_autoptr(GHashTable) live = g_hash_table_new(hash, same_place);
    use->devices = g_array_new(FALSE, FALSE, sizeof(struct device_memory));
    for (uint32_t i = 0; i < activity->memory_count; i++)
        follow(use, live, &activity->memory[i]);
    return use;
}

void memory_use_free(struct memory_use *use)
{
    if (!use)
        return;
    g_array_unref(use->devices);
    g_free(use);
}
