#include "chunks/nvme_homes.h"

#include "chunks/gathering.h"
#include "traces/size.h"

#include <string.h>

/* Rings have room for so many times the bytes that an operator uses at once, unless the host's
 * budget says otherwise. */
enum { RING_TIMES = 4 };

/* A chunk that can live in NVMe. */
struct tenant {
    chunk_id chunk;
    moment_id first, last; /* uses in an iteration */
    uint64_t bytes;        /* of its slots */
    uint64_t host_address; /* from the ring's begin */
    uint32_t loaded;       /* index of its load among the moments' actions */
};

/* The room of a ring, by addresses. */
struct ring_room {
    uint64_t begin, end;
    uint32_t free_from; /* index of the actions that free it */
};

struct nvme_choice {
    const struct plan *plan;
    GArray *tenants;   /* struct tenant, by first use: all that can live in NVMe */
    GArray *chosen;    /* struct tenant: those that do */
    uint32_t earliest; /* index of the first actions that may load */
};

/* ---- who can live there ---- */

static bool is_state(const struct plan *plan, chunk_id chunk)
{
    uint8_t list = plan->layout->chunks[chunk].list;
    return list == TRACE_MASTER || list == TRACE_EXP_AVG || list == TRACE_EXP_AVG_SQ;
}

/* Returns [chunk_count] marks of chunks that come to the device, from which ranks gather, or whose
 * bytes die; free with g_free. */
static uint8_t *find_travellers(const struct plan *plan, const struct accesses *accesses)
{
    uint8_t *travels = g_new0(uint8_t, plan->layout->chunk_count);
    struct gathering *gathering = gathering_new(plan->layout);
    for (uint32_t i = 0; i < plan->action_count; i++)
        if (plan->actions[i].kind != PLAN_WAIT)
            travels[plan->actions[i].chunk] = 1;
    for (uint32_t a = 0; a < accesses->count; a++)
        if (!(accesses->items[a].flags & ACCESS_ON_HOST) || accesses->items[a].flags & ACCESS_LAST)
            travels[accesses->items[a].chunk] = 1;
    for (uint32_t p = 0; gathering && p < gathering->first[plan->layout->chunk_count]; p++)
        travels[gathering->parts[p].source] = 1;
    gathering_free(gathering);
    return travels;
}

static gint by_first_use(gconstpointer left, gconstpointer right)
{
    const struct tenant *a = left, *b = right;
    if (a->first != b->first)
        return a->first < b->first ? -1 : 1;
    return a->chunk < b->chunk ? -1 : a->chunk > b->chunk;
}

static GArray *find_tenants(const struct plan *plan, const struct accesses *accesses)
{
    g_autofree uint8_t *travels = find_travellers(plan, accesses);
    g_autofree struct tenant *of = g_new0(struct tenant, plan->layout->chunk_count);
    GArray *tenants = g_array_new(FALSE, FALSE, sizeof(struct tenant));
    for (uint32_t m = 0; m < accesses->moment_count; m++)
        for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
            struct tenant *tenant = &of[accesses->items[a].chunk];
            tenant->first = tenant->bytes ? tenant->first : m;
            tenant->last = m;
            tenant->bytes = plan_nvme_slot(plan->layout, accesses->items[a].chunk);
        }
    for (chunk_id c = 0; c < plan->layout->chunk_count; c++) {
        of[c].chunk = c;
        if (of[c].bytes && is_state(plan, c) && !travels[c] &&
            plan->host_address[c] != NO_ADDRESS && plan->initial_address[c] == NO_ADDRESS)
            g_array_append_val(tenants, of[c]);
    }
    g_array_sort(tenants, by_first_use);
    return tenants;
}

/* Loads begin after forward, so that evaluation, which ends there, loads nothing. */
static uint32_t first_backward(const struct trace *trace)
{
    uint32_t m = 0;
    while (m < trace->operator_count && trace->operators[m].phase == TRACE_FORWARD)
        m++;
    return m;
}

/* ---- who does ---- */

static const struct tenant *tenant_at(const GArray *tenants, uint32_t i)
{
    return &g_array_index(tenants, struct tenant, i);
}

static uint64_t bytes_of(const GArray *tenants)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < tenants->len; i++)
        bytes += tenant_at(tenants, i)->bytes;
    return bytes;
}

/* Chooses `count` of all, spread evenly over the update. */
static void choose(struct nvme_choice *choice, uint32_t count)
{
    uint64_t all = choice->tenants->len;
    g_array_set_size(choice->chosen, 0);
    for (uint64_t i = 0; i < all; i++)
        if ((i + 1) * count / all > i * count / all)
            g_array_append_val(choice->chosen, *tenant_at(choice->tenants, (uint32_t)i));
}

/* Returns what the host pool holds beside the ring, whose begin is aligned. */
static uint64_t rest_bytes(const struct nvme_choice *choice)
{
    uint64_t rest = choice->plan->host_pool_bytes + PLAN_NVME_ALIGNMENT;
    for (uint32_t i = 0; i < choice->chosen->len; i++)
        rest -= choice->plan->layout->chunks[tenant_at(choice->chosen, i)->chunk].copy_bytes;
    return rest;
}

/* Returns the most bytes that are used at once. */
static uint64_t used_at_once(const GArray *chosen)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < chosen->len; i++) {
        moment_id moment = tenant_at(chosen, i)->first;
        uint64_t bytes = 0;
        for (uint32_t j = 0; j <= i; j++)
            bytes += tenant_at(chosen, j)->last >= moment ? tenant_at(chosen, j)->bytes : 0;
        most = MAX(most, bytes);
    }
    return most;
}

/* Returns the index of the room that begins a range of `bytes` which is free the earliest, or
 * NO_INDEX. *free_from becomes the index of the actions that free it. */
static uint32_t find_room(const GArray *rooms, uint64_t bytes, uint32_t *free_from)
{
    uint32_t best = NO_INDEX;
    *free_from = UINT32_MAX;
    for (uint32_t r = 0; r < rooms->len; r++) {
        uint64_t begin = g_array_index(rooms, struct ring_room, r).begin;
        uint32_t from = 0, end = r;
        for (; end < rooms->len; end++) {
            const struct ring_room *room = &g_array_index(rooms, struct ring_room, end);
            if (room->begin >= begin + bytes)
                break;
            from = MAX(from, room->free_from);
        }
        if (g_array_index(rooms, struct ring_room, end - 1).end < begin + bytes)
            break;
        if (from < *free_from) {
            *free_from = from;
            best = r;
        }
    }
    return best;
}

/* Takes the first `bytes` of the rooms from `at` on. */
static void take_room(GArray *rooms, uint32_t at, uint64_t bytes, uint32_t free_from)
{
    struct ring_room taken = {.begin = g_array_index(rooms, struct ring_room, at).begin,
                              .free_from = free_from};
    taken.end = taken.begin + bytes;
    while (at < rooms->len && g_array_index(rooms, struct ring_room, at).end <= taken.end)
        g_array_remove_index(rooms, at);
    if (at < rooms->len)
        g_array_index(rooms, struct ring_room, at).begin = taken.end;
    g_array_insert_val(rooms, at, taken);
}

/* Gives the chosen chunks slots in a ring of so many bytes. Returns false if it is too small. */
static bool place(struct nvme_choice *choice, uint64_t ring_bytes)
{
    g_autoptr(GArray) rooms = g_array_new(FALSE, FALSE, sizeof(struct ring_room));
    const struct ring_room all = {0, ring_bytes, choice->earliest};
    g_array_append_val(rooms, all);
    for (uint32_t i = 0; i < choice->chosen->len; i++) {
        struct tenant *tenant = &g_array_index(choice->chosen, struct tenant, i);
        uint32_t room = find_room(rooms, tenant->bytes, &tenant->loaded);
        if (room == NO_INDEX || tenant->loaded > tenant->first)
            return false;
        tenant->host_address = g_array_index(rooms, struct ring_room, room).begin;
        take_room(rooms, room, tenant->bytes, tenant->last + 1);
    }
    return true;
}

/* Returns the bytes of a ring in which the chosen chunks have slots, within `most`; 0 if there is
 * none. */
static uint64_t find_ring(struct nvme_choice *choice, uint64_t most, bool as_large_as_can_be)
{
    uint64_t least = used_at_once(choice->chosen), all = bytes_of(choice->chosen);
    uint64_t wanted = MIN(all, as_large_as_can_be ? most : RING_TIMES * least);
    most = MIN(most, all) / PLAN_NVME_ALIGNMENT * PLAN_NVME_ALIGNMENT;
    wanted = wanted / PLAN_NVME_ALIGNMENT * PLAN_NVME_ALIGNMENT;
    for (uint64_t ring = wanted; ring && ring <= most; ring += least)
        if (place(choice, ring))
            return ring;
    return place(choice, most) ? most : 0;
}

static bool refuse(GError **error, const char *what)
{
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT, "%s", what);
    return false;
}

static bool refuse_size(GError **error, const char *memory, uint64_t need, uint64_t budget,
                        const char *why)
{
    g_autofree char *size = size_format(need), *given = size_format(budget);
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
                "%s: %s %s, and the budget is %s; %" G_GUINT64_FORMAT " bytes would fit", memory,
                why, size, given, need);
    return false;
}

/* Chooses as many as NVMe has room for. */
static uint64_t choose_most(struct nvme_choice *choice, const struct nvme_budget *budget,
                            GError **error)
{
    uint32_t count = choice->tenants->len;
    do
        choose(choice, count);
    while (bytes_of(choice->chosen) > budget->nvme_bytes && count-- > 1);
    if (!count) /* one is chosen, but has no room */
        return refuse_size(error, "NVMe", bytes_of(choice->chosen), budget->nvme_bytes,
                           "a chunk of optimizer states takes");
    return find_ring(choice, UINT64_MAX, false);
}

/* Chooses `count`. Returns what the host pool takes at least. */
static uint64_t least_host_bytes(struct nvme_choice *choice, uint32_t count)
{
    choose(choice, count);
    return rest_bytes(choice) + used_at_once(choice->chosen);
}

/* Returns the least number of chunks with which the host pool may fit; more than all if none does.
 */
static uint32_t fewest(struct nvme_choice *choice, uint64_t host_budget)
{
    uint32_t low = 1, high = choice->tenants->len + 1;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (least_host_bytes(choice, middle) <= host_budget)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

/* Chooses as few as make the host pool fit. Returns the bytes of the ring, or 0. */
static uint64_t fit_fewest(struct nvme_choice *choice, uint64_t host_budget)
{
    uint64_t ring = 0;
    for (uint32_t count = fewest(choice, host_budget); !ring && count <= choice->tenants->len;
         count++)
        if (least_host_bytes(choice, count) <= host_budget)
            ring = find_ring(choice, host_budget - rest_bytes(choice), true);
    return ring;
}

/* Returns a budget of the host that fits, above the one that does not. */
static uint64_t fitting_host_bytes(struct nvme_choice *choice, const struct nvme_budget *budget)
{
    uint64_t low = budget->host_bytes + 1, high = choice->plan->host_pool_bytes;
    while (low < high) {
        uint64_t middle = low + (high - low) / 2;
        if (fit_fewest(choice, middle) && bytes_of(choice->chosen) <= budget->nvme_bytes)
            high = middle;
        else
            low = middle + 1;
    }
    return high;
}

static uint64_t choose_fewest(struct nvme_choice *choice, const struct nvme_budget *budget,
                              GError **error)
{
    uint64_t ring = fit_fewest(choice, budget->host_bytes);
    if (ring && bytes_of(choice->chosen) <= budget->nvme_bytes)
        return ring;
    if (ring)
        return refuse_size(error, "NVMe", bytes_of(choice->chosen), budget->nvme_bytes,
                           "what the host has no room for takes");
    return refuse_size(error, "host memory", fitting_host_bytes(choice, budget), budget->host_bytes,
                       "beside what can live in NVMe the run takes");
}

/* ---- buffers of groups ---- */

/* The states of a chunk group, which pass through a buffer together. */
struct batch {
    moment_id first, last; /* uses in an iteration */
    uint64_t bytes;        /* of their slots */
    uint32_t buffer;
    uint32_t loaded; /* index of the actions that load it */
};

static struct batch *batch_at(const GArray *batches, uint32_t i)
{
    return &g_array_index(batches, struct batch, i);
}

/* Returns the batches, in the order of their updates, and sets of[chunk_count] to the batch of each
 * chosen chunk, whose place in the buffer becomes its host_address. Both are freed by the caller.
 */
static GArray *find_batches(struct nvme_choice *choice, uint32_t **of)
{
    const struct layout *layout = choice->plan->layout;
    g_autofree uint32_t *of_group = g_new(uint32_t, layout->group_count);
    GArray *batches = g_array_new(FALSE, TRUE, sizeof(struct batch));
    memset(of_group, 0xff, layout->group_count * sizeof *of_group);
    *of = g_new(uint32_t, layout->chunk_count);
    for (uint32_t i = 0; i < choice->chosen->len; i++) {
        struct tenant *tenant = &g_array_index(choice->chosen, struct tenant, i);
        uint32_t *batch = &of_group[layout->chunks[tenant->chunk].group];
        if (*batch == NO_INDEX) {
            *batch = batches->len;
            g_array_append_val(batches, ((struct batch){.first = tenant->first}));
        }
        (*of)[tenant->chunk] = *batch;
        tenant->host_address = batch_at(batches, *batch)->bytes;
        batch_at(batches, *batch)->last = MAX(batch_at(batches, *batch)->last, tenant->last);
        batch_at(batches, *batch)->bytes += tenant->bytes;
    }
    return batches;
}

/* Returns the number of buffers that the batches take, at least one. */
static uint32_t rotate(const GArray *batches, uint32_t buffers)
{
    uint32_t ahead = buffers > 1 ? MAX(1, buffers - 2) : 0;
    g_autofree uint32_t *free_from = g_new0(uint32_t, batches->len);
    uint32_t taken = 0;
    for (uint32_t b = 0; b < batches->len; b++) {
        struct batch *batch = batch_at(batches, b);
        uint32_t best = 0;
        for (uint32_t i = 1; i < taken; i++)
            best = free_from[i] < free_from[best] ? i : best;
        if (taken < buffers || free_from[best] > batch->first)
            best = taken++;
        batch->buffer = best;
        batch->loaded = MAX(batch_at(batches, b > ahead ? b - ahead : 0)->first, free_from[best]);
        free_from[best] = batch->last + 1;
    }
    return taken;
}

/* Gives all chunks places in buffers. Returns the bytes of these together, or 0. */
static uint64_t choose_buffers(struct nvme_choice *choice, const struct nvme_budget *budget,
                               GError **error)
{
    g_autofree uint32_t *of = NULL;
    uint64_t largest = 0;
    choose(choice, choice->tenants->len);
    g_autoptr(GArray) batches = find_batches(choice, &of);
    for (uint32_t b = 0; b < batches->len; b++)
        largest = MAX(largest, batch_at(batches, b)->bytes);
    uint64_t bytes = largest * rotate(batches, budget->buffers);
    for (uint32_t i = 0; i < choice->chosen->len; i++) {
        struct tenant *tenant = &g_array_index(choice->chosen, struct tenant, i);
        const struct batch *batch = batch_at(batches, of[tenant->chunk]);
        tenant->host_address += batch->buffer * largest;
        tenant->loaded = batch->loaded;
    }
    if (bytes_of(choice->chosen) > budget->nvme_bytes)
        return refuse_size(error, "NVMe", bytes_of(choice->chosen), budget->nvme_bytes,
                           "all optimizer states take");
    if (rest_bytes(choice) + bytes > budget->host_bytes)
        return refuse_size(error, "host memory", rest_bytes(choice) + bytes, budget->host_bytes,
                           "with the buffers of optimizer states in NVMe the run takes");
    return bytes;
}

/* ---- the plan with them ---- */

static void append(GArray *actions, chunk_id chunk, enum plan_action_kind kind)
{
    const struct plan_action action = {
        .chunk = chunk, .kind = (uint8_t)kind, .address = NO_ADDRESS};
    g_array_append_val(actions, action);
}

/* At each moment, room is freed before it is taken. `ends`: the step ends when all is stored. */
static void add_actions(struct plan *plan, const GArray *chosen, bool ends)
{
    GArray *actions = g_array_new(FALSE, FALSE, sizeof(struct plan_action));
    uint32_t begin = 0;
    for (uint32_t m = 0; m <= plan->moment_count; m++) {
        uint32_t end = plan->first_action[m + 1];
        g_array_append_vals(actions, plan->actions + begin, end - begin);
        begin = end;
        for (uint32_t i = 0; i < chosen->len; i++)
            if (tenant_at(chosen, i)->last + 1 == m)
                append(actions, tenant_at(chosen, i)->chunk, PLAN_STORE);
        for (uint32_t i = 0; i < chosen->len; i++)
            if (tenant_at(chosen, i)->loaded == m)
                append(actions, tenant_at(chosen, i)->chunk, PLAN_LOAD);
        if (ends && m == plan->moment_count)
            append(actions, 0, PLAN_WAIT);
        plan->first_action[m + 1] = actions->len;
    }
    g_free(plan->actions);
    plan->action_count = actions->len;
    plan->actions = (struct plan_action *)(void *)g_array_free(actions, FALSE);
}

/* Chunks that stay on the host come first, then the ring, then staging. */
static void give_addresses(struct plan *plan, const GArray *chosen, uint64_t ring_bytes)
{
    uint64_t staging = plan->host_pool_bytes - plan->staging_address, address = 0;
    plan->nvme_address = g_new(uint64_t, plan->layout->chunk_count);
    memset(plan->nvme_address, 0xff, plan->layout->chunk_count * sizeof *plan->nvme_address);
    for (uint32_t i = 0; i < chosen->len; i++) {
        plan->nvme_address[tenant_at(chosen, i)->chunk] = plan->nvme_bytes;
        plan->nvme_bytes += tenant_at(chosen, i)->bytes;
    }
    for (chunk_id c = 0; c < plan->layout->chunk_count; c++)
        if (plan->host_address[c] != NO_ADDRESS && !plan_in_nvme(plan, c)) {
            plan->host_address[c] = address;
            address += plan->layout->chunks[c].copy_bytes;
        }
    address = (address + PLAN_NVME_ALIGNMENT - 1) / PLAN_NVME_ALIGNMENT * PLAN_NVME_ALIGNMENT;
    for (uint32_t i = 0; i < chosen->len; i++)
        plan->host_address[tenant_at(chosen, i)->chunk] = address +
                                                          tenant_at(chosen, i)->host_address;
    plan->staging_address = address + ring_bytes;
    plan->host_pool_bytes = plan->staging_address + staging;
}

static void predict(struct plan *plan)
{
    plan->predicted.nvme_read_bytes = plan->predicted.nvme_write_bytes = plan->nvme_bytes;
    plan->predicted.peak_nvme_bytes = plan->nvme_bytes;
    plan->predicted.peak_host_bytes = plan->host_pool_bytes;
}

bool nvme_homes_give(struct plan *plan, const struct trace *trace, const struct accesses *accesses,
                     const struct nvme_budget *budget, GError **error)
{
    g_autoptr(GArray) tenants = NULL, chosen = g_array_new(FALSE, FALSE, sizeof(struct tenant));
    bool limited = budget->host_bytes != UINT64_MAX;
    g_assert(!plan->nvme_address && !plan->certificate);
    if (!budget->buffers && limited && plan->host_pool_bytes <= budget->host_bytes)
        return true;
    tenants = find_tenants(plan, accesses);
    if (!tenants->len && budget->buffers && plan->host_pool_bytes <= budget->host_bytes)
        return true;
    if (!tenants->len)
        return refuse(error, "NVMe: it holds optimizer states that are updated on the host, and "
                             "this plan has none; --host-update puts all updates there");
    struct nvme_choice choice = {plan, tenants, chosen, first_backward(trace)};
    uint64_t ring = budget->buffers ? choose_buffers(&choice, budget, error)
                    : limited       ? choose_fewest(&choice, budget, error)
                                    : choose_most(&choice, budget, error);
    if (!ring)
        return false;
    give_addresses(plan, chosen, ring);
    add_actions(plan, chosen, budget->buffers > 0);
    predict(plan);
    plan->host_budget = budget->host_bytes;
    plan->nvme_block_bytes = budget->block_bytes;
    plan->nvme_depth = budget->depth;
    return true;
}
