#include "tests/chunks/adversary.h"

#include "chunks/gathering.h"
#include "chunks/parts.h"

/* An eighth of what addresses are multiples of, because chunks may be copied in parts. */
#define GRAIN (LAYOUT_ALIGNMENT / COPY_PARTS)

enum work_kind {
    WORK_FETCH,
    WORK_PLACE,
    WORK_GATHER,
    WORK_WRITE_BACK,
    WORK_MOVE,
    WORK_LOAD,
    WORK_STORE,
    WORK_RECEIVE,
    WORK_RUN
};

/* What an operator must find, as known when it was queued. */
struct operand {
    uint64_t address, host_address;
    uint32_t version;
};

/* A shard that a gather must find, as known when it was queued. */
struct adversary_shard {
    struct mover_shard where;
    chunk_id chunk;
    uint64_t first_grain, grains; /* within the chunk */
    uint32_t version;
};

struct work {
    enum work_kind kind;
    struct mover_after after;
    struct mover_copy copy;
    uint64_t from;
    uint32_t moment;
    uint32_t maker;           /* of what is received: the operator that last wrote activations */
    struct operand *operands; /* [accesses of the moment] */
    struct adversary_shard *shards; /* [shard_count] */
    uint32_t shard_count;
    uint32_t version; /* of the chunk that is gathered */
};

/* What a grain of memory holds: a chunk's version, or garbage. */
struct stamp {
    uint32_t chunk;
    uint32_t version;
    uint64_t grain;
};

struct adversary {
    const struct plan *plan;
    const struct accesses *accesses;
    const struct trace *trace;
    GRand *random;
    GQueue queue[MOVER_QUEUES];
    mover_ticket put[MOVER_QUEUES], done[MOVER_QUEUES];
    mover_ticket fetched;  /* of the last fetch that is not a gather */
    mover_ticket gathered; /* of the last gather */
    struct stamp *device, *host, *nvme;
    uint64_t *address;      /* [chunk_count] as issued */
    uint64_t *host_address; /* [chunk_count] of the slot in the host pool, as issued */
    uint32_t *version;      /* [chunk_count] as issued */
    uint32_t wrong;
    uint32_t maker; /* the last operator that writes activations, as issued */
    struct plan_figures figures;
};

struct adversary *adversary_new(const struct plan *plan, const struct accesses *accesses,
                                const struct trace *trace, GRand *random)
{
    struct adversary *a = g_new0(struct adversary, 1);
    uint32_t chunks = plan->layout->chunk_count;
    a->plan = plan;
    a->accesses = accesses;
    a->trace = trace;
    a->random = random;
    a->device = g_new0(struct stamp, plan->arena_bytes / GRAIN + 1);
    a->host = g_new0(struct stamp, plan->host_pool_bytes / GRAIN + 1);
    a->nvme = g_new0(struct stamp, plan->nvme_bytes / GRAIN + 1);
    a->address = g_new(uint64_t, chunks);
    a->host_address = g_memdup2(plan->host_address, chunks * sizeof *a->host_address);
    a->version = g_new0(uint32_t, chunks);
    for (uint32_t c = 0; c < chunks; c++) {
        bool homed = plan_is_homed(plan, c);
        struct stamp *memory = plan_in_nvme(plan, c) ? a->nvme + plan->nvme_address[c] / GRAIN
                               : homed               ? a->device + plan->initial_address[c] / GRAIN
                                                     : a->host + plan->host_address[c] / GRAIN;
        a->address[c] = homed ? plan->initial_address[c] : NO_ADDRESS;
        if (plan->layout->chunks[c].list == TRACE_GATHERED || plan_is_transient(plan, c))
            continue;
        for (uint64_t g = 0; g < plan->layout->chunks[c].copy_bytes / GRAIN; g++)
            memory[g] = (struct stamp){c, 0, g};
    }
    return a;
}

static void free_work(void *data)
{
    struct work *work = data;
    g_free(work->operands);
    g_free(work->shards);
    g_free(work);
}

void adversary_free(struct adversary *a)
{
    for (int q = 0; q < MOVER_QUEUES; q++)
        g_queue_clear_full(&a->queue[q], free_work);
    g_free(a->device);
    g_free(a->host);
    g_free(a->nvme);
    g_free(a->address);
    g_free(a->host_address);
    g_free(a->version);
    g_free(a);
}

/* Checks the shards on one side. */
static void check_shards(struct adversary *a, const struct work *work, bool on_device)
{
    const struct stamp *memory = on_device ? a->device : a->host;
    for (uint32_t i = 0; i < work->shard_count; i++) {
        const struct adversary_shard *shard = &work->shards[i];
        const struct stamp *at = memory + shard->where.shard_address / GRAIN;
        for (uint64_t g = 0; shard->where.on_device == on_device && g < shard->grains; g++)
            a->wrong += at[g].chunk != shard->chunk || at[g].version != shard->version ||
                        at[g].grain != shard->first_grain + g;
    }
}

static void execute_gather(struct adversary *a, const struct work *work)
{
    struct stamp *device = a->device + work->copy.device_address / GRAIN;
    check_shards(a, work, true);
    for (uint64_t g = 0; g < work->copy.copy_bytes / GRAIN; g++)
        device[g] = (struct stamp){work->copy.chunk, work->version, g};
}

static void check_operand(struct adversary *a, const struct chunk_access *access,
                          const struct operand *operand)
{
    uint32_t chunk = access->chunk;
    if (a->plan->layout->chunks[chunk].list == TRACE_GATHERED && access->flags & ACCESS_ON_HOST)
        return; /* an update, which writes the shards */
    struct stamp *memory = access->flags & ACCESS_ON_HOST ? a->host + operand->host_address / GRAIN
                                                          : a->device + operand->address / GRAIN;
    for (uint64_t g = 0; g < a->plan->layout->chunks[chunk].copy_bytes / GRAIN; g++) {
        bool right = memory[g].chunk == chunk && memory[g].version == operand->version &&
                     memory[g].grain == g;
        if (!right && !(access->flags & ACCESS_FRESH))
            a->wrong++;
        if (access->flags & ACCESS_WRITES)
            memory[g] = (struct stamp){chunk, operand->version + 1, g};
    }
}

/* One on the host writes non-model data only where it sends activations. */
static bool makes_activations(const struct trace_operator *op)
{
    return (op->place == TRACE_ON_DEVICE && !trace_operator_reduces(op)) || op->h2d_bytes;
}

/* Checks that nothing has overwritten what an operator on the host receives. */
static void check_received(struct adversary *a, const struct work *work)
{
    const uint64_t *non_model = a->accesses->non_model;
    uint64_t top = a->plan->arena_bytes / GRAIN;
    uint64_t extent = MIN(non_model[work->moment], non_model[work->maker]) / GRAIN;
    for (uint64_t g = top - extent; g < top; g++)
        if (a->device[g].chunk != NO_INDEX || a->device[g].version != work->maker)
            a->wrong++;
}

static void execute_operator(struct adversary *a, const struct work *work)
{
    uint64_t begin = a->accesses->first[work->moment], end = a->accesses->first[work->moment + 1];
    uint64_t top = a->plan->arena_bytes / GRAIN;
    const struct trace_operator *op = &a->trace->operators[work->moment];
    for (uint64_t i = begin; i < end; i++)
        check_operand(a, &a->accesses->items[i], &work->operands[i - begin]);
    if (!makes_activations(op))
        return;
    for (uint64_t g = top - a->accesses->non_model[work->moment] / GRAIN; g < top; g++)
        a->device[g] = (struct stamp){NO_INDEX, work->moment, g};
}

static void execute(struct adversary *a, const struct work *work)
{
    struct stamp *device = a->device + (work->copy.device_address + work->copy.offset) / GRAIN;
    struct stamp *host = a->host + (work->copy.host_address + work->copy.offset) / GRAIN;
    size_t bytes = work->copy.copy_bytes / GRAIN * sizeof *device;
    switch (work->kind) {
    case WORK_FETCH:
        memcpy(device, host, bytes);
        break;
    case WORK_PLACE:
        check_shards(a, work, false);
        break;
    case WORK_GATHER:
        execute_gather(a, work);
        break;
    case WORK_WRITE_BACK:
        memcpy(host, device, bytes);
        break;
    case WORK_RECEIVE:
        check_received(a, work);
        break;
    case WORK_MOVE:
        memmove(device, a->device + work->from / GRAIN, bytes);
        break;
    case WORK_LOAD:
        memcpy(host, a->nvme + work->copy.nvme_address / GRAIN, bytes);
        break;
    case WORK_STORE:
        memcpy(a->nvme + work->copy.nvme_address / GRAIN, host, bytes);
        break;
    case WORK_RUN:
        execute_operator(a, work);
    }
}

static bool runnable(const struct adversary *a, const struct work *work)
{
    for (int q = 0; q < MOVER_QUEUES; q++)
        if (a->done[q] < work->after.queue[q])
            return false;
    return true;
}

/* Runs one piece of work of a random queue. Returns false if none can run. */
static bool execute_some(struct adversary *a)
{
    int start = g_rand_int_range(a->random, 0, MOVER_QUEUES);
    for (int i = 0; i < MOVER_QUEUES; i++) {
        int q = (start + i) % MOVER_QUEUES;
        struct work *work = g_queue_peek_head(&a->queue[q]);
        if (!work || !runnable(a, work))
            continue;
        execute(a, work);
        a->done[q]++;
        free_work(g_queue_pop_head(&a->queue[q]));
        return true;
    }
    return false;
}

uint32_t adversary_finish(struct adversary *a)
{
    while (execute_some(a))
        continue;
    for (int q = 0; q < MOVER_QUEUES; q++)
        g_assert_true(g_queue_is_empty(&a->queue[q])); /* else tickets wait for each other */
    return a->wrong;
}

static mover_ticket enqueue(struct adversary *a, enum mover_queue queue, const struct work *work)
{
    g_queue_push_tail(&a->queue[queue], g_memdup2(work, sizeof *work));
    mover_ticket ticket = ++a->put[queue];
    while (g_rand_int_range(a->random, 0, 3) == 0)
        execute_some(a);
    return ticket;
}

static mover_ticket fetch(void *self, const struct mover_copy *copy,
                          const struct mover_after *after)
{
    struct adversary *a = self;
    struct work work = {.kind = WORK_FETCH, .after = *after, .copy = *copy};
    a->address[copy->chunk] = copy->device_address;
    a->figures.h2d_bytes += copy->copy_bytes;
    a->figures.h2d_copies += copy->part == 0;
    return a->fetched = enqueue(a, MOVER_H2D, &work);
}

static struct adversary_shard shard_of_test(const struct adversary *a,
                                            const struct mover_shard *shard)
{
    const struct layout_place *place = &a->plan->layout->places[TRACE_PARAM][shard->tensor];
    uint64_t bytes = layout_align(trace_list_bytes(a->trace, TRACE_PARAM, shard->tensor));
    return (struct adversary_shard){*shard, place->chunk, place->offset / GRAIN, bytes / GRAIN,
                                    a->version[place->chunk]};
}

/* Shards on the host are read in the H2D queue, before the network's work. */
static mover_ticket gather(void *self, const struct mover_gather *gather,
                           const struct mover_after *after)
{
    struct adversary *a = self;
    struct gathering_traffic traffic = {0};
    struct work work = {.kind = WORK_PLACE,
                        .after = *after,
                        .copy = gather->to,
                        .shards = g_new(struct adversary_shard, gather->shard_count),
                        .shard_count = gather->shard_count,
                        .version = a->version[gather->to.chunk]};
    for (uint32_t i = 0; i < gather->shard_count; i++) {
        work.shards[i] = shard_of_test(a, &gather->shards[i]);
        gathering_count(&traffic, a->trace, gather->shards[i].tensor, 0,
                        gather->shards[i].on_device);
    }
    a->address[gather->to.chunk] = gather->to.device_address;
    a->figures.gathers++;
    a->figures.h2d_bytes += traffic.link_bytes;
    a->figures.h2d_copies += traffic.link_bytes > 0;
    a->figures.sent_bytes += traffic.exchange.sent_bytes;
    a->figures.received_bytes += traffic.exchange.received_bytes;
    struct work later = work;
    later.shards = g_memdup2(work.shards, work.shard_count * sizeof *work.shards);
    later.kind = WORK_GATHER;
    later.after.queue[MOVER_H2D] = enqueue(a, MOVER_H2D, &work);
    return a->gathered = enqueue(a, MOVER_NETWORK, &later);
}

static mover_ticket write_back(void *self, const struct mover_copy *copy, bool leaves,
                               const struct mover_after *after)
{
    struct adversary *a = self;
    struct work work = {.kind = WORK_WRITE_BACK, .after = *after, .copy = *copy};
    if (leaves)
        a->address[copy->chunk] = NO_ADDRESS;
    a->figures.d2h_bytes += copy->copy_bytes;
    a->figures.d2h_copies += copy->part == 0;
    a->figures.evictions += leaves;
    return enqueue(a, MOVER_D2H, &work);
}

static mover_ticket load(void *self, const struct mover_copy *copy, const struct mover_after *after)
{
    struct adversary *a = self;
    const struct work work = {.kind = WORK_LOAD, .after = *after, .copy = *copy};
    a->figures.nvme_read_bytes += plan_nvme_slot(a->plan->layout, copy->chunk);
    return enqueue(a, MOVER_NVME_READ, &work);
}

static mover_ticket store(void *self, const struct mover_copy *copy,
                          const struct mover_after *after)
{
    struct adversary *a = self;
    const struct work work = {.kind = WORK_STORE, .after = *after, .copy = *copy};
    a->figures.nvme_write_bytes += plan_nvme_slot(a->plan->layout, copy->chunk);
    return enqueue(a, MOVER_NVME_WRITE, &work);
}

static void allocate(void *self, const struct mover_copy *copy)
{
    struct adversary *a = self;
    a->address[copy->chunk] = copy->device_address;
}

static void drop(void *self, uint32_t chunk)
{
    struct adversary *a = self;
    a->address[chunk] = NO_ADDRESS;
    a->figures.evictions++;
}

static mover_ticket move(void *self, const struct mover_copy *to, uint64_t from,
                         const struct mover_after *after)
{
    struct adversary *a = self;
    struct work work = {.kind = WORK_MOVE, .after = *after, .copy = *to, .from = from};
    a->address[to->chunk] = to->device_address;
    a->figures.moves++;
    a->figures.moved_bytes += to->copy_bytes;
    return enqueue(a, MOVER_COMPUTE, &work);
}

static void count_peaks(struct adversary *a, uint32_t moment)
{
    uint64_t end = 0, live = 0;
    for (uint32_t c = 0; c < a->plan->layout->chunk_count; c++) {
        if (a->address[c] == NO_ADDRESS)
            continue;
        end = MAX(end, a->address[c] + a->plan->layout->chunks[c].slot_bytes);
        live += a->plan->layout->chunks[c].slot_bytes;
    }
    struct plan_figures *f = &a->figures;
    f->peak_device_bytes = MAX(f->peak_device_bytes, end + a->accesses->non_model[moment]);
    f->peak_live_device_bytes = MAX(f->peak_live_device_bytes,
                                    live + a->trace->non_model_bytes[moment]);
}

/* The last action before the operator is a wait, so no copy so far may still be under way. */
static void check_wait(const struct adversary *a, uint32_t moment, const struct mover_after *after)
{
    uint32_t end = a->plan->first_action[moment + 1];
    if (end == a->plan->first_action[moment] || a->plan->actions[end - 1].kind != PLAN_WAIT)
        return;
    g_assert_cmpuint(after->queue[MOVER_H2D], ==, a->fetched);
    g_assert_cmpuint(after->queue[MOVER_NETWORK], >=, a->gathered);
    g_assert_cmpuint(after->queue[MOVER_D2H], ==, a->put[MOVER_D2H]);
    g_assert_cmpuint(after->queue[MOVER_HOST], ==, a->put[MOVER_HOST]);
}

/* Slots of chunks that are at home in NVMe are those that the plan took last. */
static void take_slots(struct adversary *a, uint32_t moment)
{
    const struct plan *plan = a->plan;
    for (uint32_t i = plan->first_action[moment]; i < plan->first_action[moment + 1]; i++)
        if (plan->actions[i].kind == PLAN_LOAD || plan->actions[i].kind == PLAN_RESERVE)
            a->host_address[plan->actions[i].chunk] = plan->actions[i].address;
}

static mover_ticket run(void *self, uint32_t moment, const struct mover_after *after,
                        mover_ticket *received)
{
    struct adversary *a = self;
    uint32_t begin = a->accesses->first[moment], end = a->accesses->first[moment + 1];
    struct work work = {.kind = WORK_RUN, .after = *after, .moment = moment};
    const struct trace_operator *op = &a->trace->operators[moment];
    work.operands = g_new0(struct operand, end - begin);
    take_slots(a, moment);
    for (uint32_t i = begin; i < end; i++) {
        const struct chunk_access *access = &a->accesses->items[i];
        work.operands[i - begin] = (struct operand){
            a->address[access->chunk], a->host_address[access->chunk], a->version[access->chunk]};
        a->version[access->chunk] += !!(access->flags & ACCESS_WRITES);
    }
    a->figures.h2d_bytes += op->h2d_bytes;
    a->figures.d2h_bytes += op->d2h_bytes;
    a->figures.sent_bytes += trace_operator_exchange(op).sent_bytes;
    a->figures.received_bytes += trace_operator_exchange(op).received_bytes;
    count_peaks(a, moment);
    check_wait(a, moment, after);
    if (op->place == TRACE_ON_HOST && op->d2h_bytes) {
        struct work receive = {
            .kind = WORK_RECEIVE, .after = *after, .moment = moment, .maker = a->maker};
        work.after.queue[MOVER_D2H] = *received = enqueue(a, MOVER_D2H, &receive);
    }
    if (makes_activations(op))
        a->maker = moment;
    return enqueue(a,
                   op->place == TRACE_ON_HOST   ? MOVER_HOST
                   : trace_operator_reduces(op) ? MOVER_NETWORK
                                                : MOVER_COMPUTE,
                   &work);
}

struct plan_figures adversary_take_figures(struct adversary *a)
{
    struct plan_figures figures = a->figures;
    figures.peak_host_bytes = a->plan->host_pool_bytes;
    figures.peak_nvme_bytes = a->plan->nvme_bytes;
    a->figures = (struct plan_figures){0};
    return figures;
}

const struct mover_ops adversary_ops = {.fetch = fetch,
                                        .gather = gather,
                                        .write_back = write_back,
                                        .allocate = allocate,
                                        .drop = drop,
                                        .load = load,
                                        .store = store,
                                        .move = move,
                                        .run = run};
