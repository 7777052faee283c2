#include "strategies/preset.h"

#include <math.h>

/* Of the device's memory that is used at all, the share for chunks in the warm-up iteration; and of
 * what is left for the optimizer's states, the share that they take. */
#define WARM_UP_SHARE 0.1
#define MARGIN_SHARE  0.8

/* Bytes for each element of a chunk that are kept free while the optimizer runs. */
#define UPDATE_RESERVE 16

static uint64_t usable(const struct strategy_context *context)
{
    return (uint64_t)(context->value * (double)context->device_budget);
}

/* Returns the bytes for which host memory has no room. */
static uint64_t overflow(const struct strategy_context *context)
{
    g_autofree uint8_t *none = g_new0(uint8_t, context->layout->chunk_count);
    struct homes *homes = homes_assign(context->trace, context->layout, none);
    uint64_t bytes = homes->host_pool_bytes;
    homes_free(homes);
    return bytes > context->host_budget ? bytes - context->host_budget : 0;
}

/* The first chunks' states are updated on the device, if parameters and the greatest non-model data
 * leave room for them, or if the host has none. */
static void place(const struct strategy_context *context, uint8_t *on_host)
{
    uint64_t room = updates_margin(context, usable(context));
    updates_but_first_bytes(context, overflow(context), (uint64_t)(MARGIN_SHARE * (double)room),
                            on_host);
}

/* Returns the bytes reserved at each moment: the non-model data of this moment or the next,
 * whichever is greater, and a parameter chunk of each rank, because ranks gather such a group. */
static uint64_t *reserve(const struct strategy_context *context)
{
    const struct trace *trace = context->trace;
    uint64_t chunk = context->layout->chunk_bytes[TRACE_PARAM], ranks = MAX(1, trace->ranks);
    uint64_t elements = chunk / trace->list_element_bytes[TRACE_PARAM];
    uint64_t *bytes = g_new(uint64_t, trace->operator_count);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        uint64_t now = context->non_model[m];
        uint64_t next = m + 1 < trace->operator_count ? context->non_model[m + 1] : 0;
        bool updates = trace->operators[m].phase == TRACE_UPDATE_PHASE;
        bytes[m] = updates ? MAX(now, UPDATE_RESERVE * elements) : MAX(now, next) + chunk * ranks;
    }
    return bytes;
}

/* In the warm-up iteration, every parameter chunk that visits the device must fit alone. */
static bool check_warm_up(const struct strategy_context *context, uint64_t *needed, GError **error)
{
    const struct accesses *accesses = context->accesses;
    double share = context->value * WARM_UP_SHARE;
    uint64_t largest = 0;
    moment_id moment = 0;
    for (uint32_t m = 0; m < accesses->moment_count; m++)
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            const struct chunk_access *access = &accesses->items[a];
            const struct chunk *chunk = &context->layout->chunks[access->chunk];
            if (chunk->list == TRACE_PARAM && !(access->flags & ACCESS_ON_HOST) &&
                chunk->slot_bytes > largest) {
                largest = chunk->slot_bytes;
                moment = m;
            }
        }
    if (context->trace->ranks > 1) /* a chunk of each is gathered, whatever it holds */
        largest = context->layout->chunk_bytes[TRACE_PARAM] * context->trace->ranks;
    *needed = (uint64_t)ceil((double)largest / share);
    if (*needed <= context->device_budget)
        return true;
    strategy_refuse(context, moment, *needed, error);
    return false;
}

/* Finds the chunks that hold nothing at some time. Dead bytes need no copy. */
static uint8_t *find_mortal(const struct accesses *accesses)
{
    uint8_t *mortal = g_new0(uint8_t, accesses->chunk_count);
    for (uint32_t a = 0; a < accesses->count; a++)
        if (accesses->items[a].flags & ACCESS_LAST)
            mortal[accesses->items[a].chunk] = 1;
    return mortal;
}

/* In PatrickStar a chunk's payload is in one place only. So a chunk that leaves is copied whether
 * it was changed or not, and training waits for every copy. What ranks gathered is released. */
static void move_payloads(struct decisions *decisions, const struct strategy_context *context)
{
    const struct accesses *accesses = context->accesses;
    const struct chunk *chunks = context->layout->chunks;
    const struct plan_action wait = {.kind = PLAN_WAIT, .address = NO_ADDRESS};
    g_autofree uint8_t *mortal = find_mortal(accesses);
    GArray *before = decisions->actions, *after = g_array_new(FALSE, FALSE, sizeof wait);
    uint32_t next = 0;
    for (uint32_t m = 0; m <= decisions->moment_count; m++) {
        bool copies = false;
        decisions->first[m] = after->len;
        for (uint32_t end = decisions->first[m + 1]; next < end; next++) {
            struct plan_action action = g_array_index(before, struct plan_action, next);
            bool gathered = chunks[action.chunk].list == TRACE_GATHERED;
            if (action.kind == PLAN_DROP && !mortal[action.chunk] && !gathered)
                action.kind = PLAN_WRITE_BACK;
            copies = copies || (action.kind != PLAN_DROP && action.kind != PLAN_ALLOCATE);
            g_array_append_val(after, action);
        }
        if (copies)
            g_array_append_val(after, wait);
    }
    decisions->first[decisions->moment_count + 1] = after->len;
    decisions->actions = after;
    g_array_unref(before);
}

static struct decisions *decide_within(const struct strategy_context *context, struct homes **homes,
                                       uint64_t *needed, GError **error)
{
    g_autofree uint64_t *reserved = reserve(context);
    const struct budget budget = {.bytes = usable(context),
                                  .share = context->value,
                                  .reserve = reserved,
                                  .policy = &policy_patrickstar};
    uint64_t warm_up;
    if (!check_warm_up(context, &warm_up, error)) {
        *needed = warm_up;
        return NULL;
    }
    struct decisions *decisions = budget_decide(context, &budget, homes, needed, error);
    *needed = MAX(*needed, warm_up);
    if (decisions)
        move_payloads(decisions, context);
    return decisions;
}

const struct strategy_ops strategy_patrickstar = {
    .name = "patrickstar",
    .parameter = "R",
    .least = 0.01,
    .most = 1,
    .usual = 0.8,
    .summary = "chunks by next use under its own budgets, optimizer on the device in the margin",
    .place = place,
    .decide = decide_within,
};
