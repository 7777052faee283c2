#include "traces/import/kineto_storages.h"

struct kineto_storages {
    const struct kineto_parts *parts;
    GHashTable *first_input; /* storage to whether its first use was as an input */
    GHashTable *taken;       /* storages of parameters */
};

static const struct kineto_use *use_at(const struct kineto_storages *storages, guint index)
{
    return &g_array_index(storages->parts->kineto->uses, struct kineto_use, index);
}

struct kineto_storages *kineto_storages_new(const struct kineto_parts *parts)
{
    struct kineto_storages *storages = g_new0(struct kineto_storages, 1);
    storages->parts = parts;
    storages->first_input = g_hash_table_new(NULL, NULL);
    storages->taken = g_hash_table_new(NULL, NULL);
    for (guint i = 0; i < parts->kineto->uses->len; i++) {
        const struct kineto_use *use = use_at(storages, i);
        gpointer key = GSIZE_TO_POINTER(use->storage);
        if (!g_hash_table_contains(storages->first_input, key))
            g_hash_table_insert(storages->first_input, key, GINT_TO_POINTER(!use->output));
    }
    return storages;
}

void kineto_storages_free(struct kineto_storages *storages)
{
    g_hash_table_unref(storages->first_input);
    g_hash_table_unref(storages->taken);
    g_free(storages);
}

/* The first use that does not come before the work does. */
static guint first_use(const struct kineto_storages *storages, uint32_t work)
{
    uint64_t start_ns = kineto_work_at(storages->parts->step, work)->start_ns;
    guint low = 0, high = storages->parts->kineto->uses->len;
    while (low < high) {
        guint middle = low + (high - low) / 2;
        if (use_at(storages, middle)->time_ns < start_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool may_be(const struct kineto_storages *storages, const struct kineto_use *use,
                   uint64_t bytes)
{
    gpointer key = GSIZE_TO_POINTER(use->storage);
    return !use->output && use->bytes == bytes && !g_hash_table_contains(storages->taken, key) &&
           GPOINTER_TO_INT(g_hash_table_lookup(storages->first_input, key));
}

/* 0: there is none. */
static uint64_t find(const struct kineto_storages *storages, uint32_t work, uint64_t bytes)
{
    for (guint u = first_use(storages, work); u < first_use(storages, work + 1); u++)
        if (may_be(storages, use_at(storages, u), bytes))
            return use_at(storages, u)->storage;
    return 0;
}

bool kineto_storages_add_reads(struct kineto_storages *storages, uint32_t work, uint64_t bytes,
                               uint32_t tensor)
{
    const struct kineto_parts *parts = storages->parts;
    uint64_t storage = find(storages, work, bytes);
    uint32_t at = 0;
    if (storage == 0)
        return false;
    g_hash_table_add(storages->taken, GSIZE_TO_POINTER(storage));
    for (guint u = first_use(storages, 0); u < parts->kineto->uses->len; u++) {
        const struct kineto_use *use = use_at(storages, u);
        while (at + 1 < parts->update &&
               kineto_work_at(parts->step, at + 1)->start_ns <= use->time_ns)
            at++;
        if (parts->update < parts->step->works->len &&
            use->time_ns >= kineto_work_at(parts->step, parts->update)->start_ns)
            break;
        struct kineto_access access = {at, {tensor, TRACE_PARAM, TRACE_READ}};
        if (use->storage == storage && use->time_ns < parts->step->end_ns)
            g_array_append_val(parts->accesses, access);
    }
    return true;
}
