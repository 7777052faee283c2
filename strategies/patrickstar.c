#include "strategies/preset.h"

#include <math.h>
#include <string.h>

/* Of the device's memory that is used at all, the share for chunks in the warm-up iteration; and of
 * what is left for the optimizer's states, the share that they take. */
#define WARM_UP_SHARE 0.1
#define MARGIN_SHARE  0.8

/* Bytes for each element of a chunk that are kept free while the optimizer runs. */
#define UPDATE_RESERVE 16

/* Returns whether ranks gather parameters in chunks, which an import does not. */
static bool gathers(const struct strategy_context *context)
{
    return context->trace->list_element_bytes[TRACE_GATHERED] > 0;
}

static uint64_t usable(const struct strategy_context *context)
{
    return (uint64_t)(context->value * (double)context->device_budget);
}

/* Returns the bytes for which host memory has no room. */
static uint64_t overflow(const struct strategy_context *context)
{
    g_autofree uint8_t *none = g_new0(uint8_t, context->layout->chunk_count);
    struct homes *homes = homes_assign(context->trace, context->layout, none, NULL);
    uint64_t bytes = homes->host_pool_bytes;
    homes_free(homes);
    return bytes > context->host_budget ? bytes - context->host_budget : 0;
}

/* Returns the bytes of the chunks of a group that belong to other ranks. */
static uint64_t remote_bytes(const struct strategy_context *context)
{
    uint64_t ranks = gathers(context) ? context->trace->ranks : 1;
    return (ranks - 1) * context->layout->chunk_bytes[TRACE_PARAM];
}

/* The first chunks' states are updated on the device, if parameters, a gathered group and the
 * greatest non-model data leave room for them, or if the host has none. */
static void place(const struct strategy_context *context, uint8_t *on_host)
{
    uint64_t used = usable(context), remote = remote_bytes(context);
    uint64_t room = updates_margin(context, used > remote ? used - remote : 0);
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

/* ---- groups of chunks that ranks gather ---- */

/* Where the ranks share parameters, a chunk of parameters holds this rank's part of a group, whose
 * other parts are gathered with it, all at once. When the whole group was used in forward, or in
 * backward, what was gathered is released, whatever its next use. The part of this rank stays, and
 * leaves by its next use like any other chunk.
 *
 * For the policy this is written as accesses: an operator that reads a tensor of a group accesses
 * all of the group, and the last such access of a phase leaves nothing alive in what was gathered.
 */
struct rank_groups {
    const struct strategy_context *context;
    GArray *accesses; /* struct trace_access: what the policy sees, operator by operator */
    tensor_id
        *tensors;    /* [chunk_count] the first tensor of a gathered chunk, which stands for it */
    chunk_id *first; /* [chunk_count] of a chunk of parameters: a gathered chunk of its group */
    chunk_id *next;  /* [chunk_count] of a gathered chunk: another of its group, or NO_INDEX */
    moment_id *last; /* [tensor_count][TRACE_LISTS] the last operator that accesses it, so far */
};

static chunk_id group_of(const struct rank_groups *groups, tensor_id tensor)
{
    return groups->context->layout->places[TRACE_PARAM][tensor].chunk;
}

static chunk_id *new_chunks(uint32_t count)
{
    chunk_id *chunks = g_new(chunk_id, count);
    memset(chunks, 0xff, count * sizeof *chunks);
    return chunks;
}

static moment_id *new_moments(uint32_t count)
{
    moment_id *moments = g_new(moment_id, count);
    memset(moments, 0xff, count * sizeof *moments);
    return moments;
}

static void find_groups(struct rank_groups *groups)
{
    const struct layout *layout = groups->context->layout;
    groups->tensors = new_chunks(layout->chunk_count);
    groups->first = new_chunks(layout->chunk_count);
    groups->next = new_chunks(layout->chunk_count);
    groups->last = new_moments(layout->tensor_count * TRACE_LISTS);
    for (tensor_id t = 0; t < layout->tensor_count; t++) {
        chunk_id chunk = layout->places[TRACE_GATHERED][t].chunk, group = group_of(groups, t);
        if (groups->tensors[chunk] != NO_INDEX)
            continue;
        groups->tensors[chunk] = t;
        groups->next[chunk] = groups->first[group];
        groups->first[group] = chunk;
    }
}

/* Notes that the operator accesses a tensor's list. Returns false if it was noted before. */
static bool note_access(struct rank_groups *groups, moment_id moment, tensor_id tensor,
                        enum trace_list list)
{
    moment_id *last = &groups->last[(size_t)tensor * TRACE_LISTS + list];
    bool is_new = *last != moment;
    *last = moment;
    return is_new;
}

/* Adds an access to the operator, unless it has one. */
static void add_access(struct rank_groups *groups, moment_id moment, tensor_id tensor,
                       enum trace_list list)
{
    const struct trace_access access = {
        .tensor = tensor, .list = (uint8_t)list, .mode = TRACE_READ};
    if (note_access(groups, moment, tensor, list))
        g_array_append_val(groups->accesses, access);
}

static void access_group(struct rank_groups *groups, moment_id moment, tensor_id tensor)
{
    for (chunk_id c = groups->first[group_of(groups, tensor)]; c != NO_INDEX; c = groups->next[c])
        add_access(groups, moment, groups->tensors[c], TRACE_GATHERED);
    add_access(groups, moment, tensor, TRACE_PARAM);
}

static void widen_operator(struct rank_groups *groups, moment_id moment, struct trace_operator *op)
{
    uint32_t from = groups->accesses->len, own = op->access_count;
    const struct trace_access *accesses = groups->context->trace->accesses + op->first_access;
    g_array_append_vals(groups->accesses, accesses, own);
    for (uint32_t i = 0; i < own; i++)
        if (accesses[i].list < TRACE_LISTS) /* else it is of a buffer */
            note_access(groups, moment, accesses[i].tensor, (enum trace_list)accesses[i].list);
    for (uint32_t i = 0; i < own; i++)
        if (accesses[i].list == TRACE_GATHERED && accesses[i].mode == TRACE_READ)
            access_group(groups, moment, accesses[i].tensor);
    op->first_access = from;
    op->access_count = groups->accesses->len - from;
}

/* Returns the trace in which operators access whole groups. */
static struct trace *widen(const struct strategy_context *context)
{
    struct trace *wide = trace_copy(context->trace);
    struct rank_groups groups = {
        .context = context, .accesses = g_array_new(FALSE, FALSE, sizeof(struct trace_access))};
    find_groups(&groups);
    for (uint32_t m = 0; m < wide->operator_count; m++)
        widen_operator(&groups, m, &wide->operators[m]);
    g_free(wide->accesses);
    wide->access_count = groups.accesses->len;
    wide->accesses = (void *)g_array_free(groups.accesses, FALSE);
    g_free(groups.tensors);
    g_free(groups.first);
    g_free(groups.next);
    g_free(groups.last);
    return wide;
}

/* Marks the last access to each gathered chunk in forward and in backward of each micro-batch. */
static void release_after_visits(const struct strategy_context *context, struct accesses *accesses)
{
    const struct trace_operator *operators = context->trace->operators;
    uint32_t chunks = accesses->chunk_count;
    g_autofree moment_id *later = new_moments(chunks);
    for (moment_id m = accesses->moment_count; m-- > 0;)
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            struct chunk_access *access = &accesses->items[a];
            if (context->layout->chunks[access->chunk].list != TRACE_GATHERED)
                continue;
            const struct trace_operator *op = &operators[m];
            const struct trace_operator *next = later[access->chunk] == NO_INDEX
                                                    ? NULL
                                                    : &operators[later[access->chunk]];
            if (!next || next->phase != op->phase || next->micro_batch != op->micro_batch)
                access->flags |= ACCESS_LAST;
            later[access->chunk] = m;
        }
}

/* Returns the accesses for which the policy decides, in which groups come and go as a whole. NULL
 * if nothing is gathered in chunks. */
static struct accesses *access_groups(const struct strategy_context *context)
{
    if (!gathers(context))
        return NULL;
    struct trace *wide = widen(context);
    struct accesses *accesses = accesses_new(wide, context->layout, context->non_model);
    release_after_visits(context, accesses);
    trace_free(wide);
    return accesses;
}

/* ---- payloads ---- */

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
    uint64_t warm_up;
    if (!check_warm_up(context, &warm_up, error)) {
        *needed = warm_up;
        return NULL;
    }
    struct accesses *groups = access_groups(context);
    const struct budget budget = {.bytes = usable(context),
                                  .share = context->value,
                                  .reserve = reserved,
                                  .accesses = groups,
                                  .policy = &policy_patrickstar};
    struct decisions *decisions = budget_decide(context, &budget, homes, needed, error);
    accesses_free(groups);
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
