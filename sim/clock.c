#include "sim/clock.h"

#include "chunks/gathering.h"
#include "chunks/parts.h"
#include "sim/timing.h"

#include <string.h>

const struct timing_resource timing_resources[MOVER_QUEUES] = {
    [MOVER_COMPUTE] = {"compute", false},
    [MOVER_H2D] = {"H2D", true},
    [MOVER_D2H] = {"D2H", true},
    [MOVER_HOST] = {"host", false},
    [MOVER_NETWORK] = {"network", true},
    [MOVER_NVME_READ] = {"NVMe read", true},
    [MOVER_NVME_WRITE] = {"NVMe write", true},
};

/* ---- who occupies the device, and up to where ---- */

/* Chunks are counted in blocks of this size, so that a block is looked through when its highest
 * chunk has left, and not all chunks. */
enum { OCCUPANCY_BLOCK = 64 };

struct occupancy {
    uint32_t chunk_count, block_count;
    uint64_t *end; /* [chunk_count] address after its last byte on the device; 0 if not there */
    uint64_t *slot_bytes;    /* [chunk_count] of those there */
    uint64_t resident_bytes; /* sum of their slots */
    uint64_t *block_end;     /* [block_count] the highest end; while stale, an upper bound of it */
    uint8_t *stale;          /* [block_count] the block's highest chunk has left */
    uint64_t highest_end;    /* an upper bound of the highest end */
};

static void occupancy_init(struct occupancy *o, uint32_t chunk_count)
{
    uint32_t block_count = (chunk_count + OCCUPANCY_BLOCK - 1) / OCCUPANCY_BLOCK;
    *o = (struct occupancy){.chunk_count = chunk_count,
                            .block_count = block_count,
                            .end = g_new0(uint64_t, chunk_count),
                            .slot_bytes = g_new0(uint64_t, chunk_count),
                            .block_end = g_new0(uint64_t, block_count),
                            .stale = g_new0(uint8_t, block_count)};
}

static void occupancy_clear(struct occupancy *o)
{
    g_free(o->end);
    g_free(o->slot_bytes);
    g_free(o->block_end);
    g_free(o->stale);
}

static void occupancy_leave(struct occupancy *o, chunk_id chunk)
{
    uint32_t block = chunk / OCCUPANCY_BLOCK;
    o->stale[block] |= o->end[chunk] && o->end[chunk] == o->block_end[block];
    o->resident_bytes -= o->slot_bytes[chunk];
    o->end[chunk] = o->slot_bytes[chunk] = 0;
}

/* Moves the chunk's slot to the copy's device address. */
static void occupancy_enter(struct occupancy *o, const struct mover_copy *copy)
{
    uint64_t end = copy->device_address + copy->slot_bytes;
    uint64_t *block_end = &o->block_end[copy->chunk / OCCUPANCY_BLOCK];
    occupancy_leave(o, copy->chunk);
    o->end[copy->chunk] = end;
    o->slot_bytes[copy->chunk] = copy->slot_bytes;
    o->resident_bytes += copy->slot_bytes;
    *block_end = MAX(*block_end, end);
    o->highest_end = MAX(o->highest_end, end);
}

static void look_through(struct occupancy *o, uint32_t block)
{
    uint32_t last = MIN((block + 1) * OCCUPANCY_BLOCK, o->chunk_count);
    o->block_end[block] = 0;
    for (uint32_t c = block * OCCUPANCY_BLOCK; c < last; c++)
        o->block_end[block] = MAX(o->block_end[block], o->end[c]);
    o->stale[block] = 0;
}

/* Returns the address after the last byte of the highest chunk. */
static uint64_t occupancy_highest_end(struct occupancy *o)
{
    o->highest_end = 0;
    for (uint32_t block = 0; block < o->block_count; block++) {
        if (o->stale[block] && o->block_end[block] > o->highest_end)
            look_through(o, block);
        o->highest_end = MAX(o->highest_end, o->block_end[block]);
    }
    return o->highest_end;
}

/* ---- the clock ---- */

/* What a copy of a chunk takes, or of a part if it is cut, and a move of it in the plan's arena. */
struct chunk_times {
    struct costs_copy h2d, d2h;
    uint64_t move_ns;
};

struct sim_clock {
    struct sim_job job;
    const struct timing_ops *timing;
    void *resources;           /* the timing's self */
    struct chunk_times *times; /* [chunk_count] */
    moment_id moment;          /* whose actions or operator come next */
    mover_ticket network;      /* the last work in the network's queue */
    uint64_t expected_ns;      /* when what the next operator waits for is there; 0 if nothing */
    uint64_t compute_ns;       /* when the device has done its work so far */
    uint64_t lap_ns;           /* where the current lap began */
    uint64_t stall_ns;         /* in this lap */
    struct plan_figures lap;   /* counts so far in this lap */
    struct occupancy on_device;
    struct plan_figures before; /* of the last lap */
    uint64_t stall_before_ns;   /* in the last lap */
    uint64_t busiest_before_ns; /* work of its busiest queue */
    struct timing_mark then;    /* of the last lap, at the moment that this lap has reached */
};

static uint64_t move_ns(const struct costs *costs, uint64_t bytes, double scale)
{
    return (uint64_t)((double)costs_ns(&costs->move, bytes) * scale + 0.5);
}

static const struct timing_ops *timing_of(const struct costs *costs)
{
    return costs->threads.known     ? &timing_cores
           : costs_is_shared(costs) ? &timing_shared
                                    : &timing_queues;
}

enum { SIZE_HASH_BITS = 6 };

static uint32_t hash_size(uint64_t bytes)
{
    return (uint32_t)(bytes * UINT64_C(0x9e3779b97f4a7c15) >> (64 - SIZE_HASH_BITS));
}

static struct costs_copy copy_time(const struct sim_job *job, enum mover_queue queue,
                                   uint64_t bytes, uint64_t host_end)
{
    return copy_is_cut(job->plan->cut_from_bytes, bytes)
               ? costs_part(job->costs, queue, bytes, host_end)
               : costs_copy(job->costs, queue, bytes, host_end);
}

/* Finds what copies and moves take. Chunks have few sizes, so most of them find that the last chunk
 * with the same hash was as large. */
static struct chunk_times *find_chunk_times(const struct sim_job *job)
{
    const struct chunk *chunks = job->plan->layout->chunks;
    uint32_t count = job->plan->layout->chunk_count, last[2][1 << SIZE_HASH_BITS];
    struct chunk_times *times = g_new(struct chunk_times, count);
    double move_scale = costs_move_scale(job->costs, job->plan->arena_bytes);
    memset(last, 0xff, sizeof last);
    for (uint32_t c = 0; c < count; c++) {
        uint64_t used = chunks[c].copy_bytes;
        uint64_t host_end = plan_in_nvme(job->plan, c) ? job->plan->staging_address
                                                       : job->plan->host_address[c] + used;
        bool is_pinned = host_end <= job->costs->pinned_bytes;
        uint32_t *like = &last[is_pinned][hash_size(used)];
        if (*like != NO_INDEX && chunks[*like].copy_bytes == used)
            times[c] = times[*like];
        else
            times[c] = (struct chunk_times){copy_time(job, MOVER_H2D, used, host_end),
                                            copy_time(job, MOVER_D2H, used, host_end),
                                            move_ns(job->costs, used, move_scale)};
        *like = c;
    }
    return times;
}

struct sim_clock *sim_clock_new(const struct sim_job *job)
{
    const struct layout *layout = job->plan->layout;
    uint32_t n = layout->chunk_count;
    struct sim_clock *clock = g_new0(struct sim_clock, 1);
    clock->job = *job;
    clock->timing = timing_of(job->costs);
    clock->resources = clock->timing->open(job);
    for (uint32_t m = 0; job->timeline && m < job->trace->operator_count; m++)
        g_ptr_array_add(job->timeline->operators, g_strdup(job->trace->operators[m].name));
    if (job->timeline)
        g_array_set_size(job->timeline->used_device_bytes, job->trace->operator_count);
    clock->times = find_chunk_times(job);
    occupancy_init(&clock->on_device, n);
    for (uint32_t c = 0; c < n; c++)
        if (plan_is_homed(job->plan, c))
            occupancy_enter(&clock->on_device,
                            &(struct mover_copy){.chunk = c,
                                                 .device_address = job->plan->initial_address[c],
                                                 .slot_bytes = layout->chunks[c].slot_bytes});
    return clock;
}

void sim_clock_free(struct sim_clock *clock)
{
    if (!clock)
        return;
    clock->timing->close(clock->resources);
    g_free(clock->times);
    occupancy_clear(&clock->on_device);
    g_free(clock);
}

/* ---- the timeline, where one is kept ---- */

/* Appends a span without times to a queue; returns it, or NULL. */
static struct timeline_span *note(struct sim_clock *clock, enum mover_queue queue,
                                  enum timeline_kind kind, chunk_id chunk, uint64_t bytes)
{
    if (!clock->job.timeline)
        return NULL;
    return timeline_note(
        clock->job.timeline, queue,
        &(struct timeline_span){
            .kind = (uint8_t)kind, .moment = clock->moment, .chunk = chunk, .bytes = bytes});
}

static void note_stall(struct sim_clock *clock, const struct timing_wait *wait)
{
    clock->stall_ns += wait->waited_ns;
    if (!clock->job.timeline || wait->waited_ns == 0)
        return;
    const struct timeline_stall stall = {.moment = clock->moment,
                                         .start_ns = wait->start_ns - wait->waited_ns,
                                         .wait_ns = wait->waited_ns,
                                         .queue = (uint8_t)wait->queue,
                                         .chunk = wait->waited_for ? wait->waited_for->chunk
                                                                   : NO_INDEX};
    g_array_append_val(clock->job.timeline->stalls, stall);
}

/* ---- work on the resources ---- */

/* The device stalls if it waits for anything but its own earlier work. */
static mover_ticket compute(struct sim_clock *clock, const struct timing_work *work,
                            enum timeline_kind kind, uint32_t chunk,
                            const struct mover_after *after)
{
    struct timing_wait wait = clock->timing->compute(clock->resources, work, after);
    uint64_t moved = work->is_move ? work->bytes : 0;
    note_stall(clock, &wait);
    timeline_close(note(clock, MOVER_COMPUTE, kind, chunk, moved), wait.start_ns, wait.end_ns);
    clock->compute_ns = wait.end_ns;
    return wait.ticket;
}

static mover_ticket copy_chunk(struct sim_clock *clock, enum mover_queue queue,
                               enum timeline_kind kind, const struct mover_copy *chunk,
                               const struct mover_after *after)
{
    const struct chunk_times *times = &clock->times[chunk->chunk];
    note(clock, queue, kind, chunk->chunk, chunk->copy_bytes);
    return clock->timing->copy(clock->resources, queue, chunk->copy_bytes,
                               queue == MOVER_H2D ? &times->h2d : &times->d2h, after);
}

/* A rank's shards of a gathered chunk. */
static mover_ticket copy_shards(struct sim_clock *clock, const struct mover_copy *chunk,
                                uint64_t bytes, const struct mover_after *after)
{
    const struct costs_copy time = costs_copy(clock->job.costs, MOVER_H2D, bytes,
                                              clock->job.plan->host_pool_bytes);
    note(clock, MOVER_H2D, TIMELINE_FETCH, chunk->chunk, bytes);
    return clock->timing->copy(clock->resources, MOVER_H2D, bytes, &time, after);
}

static mover_ticket copy_activations(struct sim_clock *clock, enum mover_queue queue,
                                     uint64_t bytes, const struct mover_after *after)
{
    const struct costs_copy time = costs_copy(clock->job.costs, queue, bytes,
                                              clock->job.plan->host_pool_bytes);
    note(clock, queue, TIMELINE_ACTIVATIONS, NO_INDEX, bytes);
    return clock->timing->copy(clock->resources, queue, bytes, &time, after);
}

/* Work of the network's queue, which the caller has noted. */
static mover_ticket exchange_within(struct sim_clock *clock, const struct costs_copy *time,
                                    const struct mover_after *after)
{
    clock->network = clock->timing->copy(clock->resources, MOVER_NETWORK, 0, time, after);
    return clock->network;
}

static mover_ticket occupy_host(struct sim_clock *clock, enum timeline_kind kind,
                                uint64_t duration_ns, uint64_t bytes,
                                const struct mover_after *after)
{
    note(clock, MOVER_HOST, kind, NO_INDEX, 0);
    return clock->timing->run_on_host(clock->resources, duration_ns, bytes, after);
}

/* ---- the mover: chunks ---- */

static mover_ticket fetch(void *self, const struct mover_copy *chunk,
                          const struct mover_after *after)
{
    struct sim_clock *clock = self;
    if (chunk->part == 0) {
        occupancy_enter(&clock->on_device, chunk);
        clock->lap.h2d_copies++;
    }
    clock->lap.h2d_bytes += chunk->copy_bytes;
    return copy_chunk(clock, MOVER_H2D, TIMELINE_FETCH, chunk, after);
}

static void count_exchange(struct sim_clock *clock, struct trace_exchange exchange)
{
    clock->lap.sent_bytes += exchange.sent_bytes;
    clock->lap.received_bytes += exchange.received_bytes;
}

/* Shards on the host cross the link before the ranks exchange them. */
static mover_ticket gather(void *self, const struct mover_gather *gather,
                           const struct mover_after *after)
{
    struct sim_clock *clock = self;
    struct gathering_traffic traffic = {0};
    struct mover_after placed = *after;
    for (uint32_t i = 0; i < gather->shard_count; i++)
        gathering_count(&traffic, clock->job.trace, gather->shards[i].tensor, 0,
                        gather->shards[i].on_device);
    occupancy_enter(&clock->on_device, &gather->to);
    clock->lap.gathers++;
    clock->lap.h2d_bytes += traffic.link_bytes;
    clock->lap.h2d_copies += traffic.link_bytes > 0;
    count_exchange(clock, traffic.exchange);
    if (traffic.link_bytes > 0)
        placed.queue[MOVER_H2D] = copy_shards(clock, &gather->to, traffic.link_bytes, after);
    const struct costs_copy time = costs_exchange(clock->job.costs, TRACE_GATHER,
                                                  &traffic.exchange);
    note(clock, MOVER_NETWORK, TIMELINE_FETCH, gather->to.chunk, traffic.exchange.received_bytes);
    return exchange_within(clock, &time, &placed);
}

static mover_ticket write_back(void *self, const struct mover_copy *chunk, bool leaves,
                               const struct mover_after *after)
{
    struct sim_clock *clock = self;
    if (leaves) {
        occupancy_leave(&clock->on_device, chunk->chunk);
        clock->lap.evictions++;
    }
    clock->lap.d2h_bytes += chunk->copy_bytes;
    clock->lap.d2h_copies += chunk->part == 0;
    return copy_chunk(clock, MOVER_D2H, TIMELINE_WRITE_BACK, chunk, after);
}

static mover_ticket copy_nvme(struct sim_clock *clock, enum mover_queue queue,
                              enum timeline_kind kind, const struct mover_copy *copy,
                              const struct mover_after *after)
{
    uint64_t bytes = plan_nvme_slot(clock->job.plan->layout, copy->chunk);
    const struct costs_copy time = costs_copy(clock->job.costs, queue, bytes, 0);
    *(queue == MOVER_NVME_READ ? &clock->lap.nvme_read_bytes
                               : &clock->lap.nvme_write_bytes) += bytes;
    note(clock, queue, kind, copy->chunk, bytes);
    return clock->timing->copy(clock->resources, queue, bytes, &time, after);
}

static mover_ticket load(void *self, const struct mover_copy *copy, const struct mover_after *after)
{
    return copy_nvme(self, MOVER_NVME_READ, TIMELINE_FETCH, copy, after);
}

static mover_ticket store(void *self, const struct mover_copy *copy,
                          const struct mover_after *after)
{
    return copy_nvme(self, MOVER_NVME_WRITE, TIMELINE_WRITE_BACK, copy, after);
}

static void allocate(void *self, const struct mover_copy *copy)
{
    occupancy_enter(&((struct sim_clock *)self)->on_device, copy);
}

static void drop(void *self, chunk_id chunk)
{
    struct sim_clock *clock = self;
    occupancy_leave(&clock->on_device, chunk);
    clock->lap.evictions++;
}

static mover_ticket move(void *self, const struct mover_copy *to, uint64_t from,
                         const struct mover_after *after)
{
    struct sim_clock *clock = self;
    const struct timing_work work = {
        .duration_ns = clock->times[to->chunk].move_ns, .bytes = to->copy_bytes, .is_move = true};
    g_assert(clock->on_device.end[to->chunk] == from + to->slot_bytes);
    occupancy_enter(&clock->on_device, to);
    clock->lap.moves++;
    clock->lap.moved_bytes += to->copy_bytes;
    return compute(clock, &work, TIMELINE_MOVE, to->chunk, after);
}

/* ---- the mover: operators ---- */

/* Exchanges what an operator exchanges with other ranks. */
static mover_ticket exchange(struct sim_clock *clock, const struct trace_operator *op,
                             const struct mover_after *after)
{
    if (!clock->job.costs->ranks)
        return 0;
    const struct costs_copy time = costs_exchanges(clock->job.costs, op);
    if (!time.alone_ns)
        return 0;
    note(clock, MOVER_NETWORK, TIMELINE_OPERATOR, NO_INDEX,
         trace_operator_exchange(op).received_bytes);
    return exchange_within(clock, &time, after);
}

/* Copies the activations down, runs the operator, copies its results up, and returns a place in the
 * host's queue that is reached when they have arrived. */
static mover_ticket run_on_host(struct sim_clock *clock, const struct trace_operator *op,
                                const struct mover_after *after, mover_ticket *received)
{
    struct mover_after ready = *after, sent = {.queue = {0}};
    clock->lap.d2h_bytes += op->d2h_bytes;
    clock->lap.h2d_bytes += op->h2d_bytes;
    if (op->d2h_bytes)
        ready.queue[MOVER_D2H] = *received = copy_activations(clock, MOVER_D2H, op->d2h_bytes,
                                                              after);
    ready.queue[MOVER_HOST] = occupy_host(clock, TIMELINE_OPERATOR, op->duration_ns, op->bytes,
                                          &ready);
    sent.queue[MOVER_NETWORK] = exchange(clock, op, &ready);
    if (op->h2d_bytes)
        sent.queue[MOVER_H2D] = copy_activations(clock, MOVER_H2D, op->h2d_bytes, &ready);
    else if (!sent.queue[MOVER_NETWORK])
        return ready.queue[MOVER_HOST];
    return occupy_host(clock, TIMELINE_JOIN, 0, 0, &sent);
}

/* The network's queue exchanges and adds. */
static mover_ticket reduce(struct sim_clock *clock, const struct trace_operator *op,
                           const struct mover_after *after)
{
    struct costs_copy time = costs_exchanges(clock->job.costs, op);
    time.alone_ns += op->duration_ns;
    time.both_ns += op->duration_ns;
    time.core_ns += op->duration_ns;
    note(clock, MOVER_NETWORK, TIMELINE_OPERATOR, NO_INDEX,
         trace_operator_exchange(op).received_bytes);
    return exchange_within(clock, &time, after);
}

/* Returns a place in the network's queue that is reached when what is expected is there. */
static mover_ticket expected_place(struct sim_clock *clock)
{
    const struct mover_after nothing = {.queue = {0}};
    const struct costs_copy message = {.ready_ns = clock->expected_ns};
    clock->expected_ns = 0;
    note(clock, MOVER_NETWORK, TIMELINE_JOIN, NO_INDEX, 0);
    return exchange_within(clock, &message, &nothing);
}

/* The device waits for what its operator exchanges, unless it is a reduction. */
static mover_ticket run_on_device(struct sim_clock *clock, const struct trace_operator *op,
                                  const struct mover_after *after)
{
    const struct timing_work work = {.duration_ns = op->duration_ns, .bytes = op->bytes};
    struct mover_after exchanged = *after;
    if (trace_operator_reduces(op))
        return reduce(clock, op, after);
    if (op->exchange[TRACE_PASS].sent_bytes)
        exchanged.queue[MOVER_NETWORK] = MAX(exchanged.queue[MOVER_NETWORK], clock->network);
    mover_ticket ticket = exchange(clock, op, after);
    exchanged.queue[MOVER_NETWORK] = MAX(exchanged.queue[MOVER_NETWORK], ticket);
    return compute(clock, &work, TIMELINE_OPERATOR, NO_INDEX, &exchanged);
}

/* Lets the device wait for work of the network's queue. */
static void await_network(struct sim_clock *clock, mover_ticket ticket)
{
    const struct timing_work nothing = {0};
    const struct mover_after after = {.queue = {[MOVER_NETWORK] = ticket}};
    compute(clock, &nothing, TIMELINE_JOIN, NO_INDEX, &after);
}

static void account_peaks(struct sim_clock *clock, moment_id moment)
{
    const struct sim_job *job = &clock->job;
    struct plan_figures *lap = &clock->lap;
    uint64_t non_model = job->non_model[moment];
    if (job->timeline || clock->on_device.highest_end + non_model > lap->peak_device_bytes) {
        uint64_t used_device_bytes = occupancy_highest_end(&clock->on_device) + non_model;
        lap->peak_device_bytes = MAX(lap->peak_device_bytes, used_device_bytes);
        if (job->timeline)
            g_array_index(job->timeline->used_device_bytes, uint64_t, moment) = used_device_bytes;
    }
    lap->peak_live_device_bytes =
        MAX(lap->peak_live_device_bytes,
            clock->on_device.resident_bytes + job->trace->non_model_bytes[moment]);
    lap->peak_host_bytes = job->plan->host_pool_bytes;
    lap->peak_nvme_bytes = job->plan->nvme_bytes;
}

static mover_ticket run(void *self, moment_id moment, const struct mover_after *after,
                        mover_ticket *received)
{
    struct sim_clock *clock = self;
    const struct trace_operator *op = &clock->job.trace->operators[moment];
    clock->moment = moment;
    if (clock->job.issue_ns)
        clock->job.issue_ns[moment] = clock->compute_ns;
    count_exchange(clock, trace_operator_exchange(op));
    account_peaks(clock, moment);
    if (clock->expected_ns)
        await_network(clock, expected_place(clock));
    mover_ticket ticket = op->place == TRACE_ON_HOST ? run_on_host(clock, op, after, received)
                                                     : run_on_device(clock, op, after);
    clock->moment = moment + 1 < clock->job.trace->operator_count ? moment + 1 : 0;
    return ticket;
}

const struct mover_ops sim_clock_mover = {
    .fetch = fetch,
    .gather = gather,
    .write_back = write_back,
    .allocate = allocate,
    .drop = drop,
    .load = load,
    .store = store,
    .move = move,
    .run = run,
};

static void set_times(struct plan_figures *figures, uint64_t stall_ns, uint64_t lasts_ns)
{
    figures->stall_seconds = (double)stall_ns * 1e-9;
    figures->iteration_seconds = (double)lasts_ns * 1e-9;
}

void sim_clock_expect(struct sim_clock *clock, uint64_t arrival_ns)
{
    clock->expected_ns = arrival_ns;
}

uint64_t sim_clock_now(const struct sim_clock *clock)
{
    return clock->compute_ns;
}

uint64_t sim_clock_await_exchanges(struct sim_clock *clock)
{
    if (clock->network)
        await_network(clock, clock->network);
    return clock->compute_ns;
}

struct plan_figures sim_clock_lap(struct sim_clock *clock)
{
    struct timing_lap lap = clock->timing->lap(clock->resources);
    if (clock->job.timeline)
        timeline_show(clock->job.timeline, clock->lap_ns, lap.end_ns);
    set_times(&clock->lap, clock->stall_ns, lap.end_ns - clock->lap_ns);
    clock->before = clock->lap;
    clock->stall_before_ns = clock->stall_ns;
    clock->busiest_before_ns = lap.busiest_ns;
    clock->lap = (struct plan_figures){0};
    clock->stall_ns = 0;
    clock->lap_ns = lap.end_ns;
    return clock->before;
}

uint64_t sim_clock_busiest_ns(const struct sim_clock *clock)
{
    return clock->busiest_before_ns;
}

void sim_clock_await_copies(struct sim_clock *clock)
{
    if (clock->timing->await_all)
        clock->compute_ns = clock->timing->await_all(clock->resources);
}

bool sim_clock_follows(struct sim_clock *clock)
{
    return clock->timing->follows &&
           clock->timing->follows(clock->resources, clock->stall_ns, &clock->then);
}

struct plan_figures sim_clock_finish(const struct sim_clock *clock)
{
    const struct timing_mark *then = &clock->then;
    uint64_t rest_ns = clock->lap_ns - then->now_ns;
    struct plan_figures figures = clock->before;
    set_times(&figures, clock->stall_ns + clock->stall_before_ns - then->stall_ns,
              clock->compute_ns + rest_ns - clock->lap_ns);
    return figures;
}
