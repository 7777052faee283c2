/* Blocks of the time bound that are alike: the experts of a layer, for example, of which a model
 * may have thousands. What is cheapest for one of them is so for all, so it is found once, and the
 * program of prices has one row for all of them. */
#include "planner/proof/prices.h"

#include <string.h>

bool time_chunks_are_alike(const struct time_model *model, int side, uint32_t a, uint32_t b)
{
    const struct route_chunk *x = &model->chunks[a], *y = &model->chunks[b];
    return x->fetch_ns == y->fetch_ns && x->d2h_ns == y->d2h_ns && x->memory_ns == y->memory_ns &&
           x->bytes == y->bytes && x->host_bytes == y->host_bytes &&
           x->fetched_by == y->fetched_by &&
           routes_are_alike(&model->routes[side][a], &model->routes[side][b]);
}

static bool work_is_alike(const struct time_work *a, const struct time_work *b)
{
    return a->compute_ns == b->compute_ns && a->host_ns == b->host_ns && a->h2d_ns == b->h2d_ns &&
           a->network_ns == b->network_ns && a->d2h_ns == b->d2h_ns &&
           a->memory_ns == b->memory_ns && a->idle_ns == b->idle_ns && a->window == b->window &&
           a->span == b->span && a->d2h_span == b->d2h_span && a->idle_window == b->idle_window &&
           a->idle_span == b->idle_span;
}

static bool side_is_alike(const struct time_model *model, int side, const struct time_block *a,
                          const struct time_block *b)
{
    bool alike = a->excluded[side] == b->excluded[side] &&
                 a->work[side]->len == b->work[side]->len && a->chunks->len == b->chunks->len;
    for (guint i = 0; alike && i < a->work[side]->len; i++)
        alike = work_is_alike(&g_array_index(a->work[side], struct time_work, i),
                              &g_array_index(b->work[side], struct time_work, i));
    for (guint i = 0; alike && i < a->chunks->len; i++)
        alike = time_chunks_are_alike(model, side, g_array_index(a->chunks, uint32_t, i),
                                      g_array_index(b->chunks, uint32_t, i));
    return alike;
}

static bool blocks_are_alike(const struct time_model *model, uint32_t a, uint32_t b)
{
    for (uint32_t side = 0; side < model->side_count; side++)
        if (!side_is_alike(model, (int)side, &model->blocks[a], &model->blocks[b]))
            return false;
    return true;
}

/* Equal for blocks that are alike, and seldom for others. */
static guint hash_block(const struct time_model *model, const struct time_block *block)
{
    guint hash = block->chunks->len;
    for (uint32_t side = 0; side < model->side_count; side++)
        for (guint i = 0; i < block->work[side]->len; i++) {
            const struct time_work *work = &g_array_index(block->work[side], struct time_work, i);
            hash = hash * 31 + work->window;
            hash = hash * 31 + (guint)(work->compute_ns + work->host_ns + work->network_ns);
        }
    for (guint i = 0; i < block->chunks->len; i++) {
        uint32_t c = g_array_index(block->chunks, uint32_t, i);
        hash = hash * 31 + (guint)(model->chunks[c].bytes >> 8);
        hash = hash * 31 + model->routes[0][c].first_window;
        hash = hash * 31 + model->routes[0][c].count;
    }
    return hash;
}

/* Returns the number of the block's kind, among those whose first block has the same hash, or
 * NO_INDEX if it is the first of its kind. */
static uint32_t find_kind(const struct time_model *model, const GArray *kinds, const GArray *same,
                          uint32_t block)
{
    for (guint i = 0; same && i < same->len; i++) {
        uint32_t kind = g_array_index(same, uint32_t, i);
        if (blocks_are_alike(model, g_array_index(kinds, struct time_kind, kind).first, block))
            return kind;
    }
    return NO_INDEX;
}

static uint32_t add_kind(GArray *kinds, GHashTable *by_hash, guint hash, uint32_t block)
{
    GArray *same = g_hash_table_lookup(by_hash, GUINT_TO_POINTER(hash));
    const struct time_kind kind = {.first = block};
    uint32_t number = kinds->len;
    if (!same) {
        same = g_array_new(FALSE, FALSE, sizeof(uint32_t));
        g_hash_table_insert(by_hash, GUINT_TO_POINTER(hash), same);
    }
    g_array_append_val(kinds, kind);
    g_array_append_val(same, number);
    return number;
}

void time_model_find_kinds(struct time_model *model)
{
    GHashTable *by_hash = g_hash_table_new_full(NULL, NULL, NULL, (GDestroyNotify)g_array_unref);
    GArray *kinds = g_array_new(FALSE, FALSE, sizeof(struct time_kind));
    model->kind_of = g_new(uint32_t, model->block_count);
    for (uint32_t b = 0; b < model->block_count; b++) {
        guint hash = hash_block(model, &model->blocks[b]);
        const GArray *same = g_hash_table_lookup(by_hash, GUINT_TO_POINTER(hash));
        uint32_t kind = find_kind(model, kinds, same, b);
        if (kind == NO_INDEX)
            kind = add_kind(kinds, by_hash, hash, b);
        model->kind_of[b] = kind;
        g_array_index(kinds, struct time_kind, kind).count++;
    }
    g_hash_table_unref(by_hash);
    model->kind_count = kinds->len;
    model->kinds = (struct time_kind *)(void *)g_array_free(kinds, FALSE);
}
