#include "chunks/plan.h"

#include "chunks/arena.h"
#include "chunks/gathering.h"
#include "chunks/homes.h"
#include "chunks/residency/residency_state.h"

/* Sets PLAN_ERROR_INVALID with "plan: " and the reason. Returns false. */
G_GNUC_PRINTF(2, 3)
static bool plan_refuse(GError **error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    g_autofree char *reason = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID, "%s", reason);
    return false;
}

/* ---- the layout ---- */

struct extent {
    uint32_t chunk, place;
    uint64_t begin, end;
};

static int by_address(const void *left, const void *right)
{
    const struct extent *a = left, *b = right;
    if (a->chunk != b->chunk)
        return a->chunk < b->chunk ? -1 : 1;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->end < b->end ? -1 : a->end > b->end; /* a tensor that the list lacks takes nothing */
}

static bool check_place(const struct layout *layout, const struct trace *trace, int list,
                        tensor_id tensor, uint32_t block, struct extent *extent, GError **error)
{
    uint32_t index = layout_place_index(layout, list, tensor, block);
    const struct layout_place *place = &layout->places[list][index];
    uint64_t bytes = trace_block_bytes(trace, list, tensor, block);
    if (place->chunk >= layout->chunk_count || layout->chunks[place->chunk].list != list ||
        place->offset % LAYOUT_ALIGNMENT ||
        place->offset > layout->chunks[place->chunk].copy_bytes ||
        bytes > layout->chunks[place->chunk].copy_bytes - place->offset)
        return plan_refuse(error, "layout: tensor %s does not lie in chunk %u of list %s",
                           trace->tensors[tensor].name, place->chunk, trace_list_name(list));
    *extent = (struct extent){place->chunk, index, place->offset, place->offset + bytes};
    return true;
}

static bool check_list(const struct layout *layout, const struct trace *trace, int list,
                       GError **error)
{
    if (!trace->list_element_bytes[list] != !layout->places[list])
        return plan_refuse(error, "layout: list %s is %s", trace_list_name(list),
                           layout->places[list] ? "not part of this run" : "missing");
    if (!layout->places[list])
        return true;
    uint32_t places = layout_place_count(layout, list), next = 0;
    g_autofree struct extent *extents = g_new(struct extent, places);
    for (uint32_t t = 0; t < layout->tensor_count; t++)
        for (uint32_t b = 0; b < trace_blocks(trace, list, t); b++)
            if (!check_place(layout, trace, list, t, b, &extents[next++], error))
                return false;
    qsort(extents, places, sizeof *extents, by_address);
    for (uint32_t i = 1; i < places; i++)
        if (extents[i].chunk == extents[i - 1].chunk && extents[i].begin < extents[i - 1].end) {
            g_autofree char *one = layout_place_name(layout, trace, list, extents[i - 1].place);
            g_autofree char *other = layout_place_name(layout, trace, list, extents[i].place);
            return plan_refuse(error, "layout: tensors %s and %s overlap in chunk %u", one, other,
                               extents[i].chunk);
        }
    return true;
}

/* Checks that the layout has the trace's blocks. */
static bool check_blocks(const struct layout *layout, const struct trace *trace, GError **error)
{
    for (uint32_t t = 0; t < layout->tensor_count; t++) {
        uint32_t first = layout_place_index(layout, TRACE_MASTER, t, 0);
        uint32_t blocks = layout_place_index(layout, TRACE_MASTER, t + 1, 0) - first;
        if (blocks != trace_blocks(trace, TRACE_MASTER, t))
            return plan_refuse(error, "layout: tensor %s has %u state blocks, but %u in the run",
                               trace->tensors[t].name, blocks,
                               trace_blocks(trace, TRACE_MASTER, t));
    }
    return true;
}

/* Checks that the chunk is one of activations, and that the buffer fills it. */
static bool check_buffer(const struct layout *layout, const struct trace *trace, uint32_t buffer,
                         GError **error)
{
    const struct layout_place *place = &layout->places[TRACE_ACTIVATION][buffer];
    if (place->chunk < layout->chunk_count && !place->offset &&
        layout->chunks[place->chunk].list == TRACE_ACTIVATION &&
        layout_align(trace->buffers[buffer].bytes) == layout->chunks[place->chunk].copy_bytes)
        return true;
    return plan_refuse(error, "layout: buffer %s does not fill its chunk",
                       trace->buffers[buffer].name);
}

static bool check_buffers(const struct layout *layout, const struct trace *trace, GError **error)
{
    g_autofree uint8_t *held = trace_held_buffers(trace);
    g_autofree uint32_t *until = g_new0(uint32_t, layout->chunk_count);
    if (layout->buffer_count != (held ? trace->buffer_count : 0))
        return plan_refuse(error, "layout: the buffers in chunks are not those of the run");
    for (uint32_t b = 0; b < layout->buffer_count; b++) {
        chunk_id chunk = layout->places[TRACE_ACTIVATION][b].chunk;
        if (!held[b] && chunk != NO_INDEX)
            return plan_refuse(error,
                               "layout: buffer %s is in a chunk, but must not be in this run",
                               trace->buffers[b].name);
        if (!held[b])
            continue;
        if (!check_buffer(layout, trace, b, error))
            return false;
        if (trace->buffers[b].first < until[chunk])
            return plan_refuse(
                error, "layout: buffer %s shares chunk %u with a buffer that is still alive",
                trace->buffers[b].name, chunk);
        until[chunk] = trace->buffers[b].last + 1;
    }
    return true;
}

/* Checks that every group has one chunk of the coarsest list, without continuations, or is one
 * chunk of buffers. */
static bool check_heads(const struct layout *layout, int coarse, GError **error)
{
    g_autofree uint8_t *continues = layout_continuations(layout);
    g_autofree uint32_t *head = g_new0(uint32_t, layout->group_count); /* chunk + 1 */

    for (uint32_t c = 0; c < layout->chunk_count; c++) {
        uint32_t group = layout->chunks[c].group;
        if ((layout->chunks[c].list != coarse && layout->chunks[c].list != TRACE_ACTIVATION) ||
            continues[c])
            continue;
        if (head[group])
            return plan_refuse(error, "layout: chunks %u and %u must not be in the same group",
                               head[group] - 1, c);
        head[group] = c + 1;
    }
    return true;
}

static uint32_t group_at(const struct layout *layout, int list, tensor_id tensor, uint32_t block)
{
    uint32_t place = layout_place_index(layout, list, tensor, block);
    return layout->chunks[layout->places[list][place].chunk].group;
}

/* Checks that a cut tensor shares its group with no other. */
static bool check_cut(const struct layout *layout, const struct trace *trace, int coarse,
                      GError **error)
{
    g_autofree uint32_t *tensors = g_new0(uint32_t, layout->group_count);
    for (uint32_t t = 0; trace->state_block && t < layout->tensor_count; t++)
        tensors[group_at(layout, coarse, t, 0)]++;
    for (uint32_t t = 0; trace->state_block && t < layout->tensor_count; t++)
        if (trace_is_cut(trace, t) && tensors[group_at(layout, coarse, t, 0)] > 1)
            return plan_refuse(error, "layout: tensor %s is cut, but not alone in its group",
                               trace->tensors[t].name);
    return true;
}

/* Checks that all chunks that hold a tensor are in one group, whose optimizer runs in one place. */
static bool check_groups(const struct layout *layout, const struct trace *trace, GError **error)
{
    int coarse = layout_coarsest_list(layout);

    for (int list = 0; list < TRACE_LISTS; list++)
        for (uint32_t t = 0; layout->places[list] && t < layout->tensor_count; t++)
            for (uint32_t b = 0; b < trace_blocks(trace, list, t); b++)
                if (group_at(layout, list, t, b) != group_at(layout, coarse, t, 0))
                    return plan_refuse(error, "layout: the chunks of tensor %s are in two groups",
                                       trace->tensors[t].name);
    return check_cut(layout, trace, coarse, error) && check_heads(layout, coarse, error);
}

bool plan_check_layout(const struct plan *plan, const struct trace *trace, GError **error)
{
    const struct layout *layout = plan->layout;
    if (layout->tensor_count != trace->tensor_count)
        return plan_refuse(error, "layout: it has %u tensors, but the run has %u",
                           layout->tensor_count, trace->tensor_count);
    if (!check_blocks(layout, trace, error))
        return false;
    for (uint32_t c = 0; c < layout->chunk_count; c++)
        if (!layout->chunks[c].copy_bytes ||
            layout->chunks[c].copy_bytes > layout->chunks[c].slot_bytes ||
            layout->chunks[c].slot_bytes % LAYOUT_ALIGNMENT ||
            layout->chunks[c].copy_bytes % LAYOUT_ALIGNMENT)
            return plan_refuse(error,
                               "layout: chunk %u: %" G_GUINT64_FORMAT " of %" G_GUINT64_FORMAT
                               " bytes used",
                               c, layout->chunks[c].copy_bytes, layout->chunks[c].slot_bytes);
    for (int list = 0; list < TRACE_LISTS; list++)
        if (!check_list(layout, trace, list, error))
            return false;
    return check_groups(layout, trace, error) && check_buffers(layout, trace, error);
}

/* ---- the schedule ---- */

/* The state that an iteration leaves to the next. */
#define ITERATIONS 2

struct check {
    const struct plan *plan;
    const struct trace *trace;
    const struct accesses *accesses;
    enum residency_state *state; /* [chunk_count] */
    enum residency_slot *slot;   /* [chunk_count] of those that are at home in NVMe */
    struct arena *arena;
    struct arena *host;                /* the host pool's slots */
    const struct gathering *gathering; /* NULL if nothing is gathered */
    moment_id moment;
};

static uint64_t slot_bytes(const struct check *check, chunk_id chunk)
{
    return check->plan->layout->chunks[chunk].slot_bytes;
}

static bool refuse_moment(const struct check *check, GError **error, const char *what)
{
    const char *name = check->moment < check->trace->operator_count
                           ? check->trace->operators[check->moment].name
                           : "end of the iteration";
    return plan_refuse(error, "moment %u (%s): %s", check->moment, name, what);
}

static bool change(struct check *check, chunk_id chunk, enum residency_event event, GError **error)
{
    enum residency_state *state = &check->state[chunk];
    bool tiered = plan_in_nvme(check->plan, chunk);
    if (tiered ? residency_tier_next(state, &check->slot[chunk], event)
               : residency_state_next(*state, event, state))
        return true;
    g_autofree char *what = g_strdup_printf("%s of chunk %u, whose bytes are %s%s%s",
                                            residency_event_name(event), chunk,
                                            residency_state_name(*state), tiered ? ", " : "",
                                            tiered ? residency_slot_name(check->slot[chunk]) : "");
    return refuse_moment(check, error, what);
}

static bool settle_at(struct check *check, chunk_id chunk, uint64_t address, GError **error)
{
    uint64_t bytes = slot_bytes(check, chunk), arena = check->plan->arena_bytes;
    if (address % LAYOUT_ALIGNMENT || bytes > arena || address > arena - bytes ||
        !arena_has_room(check->arena, chunk, address)) {
        g_autofree char *what = g_strdup_printf("chunk %u at address %" G_GUINT64_FORMAT
                                                ": taken, unaligned or outside the arena",
                                                chunk, address);
        return refuse_moment(check, error, what);
    }
    arena_put(check->arena, chunk, address);
    return true;
}

/* Returns whether a gather can read the chunk: on the device, or in the host pool. */
static bool is_there(const struct check *check, chunk_id chunk)
{
    return residency_is_whole(check->state[chunk]) &&
           (residency_on_device(check->state[chunk]) || !plan_in_nvme(check->plan, chunk) ||
            check->slot[chunk] == RESIDENCY_SLOT_CLEAN ||
            check->slot[chunk] == RESIDENCY_SLOT_DIRTY);
}

/* A gathered chunk comes from shards that are valid somewhere, and leaves without a copy. */
static bool check_gathered(const struct check *check, const struct plan_action *action,
                           GError **error)
{
    const struct gathering *gathering = check->gathering;
    if (action->kind == PLAN_MOVE || action->kind == PLAN_DROP)
        return true;
    if (action->kind != PLAN_FETCH)
        return refuse_moment(check, error,
                             "a gathered chunk can only be fetched, moved or dropped");
    for (uint32_t p = gathering->first[action->chunk]; p < gathering->first[action->chunk + 1]; p++)
        if (!is_there(check, gathering->parts[p].source))
            return refuse_moment(check, error,
                                 "a chunk is gathered from shards that are not valid");
    return true;
}

/* A chunk that is at home in NVMe takes a slot in the host pool from its load or reservation to its
 * store or release. */
static bool take_host_slot(struct check *check, chunk_id chunk, uint64_t address, GError **error)
{
    uint64_t bytes = check->host->slot_bytes[chunk], end = check->plan->staging_address;
    if (address % PLAN_NVME_ALIGNMENT || bytes > end || address > end - bytes ||
        !arena_has_room(check->host, chunk, address))
        return refuse_moment(check, error,
                             "a slot in the host pool that is taken, unaligned or outside of it");
    arena_put(check->host, chunk, address);
    return true;
}

static bool check_nvme(struct check *check, const struct plan_action *action, GError **error)
{
    chunk_id chunk = action->chunk;
    bool takes = action->kind == PLAN_LOAD || action->kind == PLAN_RESERVE;
    if (!plan_in_nvme(check->plan, chunk))
        return refuse_moment(check, error,
                             "a chunk that is not at home in NVMe is loaded, stored, or given or "
                             "taken a slot");
    if (!change(check, chunk, residency_event_of_action(action->kind), error))
        return false;
    if (takes)
        return take_host_slot(check, chunk, action->address, error);
    arena_take(check->host, chunk);
    return action->address == NO_ADDRESS ||
           refuse_moment(check, error, "a slot in the host pool is left for an address");
}

static bool perform(struct check *check, const struct plan_action *action, GError **error)
{
    chunk_id chunk = action->chunk;
    if (action->kind == PLAN_WAIT)
        return true;
    if (action->kind >= PLAN_LOAD)
        return check_nvme(check, action, error);
    bool enters = action->kind == PLAN_FETCH || action->kind == PLAN_ALLOCATE;
    bool leaves = action->kind == PLAN_WRITE_BACK || action->kind == PLAN_DROP;
    if (check->plan->layout->chunks[chunk].list == TRACE_GATHERED &&
        !check_gathered(check, action, error))
        return false;
    if (plan_is_homed(check->plan, chunk))
        return refuse_moment(check, error,
                             "a chunk that is at home on the device cannot leave its address");
    if (plan_is_transient(check->plan, chunk) &&
        (action->kind == PLAN_FETCH || action->kind == PLAN_WRITE_BACK ||
         action->kind == PLAN_FLUSH))
        return refuse_moment(check, error, "a chunk without a host address cannot be copied");
    if (!change(check, chunk, residency_event_of_action(action->kind), error))
        return false;
    if (leaves || action->kind == PLAN_MOVE)
        arena_take(check->arena, chunk);
    if (enters || action->kind == PLAN_MOVE)
        return settle_at(check, chunk, action->address, error);
    return action->address == check->arena->address[chunk] ||
           refuse_moment(check, error, "an action names an address where its chunk is not");
}

static bool perform_all(struct check *check, GError **error)
{
    const struct plan *plan = check->plan;
    for (uint32_t i = plan->first_action[check->moment]; i < plan->first_action[check->moment + 1];
         i++)
        if (!perform(check, &plan->actions[i], error))
            return false;
    return true;
}

static bool run_operator(struct check *check, GError **error)
{
    const struct accesses *accesses = check->accesses;
    uint32_t m = check->moment;
    uint64_t non_model = accesses->non_model[m];
    if (arena_end(check->arena) + non_model > check->plan->arena_bytes)
        return refuse_moment(check, error, "chunks and non-model data overlap");
    for (uint32_t a = accesses->first[m]; a < accesses->first[m + 1]; a++) {
        const struct chunk_access *access = &accesses->items[a];
        if (!change(check, access->chunk, residency_event_of(access->flags), error))
            return false;
        if (access->flags & ACCESS_LAST && !change(check, access->chunk, RESIDENCY_DIE, error))
            return false;
    }
    return true;
}

static bool run_iteration(struct check *check, GError **error)
{
    const struct plan *plan = check->plan;
    for (check->moment = 0; check->moment < plan->moment_count; check->moment++)
        if (!perform_all(check, error) || !run_operator(check, error))
            return false;
    if (!perform_all(check, error))
        return false;
    if (arena_end(check->arena) + check->accesses->resting > plan->arena_bytes)
        return plan_refuse(error, "chunks and non-model data overlap at the iteration's end");
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++)
        if (check->arena->address[c] != plan->initial_address[c])
            return plan_refuse(error,
                               "chunk %u ends the iteration at another address than it began", c);
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++)
        if (check->slot[c] != RESIDENCY_SLOT_NONE)
            return plan_refuse(error, "chunk %u is not in NVMe at the iteration's end", c);
    return true;
}

/* Returns [chunk_count] the bytes of slots in the host pool; free with g_free. */
static uint64_t *host_slots(const struct plan *plan)
{
    uint64_t *slots = g_new(uint64_t, plan->layout->chunk_count);
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++)
        slots[c] = plan_in_nvme(plan, c) ? plan_nvme_slot(plan->layout, c)
                                         : plan->layout->chunks[c].copy_bytes;
    return slots;
}

/* Puts the chunks that live on the host into the pool. */
static bool check_host_slots(struct check *check, GError **error)
{
    const struct plan *plan = check->plan;
    bool ok = plan->staging_address <= plan->host_pool_bytes &&
              plan->host_pool_bytes <= plan->host_budget;
    for (uint32_t c = 0; ok && c < plan->layout->chunk_count; c++) {
        uint64_t address = plan->host_address[c], bytes = check->host->slot_bytes[c];
        if (address == NO_ADDRESS)
            continue;
        ok = address % LAYOUT_ALIGNMENT == 0 && bytes <= plan->staging_address &&
             address <= plan->staging_address - bytes && arena_has_room(check->host, c, address);
        if (ok)
            arena_put(check->host, c, address);
    }
    return ok || plan_refuse(error, "host slots overlap or lie outside the host pool");
}

/* A plan says nothing about blocks, or what storage can do, for a file that there is. */
static bool check_nvme_blocks(const struct plan *plan, GError **error)
{
    bool says_nothing = !plan->nvme_block_bytes && !plan->nvme_depth;
    return says_nothing ||
           (plan->nvme_bytes && plan_nvme_blocks_fit(plan->nvme_block_bytes, plan->nvme_depth)) ||
           plan_refuse(error,
                       "the file in NVMe cannot be read in blocks of %" G_GUINT64_FORMAT
                       " bytes, %u at a time",
                       plan->nvme_block_bytes, plan->nvme_depth);
}

/* Between iterations, each chunk has room in the host pool. */
static bool check_nvme_room(const struct plan *plan, GError **error)
{
    uint64_t begin = plan_nvme_room(plan), end = plan->staging_address;
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++)
        if (plan_in_nvme(plan, c) && (begin > end || plan_nvme_slot(plan->layout, c) > end - begin))
            return plan_refuse(
                error, "the host pool has no room for chunk %u, which is at home in NVMe", c);
    return true;
}

static bool check_nvme_slots(const struct plan *plan, GError **error)
{
    g_autofree uint64_t *slots = host_slots(plan);
    struct arena *file = arena_new(plan->layout->chunk_count, slots);
    bool ok = true;
    for (uint32_t c = 0; ok && c < plan->layout->chunk_count; c++) {
        if (!plan_in_nvme(plan, c))
            continue;
        uint64_t address = plan->nvme_address[c];
        ok = address % PLAN_NVME_ALIGNMENT == 0 && slots[c] <= plan->nvme_bytes &&
             address <= plan->nvme_bytes - slots[c] && arena_has_room(file, c, address) &&
             plan->host_address[c] == NO_ADDRESS && plan->layout->chunks[c].list != TRACE_GATHERED;
        if (ok)
            arena_put(file, c, address);
    }
    ok = ok && plan->nvme_bytes == arena_end(file);
    arena_free(file);
    return ok || plan_refuse(error, "slots in NVMe overlap, are unaligned or lie outside the file, "
                                    "or do not fill it, or their chunks are gathered or "
                                    "have a slot of their own in the host pool");
}

/* A chunk at home in NVMe comes through the room that slots have at other times. */
static bool fetch_first(struct check *check, chunk_id chunk, GError **error)
{
    check->slot[chunk] = plan_in_nvme(check->plan, chunk) ? RESIDENCY_SLOT_CLEAN
                                                          : RESIDENCY_SLOT_NONE;
    bool fetched = change(check, chunk, RESIDENCY_FETCH, error);
    check->slot[chunk] = RESIDENCY_SLOT_NONE;
    return fetched;
}

static bool begin(struct check *check, GError **error)
{
    const struct plan *plan = check->plan;
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++) {
        bool homed = plan_is_homed(plan, c);
        uint64_t address = plan->initial_address[c];
        uint8_t list = plan->layout->chunks[c].list;
        check->state[c] = residency_state_initial(plan, c);
        if (plan_is_transient(plan, c) && list != TRACE_GRAD && list != TRACE_ACTIVATION)
            return plan_refuse(error, "chunk %u has neither a host address nor a device address",
                               c);
        if (address == NO_ADDRESS)
            continue;
        if (!settle_at(check, c, address, error) || (!homed && !fetch_first(check, c, error)))
            return false;
    }
    return true;
}

static bool check_staging(const struct plan *plan, const struct trace *trace, GError **error)
{
    uint64_t staging = plan->host_pool_bytes - plan->staging_address;
    struct staging needs = staging_of(trace);
    uint64_t needed = needs.bytes;
    staging_clear(&needs);
    return needed <= staging ||
           plan_refuse(error,
                       "the host pool has %" G_GUINT64_FORMAT
                       " bytes of staging, but the run needs %" G_GUINT64_FORMAT,
                       staging, needed);
}

static bool plan_check_schedule(const struct plan *plan, const struct trace *trace,
                                const struct non_model *non_model, GError **error)
{
    uint32_t chunks = plan->layout->chunk_count;
    if (plan->moment_count != trace->operator_count)
        return plan_refuse(error, "the plan has %u moments, but the run has %u", plan->moment_count,
                           trace->operator_count);
    if (plan->arena_bytes > plan->device_budget)
        return plan_refuse(error, "the arena is larger than the budget");
    if (!check_nvme_blocks(plan, error) || !check_nvme_slots(plan, error) ||
        !check_staging(plan, trace, error))
        return false;

    struct accesses *accesses = accesses_new(trace, plan->layout, non_model->extent);
    g_autofree uint64_t *slots = g_new(uint64_t, chunks);
    for (uint32_t c = 0; c < chunks; c++)
        slots[c] = plan->layout->chunks[c].slot_bytes;
    g_autofree uint64_t *pool_slots = host_slots(plan);
    struct gathering *gathering = gathering_new(plan->layout);
    struct check check = {.plan = plan,
                          .gathering = gathering,
                          .trace = trace,
                          .accesses = accesses,
                          .state = g_new0(enum residency_state, chunks),
                          .slot = g_new0(enum residency_slot, chunks),
                          .arena = arena_new(chunks, slots),
                          .host = arena_new(chunks, pool_slots)};
    bool ok = check_host_slots(&check, error) && check_nvme_room(plan, error) &&
              begin(&check, error);
    for (int i = 0; ok && i < ITERATIONS; i++)
        ok = run_iteration(&check, error);
    arena_free(check.arena);
    arena_free(check.host);
    g_free(check.state);
    g_free(check.slot);
    gathering_free(gathering);
    accesses_free(accesses);
    return ok;
}

/* ---- the run that it is for ---- */

static bool differs(GError **error, const char *what, const char *of_plan, const char *of_run)
{
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_OTHER_RUN,
                "the plan was made for another run: %s is %s in the plan, but %s in this run", what,
                of_plan, of_run);
    return false;
}

static bool same_text(GError **error, const char *what, const char *of_plan, const char *of_run)
{
    return !g_strcmp0(of_plan, of_run) ||
           differs(error, what, of_plan ? of_plan : "unknown", of_run ? of_run : "unknown");
}

static bool same_number(GError **error, const char *what, uint32_t of_plan, uint32_t of_run)
{
    g_autofree char *plan_text = g_strdup_printf("%u", of_plan);
    g_autofree char *run_text = g_strdup_printf("%u", of_run);
    return same_text(error, what, plan_text, run_text);
}

/* Fields for people must agree with the digest, which covers them. */
static bool check_head(const struct plan *plan, const struct trace *trace, GError **error)
{
    return same_text(error, "the precision", plan->precision, trace->precision) &&
           same_number(error, "the batch", plan->batch, trace->batch) &&
           same_number(error, "the sequence", plan->sequence, trace->sequence) &&
           same_number(error, "the number of micro-batches", plan->micro_batches,
                       trace->micro_batches) &&
           same_number(error, "the number of ranks", MAX(plan->ranks, 1), MAX(trace->ranks, 1));
}

static bool check_run(const struct plan *plan, const struct trace *trace, GError **error)
{
    g_autofree char *digest = trace_digest(trace);
    if (!g_strcmp0(plan->digest, digest))
        return check_head(plan, trace, error);
    return same_text(error, "the model", plan->model, trace->model) &&
           check_head(plan, trace, error) &&
           same_text(error,
                     "the structure (recomputation, operators on the host, bytes per parameter, "
                     "--train, --state-block, --stage, --delay; of a pipeline --stages, "
                     "--stage-layers, --schedule, --stage-parts, and which stage it is)",
                     plan->digest, digest);
}

static bool check_choices(const struct plan *plan, const struct trace *trace, GError **error)
{
    if (!plan->choices)
        return true;
    struct run_choices *choices = run_choices_of(trace);
    bool same = run_choices_equal(plan->choices, choices);
    run_choices_free(choices);
    return same || plan_refuse(error, "choices: the run recomputes other layers, runs other "
                                      "operators on the host or updates "
                                      "at other times");
}

static bool is_for_trace(const struct plan *plan, const struct trace *trace, GError **error)
{
    return check_run(plan, trace, error) && check_choices(plan, trace, error) &&
           plan_check_layout(plan, trace, error);
}

bool plan_check_placed(const struct plan *plan, const struct trace *trace,
                       const struct non_model *non_model, GError **error)
{
    return is_for_trace(plan, trace, error) && plan_check_schedule(plan, trace, non_model, error);
}

/* Plans for other traces, which are refused, need no placement. */
bool plan_check(const struct plan *plan, const struct trace *trace, GError **error)
{
    if (!is_for_trace(plan, trace, error))
        return false;
    struct non_model *non_model = non_model_place(trace);
    bool ok = plan_check_schedule(plan, trace, non_model, error);
    non_model_free(non_model);
    return ok;
}
