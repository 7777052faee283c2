#include "chunks/residency/residency.h"

#include "chunks/gathering.h"
#include "chunks/homes.h"
#include "chunks/residency/address_map.h"

#include <string.h>

/* A chunk as the manager sees it. */
struct holding {
    enum residency_state state;
    uint64_t address;                   /* on the device; NO_ADDRESS */
    enum residency_slot slot;           /* of a chunk that is at home in NVMe */
    uint64_t host_address;              /* of its slot in the host pool; NO_ADDRESS */
    struct mover_after before_use;      /* its fetch or move, or what its new room waits for */
    struct mover_after before_slot;     /* its load, or what its new slot waits for */
    mover_ticket last_compute;          /* the last operator on the device that used it */
    mover_ticket last_host;             /* the last operator on the host that used it */
    mover_ticket last_d2h;              /* its last write-back or flush */
    mover_ticket last_load, last_store; /* from and to NVMe */
    mover_ticket last_network; /* the last reduction that used it, or gather that read it */
};

/* The last write-back or flush of a chunk that is copied in parts. */
struct written {
    mover_ticket parts[COPY_PARTS];
};

struct residency {
    const struct plan *plan;
    const struct accesses *accesses;
    const struct trace *trace;
    const struct mover_ops *ops;
    void *mover;
    struct holding *holdings; /* [chunk_count] */
    struct written *written;  /* [chunk_count]; NULL if the plan cuts nothing */
    uint8_t *flushed;         /* [chunk_count] enum residency_state after the last flush */
    struct address_map *map;
    struct address_map *host_map; /* of the slots of chunks that are at home in NVMe */
    uint64_t room;                /* where the next of them has its slot between iterations */
    struct staging staging;
    struct gathering *gathering;        /* NULL if nothing is gathered */
    struct mover_shard *shards;         /* [tensor_count] of the chunk that is being gathered */
    uint64_t non_model;                 /* the extent at the last operator */
    struct mover_after non_model_ready; /* what the room of non-model data waits for */
    mover_ticket last_compute, last_host;
    mover_ticket last_gradient;           /* the last operator on the device before the update */
    mover_ticket reduced, reduced_before; /* the last reduction, and the one before it */
    struct mover_after copies;            /* the last copy of each direction */
    struct mover_after awaited;           /* what the next operator waits for in addition */
    mover_ticket activations_from_host;   /* the last host operator that sent activations */
    mover_ticket
        staged[STAGING_PLACES]; /* the last operator that sent or received activations there */
    mover_ticket received;      /* the last copy to a host operator that received activations */
};

struct residency *residency_new(const struct plan *plan, const struct accesses *accesses,
                                const struct trace *trace, const struct mover_ops *ops, void *mover)
{
    struct residency *r = g_new0(struct residency, 1);
    r->plan = plan;
    r->accesses = accesses;
    r->trace = trace;
    r->ops = ops;
    r->mover = mover;
    r->holdings = g_new0(struct holding, plan->layout->chunk_count);
    if (plan->cut_from_bytes)
        r->written = g_new0(struct written, plan->layout->chunk_count);
    r->flushed = g_new0(uint8_t, plan->layout->chunk_count);
    r->map = address_map_new();
    r->host_map = address_map_new();
    r->staging = staging_of(trace);
    r->gathering = gathering_new(plan->layout);
    r->shards = g_new(struct mover_shard, plan->layout->tensor_count);
    for (uint32_t c = 0; c < plan->layout->chunk_count; c++) {
        r->holdings[c].state = residency_state_initial(plan, c);
        r->holdings[c].address = plan_is_homed(plan, c) ? plan->initial_address[c] : NO_ADDRESS;
        r->holdings[c].host_address = plan->host_address[c];
    }
    r->room = plan_nvme_room(plan);
    return r;
}

void residency_free(struct residency *r)
{
    if (!r)
        return;
    address_map_free(r->map);
    address_map_free(r->host_map);
    staging_clear(&r->staging);
    gathering_free(r->gathering);
    g_free(r->shards);
    g_free(r->holdings);
    g_free(r->written);
    g_free(r->flushed);
    g_free(r);
}

static void change(struct residency *r, chunk_id chunk, enum residency_event event)
{
    struct holding *h = &r->holdings[chunk];
    bool tiered = plan_in_nvme(r->plan, chunk);
    bool legal = tiered ? residency_tier_next(&h->state, &h->slot, event)
                        : residency_state_next(h->state, event, &h->state);
    if (!legal)
        g_error("chunk %u: %s while %s%s%s", chunk, residency_event_name(event),
                residency_state_name(h->state), tiered ? ", " : "",
                tiered ? residency_slot_name(h->slot) : "");
}

static struct mover_copy copy_of(const struct residency *r, chunk_id chunk, uint64_t address)
{
    return (struct mover_copy){
        .chunk = chunk,
        .device_address = address,
        .host_address = r->holdings[chunk].host_address,
        .nvme_address = plan_in_nvme(r->plan, chunk) ? r->plan->nvme_address[chunk] : NO_ADDRESS,
        .slot_bytes = r->plan->layout->chunks[chunk].slot_bytes,
        .copy_bytes = r->plan->layout->chunks[chunk].copy_bytes};
}

static bool is_cut(const struct residency *r, chunk_id chunk)
{
    return copy_is_cut(r->plan->cut_from_bytes, r->plan->layout->chunks[chunk].copy_bytes);
}

static struct mover_copy part_of(const struct mover_copy *whole, uint32_t part)
{
    struct mover_copy copy = *whole;
    copy.offset = copy_part_offset(whole->copy_bytes, part);
    copy.copy_bytes = copy_part_bytes(whole->copy_bytes, part);
    copy.part = part;
    return copy;
}

static uint64_t slot_bytes(const struct residency *r, chunk_id chunk)
{
    return r->plan->layout->chunks[chunk].slot_bytes;
}

/* Adds what a gather waits for before it reads the rank's shard, and says where that is. */
static struct mover_shard shard_of_part(struct residency *r, const struct gathering_part *part,
                                        uint64_t chunk_address, struct mover_after *after)
{
    struct holding *source = &r->holdings[part->source];
    bool on_device = residency_on_device(source->state);
    uint64_t address = on_device ? source->address : source->host_address;
    if (!residency_is_whole(source->state))
        g_error("chunk %u: gathered from while %s", part->source,
                residency_state_name(source->state));
    mover_after_merge(after, on_device ? &source->before_use : &source->before_slot);
    after->queue[MOVER_COMPUTE] = MAX(after->queue[MOVER_COMPUTE], source->last_compute);
    after->queue[MOVER_D2H] = MAX(after->queue[MOVER_D2H], source->last_d2h);
    after->queue[MOVER_HOST] = MAX(after->queue[MOVER_HOST], source->last_host);
    return (struct mover_shard){.tensor = part->tensor,
                                .whole_address = chunk_address + part->offset,
                                .on_device = on_device,
                                .shard_address = address + part->shard_offset};
}

static void gather(struct residency *r, chunk_id chunk, uint64_t address)
{
    struct holding *h = &r->holdings[chunk];
    uint32_t first = r->gathering->first[chunk], end = r->gathering->first[chunk + 1];
    struct mover_gather gather = {.to = copy_of(r, chunk, address), .shards = r->shards};
    struct mover_after after = {.queue = {0}};
    change(r, chunk, RESIDENCY_FETCH);
    for (uint32_t p = first; p < end; p++)
        r->shards[gather.shard_count++] = shard_of_part(r, &r->gathering->parts[p], address,
                                                        &after);
    address_map_take(r->map, address, address + gather.to.slot_bytes, &after);
    h->address = address;
    mover_ticket ticket = r->ops->gather(r->mover, &gather, &after);
    h->before_use = (struct mover_after){.queue = {[MOVER_NETWORK] = ticket}};
    r->copies.queue[MOVER_NETWORK] = ticket;
    for (uint32_t p = first; p < end; p++)
        r->holdings[r->gathering->parts[p].source].last_network = ticket;
}

static bool is_gathered(const struct residency *r, chunk_id chunk)
{
    return r->plan->layout->chunks[chunk].list == TRACE_GATHERED;
}

static mover_ticket fetch_whole(struct residency *r, const struct mover_copy *copy,
                                struct mover_after *after)
{
    uint64_t address = copy->device_address;
    address_map_take(r->map, address, address + copy->slot_bytes, after);
    return r->ops->fetch(r->mover, copy, after);
}

static mover_ticket fetch_in_parts(struct residency *r, const struct mover_copy *whole,
                                   const struct mover_after *ready)
{
    uint64_t address = whole->device_address;
    struct mover_after after[COPY_PARTS];
    mover_ticket ticket = 0;
    for (uint32_t p = 0; p < COPY_PARTS; p++)
        after[p] = *ready;
    address_map_take_in_parts(r->map, address, address + whole->slot_bytes, whole->copy_bytes,
                              after);
    for (uint32_t p = 0; p < COPY_PARTS; p++) {
        const struct mover_copy copy = part_of(whole, p);
        ticket = r->ops->fetch(r->mover, &copy, &after[p]);
    }
    return ticket;
}

static void fetch(struct residency *r, chunk_id chunk, uint64_t address)
{
    if (is_gathered(r, chunk)) {
        gather(r, chunk, address);
        return;
    }
    struct holding *h = &r->holdings[chunk];
    struct mover_after after = {.queue = {[MOVER_D2H] = h->last_d2h, [MOVER_HOST] = h->last_host}};
    struct mover_copy copy = copy_of(r, chunk, address);
    change(r, chunk, RESIDENCY_FETCH);
    mover_after_merge(&after, &h->before_slot);
    h->address = address;
    r->copies.queue[MOVER_H2D] = is_cut(r, chunk) ? fetch_in_parts(r, &copy, &after)
                                                  : fetch_whole(r, &copy, &after);
    h->before_use = (struct mover_after){.queue = {[MOVER_H2D] = r->copies.queue[MOVER_H2D]}};
}

static void allocate(struct residency *r, chunk_id chunk, uint64_t address)
{
    struct holding *h = &r->holdings[chunk];
    struct mover_copy copy = copy_of(r, chunk, address);
    change(r, chunk, RESIDENCY_ALLOCATE);
    h->before_use = (struct mover_after){.queue = {0}};
    address_map_take(r->map, address, address + copy.slot_bytes, &h->before_use);
    h->address = address;
    r->ops->allocate(r->mover, &copy);
}

/* Returns everything that still reads or writes the chunk's room. */
static struct mover_after users_of(const struct holding *h)
{
    struct mover_after after = h->before_use;
    after.queue[MOVER_COMPUTE] = MAX(after.queue[MOVER_COMPUTE], h->last_compute);
    after.queue[MOVER_D2H] = MAX(after.queue[MOVER_D2H], h->last_d2h);
    after.queue[MOVER_NETWORK] = MAX(after.queue[MOVER_NETWORK], h->last_network);
    return after;
}

static void leave_room(struct residency *r, chunk_id chunk)
{
    struct holding *h = &r->holdings[chunk];
    uint64_t address = h->address, end = address + slot_bytes(r, chunk);
    const struct mover_after after = users_of(h);
    h->address = NO_ADDRESS;
    /* What was allocated and not used yet may still wait for an earlier write-back from there. */
    if (is_cut(r, chunk) && after.queue[MOVER_D2H] == h->last_d2h) {
        struct address_leaving leaving = {address, r->plan->layout->chunks[chunk].copy_bytes, {0}};
        memcpy(leaving.written, r->written[chunk].parts, sizeof leaving.written);
        address_map_release(r->map, address, end, &after, &leaving);
    } else {
        address_map_release(r->map, address, end, &after, NULL);
    }
}

/* Returns the ticket of the last part. Each part waits for the same. */
static mover_ticket write_back_in_parts(struct residency *r, const struct mover_copy *whole,
                                        bool leaves, const struct mover_after *after)
{
    struct written *written = &r->written[whole->chunk];
    for (uint32_t p = 0; p < COPY_PARTS; p++) {
        const struct mover_copy copy = part_of(whole, p);
        written->parts[p] = r->ops->write_back(r->mover, &copy, leaves && p + 1 == COPY_PARTS,
                                               after);
    }
    return written->parts[COPY_PARTS - 1];
}

/* Copies the chunk to the host, after operators there that may still read the host's copy. */
static void copy_to_host(struct residency *r, chunk_id chunk, bool leaves)
{
    struct holding *h = &r->holdings[chunk];
    struct mover_after after = users_of(h);
    struct mover_copy copy = copy_of(r, chunk, h->address);
    after.queue[MOVER_HOST] = MAX(after.queue[MOVER_HOST], h->last_host);
    mover_after_merge(&after, &h->before_slot);
    change(r, chunk, leaves ? RESIDENCY_WRITE_BACK : RESIDENCY_FLUSH);
    h->last_d2h = r->copies.queue[MOVER_D2H] =
        is_cut(r, chunk) ? write_back_in_parts(r, &copy, leaves, &after)
                         : r->ops->write_back(r->mover, &copy, leaves, &after);
    if (leaves)
        leave_room(r, chunk);
}

static void drop(struct residency *r, chunk_id chunk)
{
    change(r, chunk, RESIDENCY_DROP);
    leave_room(r, chunk);
    r->ops->drop(r->mover, chunk);
}

static void move(struct residency *r, chunk_id chunk, uint64_t address)
{
    struct holding *h = &r->holdings[chunk];
    uint64_t bytes = slot_bytes(r, chunk), from = h->address;
    struct mover_after after = users_of(h);
    struct mover_copy copy = copy_of(r, chunk, address);
    change(r, chunk, RESIDENCY_MOVE);
    address_map_take(r->map, address, address + bytes, &after);
    h->last_compute = r->ops->move(r->mover, &copy, from, &after);
    h->before_use = (struct mover_after){.queue = {[MOVER_COMPUTE] = h->last_compute}};
    h->address = address;
    /* Releases what the old room has beyond the new one: the part below it, the part above it, or
     * all. */
    struct mover_after left = users_of(h);
    address_map_release(r->map, from, MIN(from + bytes, MAX(from, address)), &left, NULL);
    address_map_release(r->map, MAX(from, MIN(from + bytes, address + bytes)), from + bytes, &left,
                        NULL);
}

/* ---- slots in the host pool of chunks that are at home in NVMe ---- */

/* Takes the slot, which may wait for its former chunk. */
static void take_slot(struct residency *r, chunk_id chunk, uint64_t address)
{
    struct holding *h = &r->holdings[chunk];
    h->before_slot = (struct mover_after){.queue = {0}};
    h->host_address = address;
    address_map_take(r->host_map, address, address + plan_nvme_slot(r->plan->layout, chunk),
                     &h->before_slot);
}

static void load(struct residency *r, chunk_id chunk, uint64_t address)
{
    struct holding *h = &r->holdings[chunk];
    change(r, chunk, RESIDENCY_LOAD);
    take_slot(r, chunk, address);
    struct mover_after after = h->before_slot;
    after.queue[MOVER_NVME_WRITE] = MAX(after.queue[MOVER_NVME_WRITE], h->last_store);
    const struct mover_copy copy = copy_of(r, chunk, NO_ADDRESS);
    h->last_load = r->copies.queue[MOVER_NVME_READ] = r->ops->load(r->mover, &copy, &after);
    h->before_slot = (struct mover_after){.queue = {[MOVER_NVME_READ] = h->last_load}};
}

static void reserve(struct residency *r, chunk_id chunk, uint64_t address)
{
    change(r, chunk, RESIDENCY_RESERVE);
    take_slot(r, chunk, address);
}

/* Returns everything that still reads or writes the chunk's slot, apart from its store. */
static struct mover_after users_of_slot(const struct holding *h)
{
    struct mover_after after = users_of(h);
    after.queue[MOVER_HOST] = MAX(after.queue[MOVER_HOST], h->last_host);
    mover_after_merge(&after, &h->before_slot);
    return after;
}

static void leave_slot(struct residency *r, chunk_id chunk, const struct mover_after *after)
{
    struct holding *h = &r->holdings[chunk];
    address_map_release(r->host_map, h->host_address,
                        h->host_address + plan_nvme_slot(r->plan->layout, chunk), after, NULL);
    h->host_address = NO_ADDRESS;
    h->before_slot = (struct mover_after){.queue = {0}};
}

/* The file may still be read for an earlier load. */
static void store(struct residency *r, chunk_id chunk)
{
    struct holding *h = &r->holdings[chunk];
    struct mover_after after = {.queue = {[MOVER_HOST] = h->last_host,
                                          [MOVER_D2H] = h->last_d2h,
                                          [MOVER_NVME_READ] = h->last_load}};
    struct mover_after left = users_of_slot(h);
    const struct mover_copy copy = copy_of(r, chunk, NO_ADDRESS);
    change(r, chunk, RESIDENCY_STORE);
    h->last_store = r->copies.queue[MOVER_NVME_WRITE] = r->ops->store(r->mover, &copy, &after);
    left.queue[MOVER_NVME_WRITE] = h->last_store;
    leave_slot(r, chunk, &left);
}

static void release(struct residency *r, chunk_id chunk)
{
    const struct mover_after left = users_of_slot(&r->holdings[chunk]);
    change(r, chunk, RESIDENCY_RELEASE);
    leave_slot(r, chunk, &left);
}

static void perform(struct residency *r, const struct plan_action *action)
{
    switch ((enum plan_action_kind)action->kind) {
    case PLAN_FETCH:
        fetch(r, action->chunk, action->address);
        break;
    case PLAN_ALLOCATE:
        allocate(r, action->chunk, action->address);
        break;
    case PLAN_WRITE_BACK:
        copy_to_host(r, action->chunk, true);
        break;
    case PLAN_FLUSH:
        copy_to_host(r, action->chunk, false);
        break;
    case PLAN_DROP:
        drop(r, action->chunk);
        break;
    case PLAN_MOVE:
        move(r, action->chunk, action->address);
        break;
    case PLAN_WAIT:
        r->awaited = r->copies;
        r->awaited.queue[MOVER_D2H] = MAX(r->awaited.queue[MOVER_D2H], r->received);
        r->awaited.queue[MOVER_HOST] = r->last_host;
        break;
    case PLAN_LOAD:
        load(r, action->chunk, action->address);
        break;
    case PLAN_RESERVE:
        reserve(r, action->chunk, action->address);
        break;
    case PLAN_STORE:
        store(r, action->chunk);
        break;
    case PLAN_RELEASE:
        release(r, action->chunk);
        break;
    case PLAN_ACTIONS:
        g_assert_not_reached();
    }
}

static void perform_all(struct residency *r, uint32_t index)
{
    for (uint32_t i = r->plan->first_action[index]; i < r->plan->first_action[index + 1]; i++)
        perform(r, &r->plan->actions[i]);
}

/* Non-model data gives room back for the copies that the next moment's actions start. Operators on
 * the host use non-model data only as activations, so the next user of the room does not wait for
 * their updates. */
static void shrink_non_model(struct residency *r, uint64_t extent)
{
    uint64_t top = r->plan->arena_bytes;
    struct mover_after users = {.queue = {[MOVER_COMPUTE] = r->last_compute,
                                          [MOVER_D2H] = r->received,
                                          [MOVER_HOST] = r->activations_from_host,
                                          [MOVER_NETWORK] = r->reduced}};
    if (extent >= r->non_model)
        return;
    address_map_release(r->map, top - r->non_model, top - extent, &users, NULL);
    r->non_model = extent;
}

/* Non-model data grows down from the top of the arena, after the actions have made room. Every
 * operator that uses the room waits for its former users, not only the operator that takes it,
 * because the next one may run in another queue. */
static void grow_non_model(struct residency *r, uint64_t extent, struct mover_after *after)
{
    uint64_t top = r->plan->arena_bytes;
    if (extent > r->non_model)
        address_map_take(r->map, top - extent, top - r->non_model, &r->non_model_ready);
    r->non_model = extent;
    if (extent)
        mover_after_merge(after, &r->non_model_ready);
}

static void wait_for_chunk(const struct residency *r, const struct chunk_access *access,
                           struct mover_after *after)
{
    const struct holding *h = &r->holdings[access->chunk];
    bool writes = access->flags & ACCESS_WRITES;
    after->queue[MOVER_NETWORK] = MAX(after->queue[MOVER_NETWORK], h->last_network);
    if (access->flags & ACCESS_ON_HOST) {
        after->queue[MOVER_D2H] = MAX(after->queue[MOVER_D2H], h->last_d2h);
        mover_after_merge(after, &h->before_slot);
        if (writes) /* a fetch may still be reading */
            mover_after_merge(after, &h->before_use);
    } else {
        mover_after_merge(after, &h->before_use);
        if (writes) /* a flush may still be reading */
            after->queue[MOVER_D2H] = MAX(after->queue[MOVER_D2H], h->last_d2h);
    }
}

/* One reduction may be under way while backward goes on: the next one keeps its buffers alive, and
 * whoever comes after that one waits for it. */
static mover_ticket awaited_reduction(const struct residency *r, const struct trace_operator *op)
{
    bool in_backward = op->phase == TRACE_BACKWARD && op->place == TRACE_ON_DEVICE;
    return in_backward ? r->reduced_before : r->reduced;
}

/* Notes that the operator uses the chunk, in the queue of the ticket. */
static void note_use(struct residency *r, chunk_id chunk, enum mover_queue queue,
                     mover_ticket ticket)
{
    struct holding *h = &r->holdings[chunk];
    *(queue == MOVER_HOST      ? &h->last_host
      : queue == MOVER_NETWORK ? &h->last_network
                               : &h->last_compute) = ticket;
}

static void note_operator(struct residency *r, const struct trace_operator *op,
                          enum mover_queue queue, mover_ticket ticket)
{
    if (queue == MOVER_NETWORK) {
        r->reduced_before = r->reduced;
        r->reduced = ticket;
        return;
    }
    *(queue == MOVER_HOST ? &r->last_host : &r->last_compute) = ticket;
    if (queue == MOVER_COMPUTE && op->phase != TRACE_UPDATE_PHASE)
        r->last_gradient = ticket;
}

static void run(struct residency *r, moment_id moment)
{
    const struct accesses *accesses = r->accesses;
    const struct trace_operator *op = &r->trace->operators[moment];
    bool on_host = op->place == TRACE_ON_HOST, reduces = trace_operator_reduces(op);
    enum mover_queue queue = on_host ? MOVER_HOST : reduces ? MOVER_NETWORK : MOVER_COMPUTE;
    /* A copy to an operator on the host may still be reading what this one overwrites: an embedding
     * on the host has tokens and activations sent to the device. */
    struct mover_after after = {.queue = {[MOVER_D2H] = r->received,
                                          [MOVER_HOST] = r->activations_from_host,
                                          [MOVER_COMPUTE] = reduces ? r->last_compute : 0,
                                          [MOVER_NETWORK] = awaited_reduction(r, op)}};
    bool updates = op->phase == TRACE_UPDATE_PHASE;
    /* A host operator uses activations and the norm of the gradients, which earlier operators
     * computed. It needs no result of the updates on the device. */
    if (on_host)
        after.queue[MOVER_COMPUTE] = updates ? r->last_gradient : r->last_compute;
    /* The operator's input is copied to a place from which an earlier operator may still read. */
    mover_ticket *staged = &r->staged[r->staging.place[moment]];
    if (on_host && op->d2h_bytes)
        after.queue[MOVER_HOST] = MAX(after.queue[MOVER_HOST], *staged);
    mover_after_merge(&after, &r->awaited);
    r->awaited = (struct mover_after){.queue = {0}};
    grow_non_model(r, accesses->non_model[moment], &after);
    for (uint32_t a = accesses->first[moment]; a < accesses->first[moment + 1]; a++) {
        wait_for_chunk(r, &accesses->items[a], &after);
        change(r, accesses->items[a].chunk, residency_event_of(accesses->items[a].flags));
    }
    mover_ticket ticket = r->ops->run(r->mover, moment, &after, &r->received);
    for (uint32_t a = accesses->first[moment]; a < accesses->first[moment + 1]; a++) {
        note_use(r, accesses->items[a].chunk, queue, ticket);
        if (accesses->items[a].flags & ACCESS_LAST)
            change(r, accesses->items[a].chunk, RESIDENCY_DIE);
    }
    note_operator(r, op, queue, ticket);
    if (on_host && op->h2d_bytes)
        r->activations_from_host = ticket;
    if (on_host && (op->h2d_bytes || op->d2h_bytes))
        *staged = ticket;
}

/* Between iterations all room for slots is free. Returns some of it, which the chunk that had it
 * last may not have left yet. */
static uint64_t next_room(struct residency *r, chunk_id chunk)
{
    uint64_t bytes = plan_nvme_slot(r->plan->layout, chunk), address = r->room;
    if (address + bytes > r->plan->staging_address)
        address = plan_nvme_room(r->plan);
    r->room = address + bytes;
    return address;
}

static void load_and_fetch(struct residency *r, chunk_id chunk)
{
    load(r, chunk, next_room(r, chunk));
    fetch(r, chunk, r->plan->initial_address[chunk]);
    release(r, chunk);
}

static void flush_and_store(struct residency *r, chunk_id chunk)
{
    reserve(r, chunk, next_room(r, chunk));
    copy_to_host(r, chunk, false);
    store(r, chunk);
}

void residency_load(struct residency *r)
{
    for (uint32_t c = 0; c < r->plan->layout->chunk_count; c++) {
        if (r->plan->initial_address[c] == NO_ADDRESS || residency_on_device(r->holdings[c].state))
            continue;
        if (plan_in_nvme(r->plan, c))
            load_and_fetch(r, c);
        else
            fetch(r, c, r->plan->initial_address[c]);
    }
}

void residency_step(struct residency *r, moment_id moment)
{
    shrink_non_model(r, r->accesses->non_model[moment]);
    perform_all(r, moment);
    run(r, moment);
    if (moment + 1 == r->plan->moment_count) {
        shrink_non_model(r, r->accesses->resting);
        perform_all(r, moment + 1);
    }
}

void residency_flush(struct residency *r)
{
    for (uint32_t c = 0; c < r->plan->layout->chunk_count; c++) {
        bool changed = r->holdings[c].state == RESIDENCY_DEVICE;
        if (changed && plan_in_nvme(r->plan, c))
            flush_and_store(r, c);
        else if (changed && r->plan->host_address[c] != NO_ADDRESS)
            copy_to_host(r, c, false);
        r->flushed[c] = (uint8_t)r->holdings[c].state;
    }
}

/* Removes a host-homed chunk whose state or address has changed. Its bytes are on the host, or were
 * dead, or are activations of the forward pass, which are not needed any more. */
static void rewind_host_homed(struct residency *r, chunk_id chunk)
{
    struct holding *h = &r->holdings[chunk];
    bool was_empty = r->flushed[chunk] == RESIDENCY_EMPTY;
    bool whole = was_empty ? h->state == RESIDENCY_EMPTY
                           : h->state == RESIDENCY_BOTH || h->state == RESIDENCY_FETCHING;
    if (whole && h->address == r->plan->initial_address[chunk])
        return;
    if (h->state == RESIDENCY_DEVICE)
        change(r, chunk, RESIDENCY_DIE);
    if (residency_on_device(h->state))
        drop(r, chunk);
    h->state = was_empty || r->flushed[chunk] == RESIDENCY_NOWHERE ? RESIDENCY_NOWHERE
                                                                   : RESIDENCY_HOST;
}

/* What forward loaded is read again when it is needed. */
static void rewind_slot(struct residency *r, chunk_id chunk)
{
    struct holding *h = &r->holdings[chunk];
    const struct mover_after left = users_of_slot(h);
    if (h->slot != RESIDENCY_SLOT_NONE)
        leave_slot(r, chunk, &left);
    h->slot = RESIDENCY_SLOT_NONE;
}

void residency_rewind(struct residency *r)
{
    shrink_non_model(r, r->accesses->resting);
    for (uint32_t c = 0; c < r->plan->layout->chunk_count; c++)
        if (plan_is_homed(r->plan, c)) { /* it has its address for ever */
            r->holdings[c].state = (enum residency_state)r->flushed[c];
        } else {
            rewind_host_homed(r, c);
            rewind_slot(r, c);
        }
    for (uint32_t c = 0; c < r->plan->layout->chunk_count; c++)
        if (r->flushed[c] == RESIDENCY_EMPTY && r->holdings[c].state == RESIDENCY_NOWHERE)
            allocate(r, c, r->plan->initial_address[c]);
    residency_load(r);
}

uint64_t residency_host_address(const struct residency *r, chunk_id chunk)
{
    return r->holdings[chunk].host_address;
}

uint64_t residency_address(const struct residency *r, chunk_id chunk)
{
    return r->holdings[chunk].address;
}

enum residency_state residency_state(const struct residency *r, chunk_id chunk)
{
    return r->holdings[chunk].state;
}
