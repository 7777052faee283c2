#include "engine/engine.h"

static gint ascending(gconstpointer left, gconstpointer right)
{
    const uint64_t *a = left, *b = right;
    return (*a > *b) - (*a < *b);
}

static void add(GArray *cuts, const struct plan *plan, chunk_id chunk, uint64_t offset)
{
    uint64_t cut = plan->host_address[chunk] + offset;
    if (plan->host_address[chunk] != NO_ADDRESS)
        g_array_append_val(cuts, cut);
}

/* Adds where chunks that are at home in NVMe have slots. */
static void add_slots(GArray *cuts, const struct plan *plan)
{
    for (uint32_t i = 0; i < plan->action_count; i++) {
        const struct plan_action *action = &plan->actions[i];
        const uint64_t slot[] = {action->address,
                                 action->address + plan_nvme_slot(plan->layout, action->chunk)};
        if (action->kind == PLAN_LOAD || action->kind == PLAN_RESERVE)
            g_array_append_vals(cuts, slot, G_N_ELEMENTS(slot));
    }
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
        for (uint32_t i = 0; layout->places[list] && i < layout_place_count(layout, list); i++)
            add(cuts, plan, layout->places[list][i].chunk, layout->places[list][i].offset);
    add_slots(cuts, plan);
    g_array_sort(cuts, ascending);
    drop_repeated(cuts);
    return cuts;
}
