#include "sim/clock.h"

#include "sim/cores.h"
#include "sim/duplex.h"
#include "sim/in_flight.h"
#include "sim/occupancy.h"

struct sim_clock {
    struct sim_job job;
    struct costs_copy *h2d, *d2h;   /* [chunk_count] a copy of the chunk */
    uint64_t *move_ns;              /* [chunk_count] a move of it in this plan's arena */
    uint64_t free_ns[MOVER_QUEUES]; /* when the queue's last work is complete */
    uint64_t last_end_ns;           /* of the operators and moves so far, wherever they ran */
    uint64_t lap_ns;                /* where the current lap began */
    uint64_t stall_ns;              /* in this lap */
    uint64_t work_ns[MOVER_QUEUES]; /* in this lap, where queues are independent */
    uint64_t busiest_ns;            /* the most of any queue in the last one */
    uint32_t moment;                /* whose actions or operator come next */
    struct cores *cores;            /* threads that share; or */
    struct duplex *duplex;          /* directions that share; both NULL: queues are independent */
    struct plan_figures lap;        /* counts so far in this lap */
    struct occupancy on_device;
    struct in_flight in_flight; /* where queues are independent */
    struct plan_figures before; /* of the last lap */
    uint64_t stall_before_ns;   /* in it */
};

static uint64_t move_ns(const struct costs *costs, uint64_t bytes, double scale)
{
    return (uint64_t)((double)costs_ns(&costs->move, bytes) * scale + 0.5);
}

struct sim_clock *sim_clock_new(const struct sim_job *job)
{
    const struct layout *layout = job->plan->layout;
    uint32_t n = layout->chunk_count;
    struct sim_clock *clock = g_new0(struct sim_clock, 1);
    double move_scale = costs_move_scale(job->costs, job->plan->arena_bytes);

    clock->job = *job;
    if (job->costs->threads.known)
        clock->cores = cores_new(&job->costs->threads, job->timeline);
    else if (costs_is_duplex(job->costs))
        clock->duplex = duplex_new(job->timeline);
    for (uint32_t m = 0; job->timeline && m < job->trace->operator_count; m++)
        g_ptr_array_add(job->timeline->operators, g_strdup(job->trace->operators[m].name));
    if (job->timeline)
        g_array_set_size(job->timeline->used_device_bytes, job->trace->operator_count);
    clock->h2d = g_new(struct costs_copy, n);
    clock->d2h = g_new(struct costs_copy, n);
    clock->move_ns = g_new(uint64_t, n);
    occupancy_init(&clock->on_device, n);
    in_flight_init(&clock->in_flight);
    for (uint32_t c = 0; c < n; c++) {
        uint64_t used = layout->chunks[c].copy_bytes, host_end = job->plan->host_address[c] + used;
        clock->h2d[c] = costs_copy(job->costs, MOVER_H2D, used, host_end);
        clock->d2h[c] = costs_copy(job->costs, MOVER_D2H, used, host_end);
        clock->move_ns[c] = move_ns(job->costs, used, move_scale);
        if (job->plan->host_address[c] == NO_ADDRESS)
            occupancy_enter(&clock->on_device,
                            &(struct mover_copy){.chunk = c,
                                                 .device_address = job->plan->initial_address[c],
                                                 .slot_bytes = layout->chunks[c].slot_bytes});
    }
    return clock;
}

void sim_clock_free(struct sim_clock *clock)
{
    if (!clock)
        return;
    cores_free(clock->cores);
    duplex_free(clock->duplex);
    g_free(clock->h2d);
    g_free(clock->d2h);
    g_free(clock->move_ns);
    occupancy_clear(&clock->on_device);
    in_flight_clear(&clock->in_flight);
    g_free(clock);
}

static uint64_t latest(const struct mover_after *after)
{
    uint64_t ns = 0;
    for (int q = 0; q < MOVER_QUEUES; q++)
        ns = MAX(ns, after->queue[q]);
    return ns;
}

/* Appends work to a queue; returns when it is complete. */
static uint64_t enqueue(struct sim_clock *clock, enum mover_queue queue, uint64_t ready_ns,
                        uint64_t duration_ns)
{
    clock->free_ns[queue] = MAX(clock->free_ns[queue], ready_ns) + duration_ns;
    clock->work_ns[queue] += duration_ns;
    if (queue != MOVER_COMPUTE)
        in_flight_add(&clock->in_flight, clock->free_ns[queue]);
    return clock->free_ns[queue];
}

/* When work bound to the current moment may start. */
static uint64_t issue(const struct sim_clock *clock, const struct mover_after *after)
{
    return MAX(latest(after), clock->free_ns[MOVER_COMPUTE]);
}

/* ---- the timeline, where one is kept ---- */

static struct timeline_span *note(struct sim_clock *clock, enum mover_queue queue,
                                  enum timeline_kind kind, uint32_t chunk, uint64_t bytes)
{
    return timeline_note(
        clock->job.timeline, queue,
        &(struct timeline_span){
            .kind = (uint8_t)kind, .moment = clock->moment, .chunk = chunk, .bytes = bytes});
}

/* `span`: of the work that was waited for; NULL where nobody knows. */
static void note_stall(struct sim_clock *clock, uint64_t start_ns, uint64_t wait_ns,
                       enum mover_queue queue, const struct timeline_span *waited_for)
{
    clock->stall_ns += wait_ns;
    if (!clock->job.timeline || wait_ns == 0)
        return;
    const struct timeline_stall stall = {.moment = clock->moment,
                                         .start_ns = start_ns,
                                         .wait_ns = wait_ns,
                                         .queue = (uint8_t)queue,
                                         .chunk = waited_for ? waited_for->chunk : NO_INDEX};
    g_array_append_val(clock->job.timeline->stalls, stall);
}

/* ---- work on the device ---- */

/* What runs on the device: an operator or a move. */
struct device_work {
    enum timeline_kind kind;
    uint32_t chunk;
    uint64_t bytes, duration_ns;
    double slow_down[3]; /* of threads: by neighbour */
};

/* Tickets of the other queues are numbers of pieces of work. */
static mover_ticket compute_beside_others(struct sim_clock *clock, const struct device_work *work,
                                          const struct mover_after *after)
{
    struct timeline *timeline = clock->job.timeline;
    struct cores_wait wait = clock->cores ? cores_compute(clock->cores, work->duration_ns,
                                                          work->slow_down, after)
                                          : duplex_compute(clock->duplex, work->duration_ns, after);
    const struct timeline_span *last = NULL;
    if (timeline && wait.waited_ns)
        last = &g_array_index(timeline->spans[wait.queue], struct timeline_span,
                              after->queue[wait.queue] - 1);
    note_stall(clock, wait.start_ns - wait.waited_ns, wait.waited_ns, wait.queue, last);
    timeline_close(note(clock, MOVER_COMPUTE, work->kind, work->chunk, work->bytes), wait.start_ns,
                   wait.end_ns);
    clock->free_ns[MOVER_COMPUTE] = clock->last_end_ns = wait.end_ns;
    return wait.ticket;
}

static enum mover_queue last_queue(const struct mover_after *after)
{
    enum mover_queue last = MOVER_COMPUTE;
    for (int q = 0; q < MOVER_QUEUES; q++)
        if (after->queue[q] > after->queue[last])
            last = (enum mover_queue)q;
    return last;
}

/* What it waits for beyond the work before it is a stall. */
static mover_ticket compute(struct sim_clock *clock, const struct device_work *work,
                            const struct mover_after *after)
{
    if (clock->cores || clock->duplex)
        return compute_beside_others(clock, work, after);
    uint64_t before_ns = clock->free_ns[MOVER_COMPUTE];
    uint64_t end_ns = enqueue(clock, MOVER_COMPUTE, latest(after), work->duration_ns);
    uint64_t start_ns = end_ns - work->duration_ns;
    if (start_ns > before_ns) {
        enum mover_queue queue = last_queue(after);
        const struct timeline *timeline = clock->job.timeline;
        note_stall(clock, before_ns, start_ns - before_ns, queue,
                   timeline ? timeline_ending(timeline, queue, start_ns) : NULL);
    }
    timeline_close(note(clock, MOVER_COMPUTE, work->kind, work->chunk, work->bytes), start_ns,
                   end_ns);
    clock->last_end_ns = MAX(clock->last_end_ns, end_ns);
    return end_ns;
}

/* ---- copies ---- */

struct link_work {
    enum mover_queue queue;
    enum timeline_kind kind;
    uint32_t chunk;
    uint64_t bytes;
    struct costs_copy time;
};

static mover_ticket copy(struct sim_clock *clock, const struct link_work *work, uint64_t ready_ns,
                         const struct mover_after *after)
{
    struct timeline_span *span = note(clock, work->queue, work->kind, work->chunk, work->bytes);
    if (clock->cores)
        return cores_copy(clock->cores, work->queue, work->bytes, work->time.alone_ns, after);
    if (clock->duplex)
        return duplex_copy(clock->duplex, work->queue, &work->time, after);
    uint64_t end_ns = enqueue(clock, work->queue, ready_ns, work->time.alone_ns);
    timeline_close(span, end_ns - work->time.alone_ns, end_ns);
    return end_ns;
}

static mover_ticket fetch(void *self, const struct mover_copy *chunk,
                          const struct mover_after *after)
{
    struct sim_clock *clock = self;
    const struct link_work work = {MOVER_H2D, TIMELINE_FETCH, chunk->chunk, chunk->copy_bytes,
                                   clock->h2d[chunk->chunk]};

    occupancy_enter(&clock->on_device, chunk);
    clock->lap.h2d_bytes += chunk->copy_bytes;
    clock->lap.h2d_copies++;
    return copy(clock, &work, issue(clock, after), after);
}

static mover_ticket write_back(void *self, const struct mover_copy *chunk, bool leaves,
                               const struct mover_after *after)
{
    struct sim_clock *clock = self;
    const struct link_work work = {MOVER_D2H, TIMELINE_WRITE_BACK, chunk->chunk, chunk->copy_bytes,
                                   clock->d2h[chunk->chunk]};

    if (leaves) {
        occupancy_leave(&clock->on_device, chunk->chunk);
        clock->lap.evictions++;
    }
    clock->lap.d2h_bytes += chunk->copy_bytes;
    clock->lap.d2h_copies++;
    return copy(clock, &work, issue(clock, after), after);
}

static void allocate(void *self, const struct mover_copy *copy)
{
    occupancy_enter(&((struct sim_clock *)self)->on_device, copy);
}

static void drop(void *self, uint32_t chunk)
{
    struct sim_clock *clock = self;

    occupancy_leave(&clock->on_device, chunk);
    clock->lap.evictions++;
}

static mover_ticket move(void *self, const struct mover_copy *to, uint64_t from,
                         const struct mover_after *after)
{
    struct sim_clock *clock = self;
    const struct costs *costs = clock->job.costs;
    struct device_work work = {.kind = TIMELINE_MOVE,
                               .chunk = to->chunk,
                               .bytes = to->copy_bytes,
                               .duration_ns = clock->move_ns[to->chunk]};

    g_assert(clock->on_device.end[to->chunk] == from + to->slot_bytes);
    for (int n = 0; clock->cores && n < 3; n++)
        work.slow_down[n] = costs->threads.constants.slow_down[PLATFORM_MEMORY_BOUND][n];
    occupancy_enter(&clock->on_device, to);
    clock->lap.moves++;
    clock->lap.moved_bytes += to->copy_bytes;
    return compute(clock, &work, after);
}

/* ---- operators ---- */

static mover_ticket copy_activations(struct sim_clock *clock, enum mover_queue queue,
                                     uint64_t bytes, uint64_t ready_ns,
                                     const struct mover_after *after)
{
    const struct link_work work = {
        queue, TIMELINE_ACTIVATIONS, NO_INDEX, bytes,
        costs_copy(clock->job.costs, queue, bytes, clock->job.plan->host_pool_bytes)};
    return copy(clock, &work, ready_ns, after);
}

/* 0: a place in the host's queue, which is reached when `after` is there. */
static mover_ticket occupy_host(struct sim_clock *clock, enum timeline_kind kind,
                                uint64_t duration_ns, uint64_t ready_ns,
                                const struct mover_after *after)
{
    struct timeline_span *span = note(clock, MOVER_HOST, kind, NO_INDEX, 0);
    if (clock->cores)
        return cores_run_on_host(clock->cores, duration_ns, after);
    if (clock->duplex)
        return duplex_run_on_host(clock->duplex, duration_ns, after);
    uint64_t end_ns = enqueue(clock, MOVER_HOST, ready_ns, duration_ns);
    timeline_close(span, end_ns - duration_ns, end_ns);
    clock->last_end_ns = MAX(clock->last_end_ns, end_ns);
    return end_ns;
}

/* Activations down, the operator, its results up, and a place in the host's queue that is reached
 * when they are there. */
static mover_ticket run_on_host(struct sim_clock *clock, const struct trace_operator *op,
                                const struct mover_after *after, mover_ticket *received)
{
    struct mover_after ready = *after, sent = {.queue = {0}};

    clock->lap.d2h_bytes += op->d2h_bytes;
    clock->lap.h2d_bytes += op->h2d_bytes;
    if (op->d2h_bytes)
        ready.queue[MOVER_D2H] = *received = copy_activations(clock, MOVER_D2H, op->d2h_bytes,
                                                              issue(clock, after), after);
    ready.queue[MOVER_HOST] = occupy_host(clock, TIMELINE_OPERATOR, op->duration_ns,
                                          issue(clock, &ready), &ready);
    if (!op->h2d_bytes)
        return ready.queue[MOVER_HOST];
    sent.queue[MOVER_H2D] = copy_activations(clock, MOVER_H2D, op->h2d_bytes, latest(&ready),
                                             &ready);
    return occupy_host(clock, TIMELINE_JOIN, 0, latest(&sent), &sent);
}

/* The part of an operator that waits for memory is slowed as memory-bound ones are, the rest as
 * products are. */
static void set_slow_down(const struct sim_clock *clock, const struct trace_operator *op,
                          struct device_work *work)
{
    const struct costs_threads *threads = &clock->job.costs->threads;
    bool bf16 = g_strcmp0(clock->job.trace->precision, "bf16") == 0;
    const double *product =
        threads->constants.slow_down[bf16 ? PLATFORM_PRODUCT_BF16 : PLATFORM_PRODUCT_FP32];
    const double *memory = threads->constants.slow_down[PLATFORM_MEMORY_BOUND];
    double share = (double)costs_ns(&threads->memory, op->bytes) / (double)MAX(1, op->duration_ns);
    share = MIN(1, share);
    for (int n = 0; n < 3; n++)
        work->slow_down[n] = share * memory[n] + (1 - share) * product[n];
}

static void account_peaks(struct sim_clock *clock, uint32_t moment)
{
    const struct sim_job *job = &clock->job;
    struct plan_figures *lap = &clock->lap;

    uint64_t non_model = job->non_model[moment];

    if (job->timeline || occupancy_most(&clock->on_device) + non_model > lap->peak_device_bytes) {
        uint64_t used_device_bytes = occupancy_highest_end(&clock->on_device) + non_model;
        lap->peak_device_bytes = MAX(lap->peak_device_bytes, used_device_bytes);
        if (job->timeline)
            g_array_index(job->timeline->used_device_bytes, uint64_t, moment) = used_device_bytes;
    }
    lap->peak_live_device_bytes =
        MAX(lap->peak_live_device_bytes,
            clock->on_device.resident_bytes + job->trace->non_model_bytes[moment]);
    lap->peak_host_bytes = job->plan->host_pool_bytes;
}

static mover_ticket run(void *self, uint32_t moment, const struct mover_after *after,
                        mover_ticket *received)
{
    struct sim_clock *clock = self;
    const struct trace_operator *op = &clock->job.trace->operators[moment];
    struct device_work work = {
        .kind = TIMELINE_OPERATOR, .chunk = NO_INDEX, .duration_ns = op->duration_ns};

    clock->moment = moment;
    if (clock->job.issue_ns)
        clock->job.issue_ns[moment] = clock->free_ns[MOVER_COMPUTE];
    account_peaks(clock, moment);
    if (clock->cores)
        set_slow_down(clock, op, &work);
    mover_ticket ticket = op->place == TRACE_ON_HOST ? run_on_host(clock, op, after, received)
                                                     : compute(clock, &work, after);
    clock->moment = moment + 1 < clock->job.trace->operator_count ? moment + 1 : 0;
    return ticket;
}

const struct mover_ops sim_clock_mover = {
    .fetch = fetch,
    .write_back = write_back,
    .allocate = allocate,
    .drop = drop,
    .move = move,
    .run = run,
};

static void set_times(struct plan_figures *figures, uint64_t stall_ns, uint64_t lasts_ns)
{
    figures->stall_seconds = (double)stall_ns * 1e-9;
    figures->iteration_seconds = (double)lasts_ns * 1e-9;
}

struct plan_figures sim_clock_lap(struct sim_clock *clock)
{
    if (clock->cores)
        clock->last_end_ns = cores_now_ns(clock->cores);
    if (clock->duplex)
        clock->last_end_ns = duplex_end_ns(clock->duplex);
    if (clock->job.timeline)
        timeline_show(clock->job.timeline, clock->lap_ns, clock->last_end_ns);
    set_times(&clock->lap, clock->stall_ns, clock->last_end_ns - clock->lap_ns);
    in_flight_next_lap(&clock->in_flight);
    clock->before = clock->lap;
    clock->stall_before_ns = clock->stall_ns;
    clock->lap = (struct plan_figures){0};
    clock->stall_ns = clock->busiest_ns = 0;
    for (int q = 0; q < MOVER_QUEUES; q++) {
        clock->busiest_ns = MAX(clock->busiest_ns, clock->work_ns[q]);
        clock->work_ns[q] = 0;
    }
    clock->lap_ns = clock->last_end_ns;
    return clock->before;
}

uint64_t sim_clock_busiest_ns(const struct sim_clock *clock)
{
    return clock->busiest_ns;
}

void sim_clock_await_copies(struct sim_clock *clock)
{
    uint64_t *compute = &clock->free_ns[MOVER_COMPUTE];
    if (clock->cores || clock->duplex)
        return;
    for (int q = 0; q < MOVER_QUEUES; q++)
        *compute = MAX(*compute, clock->free_ns[q]);
    clock->last_end_ns = *compute;
}

bool sim_clock_follows(struct sim_clock *clock)
{
    return !clock->cores && !clock->duplex &&
           in_flight_mark(&clock->in_flight, clock->free_ns[MOVER_COMPUTE], clock->stall_ns);
}

struct plan_figures sim_clock_finish(const struct sim_clock *clock)
{
    const struct in_flight_mark *mark = in_flight_mark_before(&clock->in_flight);
    uint64_t now_ns = clock->free_ns[MOVER_COMPUTE], rest_ns = clock->lap_ns - mark->now_ns;
    struct plan_figures figures = clock->before;
    set_times(&figures, clock->stall_ns + clock->stall_before_ns - mark->stall_ns,
              now_ns + rest_ns - clock->lap_ns);
    return figures;
}
