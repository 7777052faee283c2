#include "engine/pool_cuts.h"

static gint ascending(gconstpointer left, gconstpointer right)
{
    const uint64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

static void add(GArray *cuts, const struct plan *plan, uint32_t chunk, uint64_t offset)
{
    uint64_t cut = plan->host_address[chunk] + offset;
    if (plan->host_address[chunk] != NO_ADDRESS)
        g_array_append_val(cuts, cut);
}

static void drop_repeated(GArray *cuts)
{
    uint64_t *cut = (uint64_t *)(void *)cuts->data;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < cuts->len; i++)
        if (kept == 0 || cut[kept - 1] != cut[i])
            cut[kept++] = cut[i];
    g_array_set_size(cuts, kept);
}

GArray *pool_cuts(const struct plan *plan)
{
    const struct layout *layout = plan->layout;
    GArray *cuts = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    for (uint32_t c = 0; c < layout->chunk_count; c++) {
        add(cuts, plan, c, 0);
        add(cuts, plan, c, layout->chunks[c].copy_bytes);
    }
    for (int list = 0; list < TRACE_LISTS; list++)
        for (uint32_t t = 0; layout->places[list] && t < layout->tensor_count; t++)
            add(cuts, plan, layout->places[list][t].chunk, layout->places[list][t].offset);
    g_array_sort(cuts, ascending);
    drop_repeated(cuts);
    return cuts;
}
