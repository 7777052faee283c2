#include "sim/clock.h"

struct sim_clock {
    struct sim_job job;
    uint64_t *h2d_ns, *d2h_ns;      /* [chunk_count] a copy of the chunk */
    uint64_t free_ns[MOVER_QUEUES]; /* when the queue's last work is complete */
    uint64_t last_end_ns;           /* of the operators and moves so far, wherever they ran */
    uint64_t lap_ns;                /* where the current lap began */
    uint64_t stall_ns;              /* in this lap */
    struct plan_figures lap;        /* counts so far in this lap */

    uint64_t *end; /* [chunk_count] address after its last byte on the device; 0: not there */
    uint64_t *slot_bytes;    /* [chunk_count] of those there */
    uint64_t resident_bytes; /* sum of their slots */
    uint64_t highest_end;    /* of those there; valid unless stale */
    bool stale;              /* the highest chunk has left */
};

static void leave(struct sim_clock *clock, uint32_t chunk)
{
    clock->stale |= clock->end[chunk] && clock->end[chunk] == clock->highest_end;
    clock->resident_bytes -= clock->slot_bytes[chunk];
    clock->end[chunk] = clock->slot_bytes[chunk] = 0;
}

static void occupy(struct sim_clock *clock, const struct mover_copy *copy)
{
    uint64_t end = copy->device_address + copy->slot_bytes;

    leave(clock, copy->chunk);
    clock->end[copy->chunk] = end;
    clock->slot_bytes[copy->chunk] = copy->slot_bytes;
    clock->resident_bytes += copy->slot_bytes;
    clock->highest_end = MAX(clock->highest_end, end);
}

struct sim_clock *sim_clock_new(const struct sim_job *job)
{
    const struct layout *layout = job->plan->layout;
    uint32_t n = layout->chunk_count;
    struct sim_clock *clock = g_new0(struct sim_clock, 1);

    clock->job = *job;
    clock->h2d_ns = g_new(uint64_t, n);
    clock->d2h_ns = g_new(uint64_t, n);
    clock->end = g_new0(uint64_t, n);
    clock->slot_bytes = g_new0(uint64_t, n);
    for (uint32_t c = 0; c < n; c++) {
        clock->h2d_ns[c] = costs_ns(&job->costs->h2d, layout->chunks[c].used);
        clock->d2h_ns[c] = costs_ns(&job->costs->d2h, layout->chunks[c].used);
        if (job->plan->host_address[c] == PLAN_NOWHERE)
            occupy(clock, &(struct mover_copy){.chunk = c,
                                               .device_address = job->plan->initial_address[c],
                                               .slot_bytes = layout->chunks[c].bytes});
    }
    return clock;
}

void sim_clock_free(struct sim_clock *clock)
{
    if (!clock)
        return;
    g_free(clock->h2d_ns);
    g_free(clock->d2h_ns);
    g_free(clock->end);
    g_free(clock->slot_bytes);
    g_free(clock);
}

static uint64_t highest_end(struct sim_clock *clock)
{
    if (clock->stale) {
        clock->highest_end = 0;
        for (uint32_t c = 0; c < clock->job.plan->layout->chunk_count; c++)
            clock->highest_end = MAX(clock->highest_end, clock->end[c]);
        clock->stale = false;
    }
    return clock->highest_end;
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
    return clock->free_ns[queue];
}

/* When work bound to the current moment may start. */
static uint64_t issue(const struct sim_clock *clock, const struct mover_after *after)
{
    return MAX(latest(after), clock->free_ns[MOVER_COMPUTE]);
}

/* Operators and moves on the device: what they wait for beyond the one before is a stall. */
static uint64_t compute(struct sim_clock *clock, uint64_t ready_ns, uint64_t duration_ns)
{
    uint64_t before_ns = clock->free_ns[MOVER_COMPUTE];
    uint64_t end_ns = enqueue(clock, MOVER_COMPUTE, ready_ns, duration_ns);

    clock->stall_ns += end_ns - duration_ns - before_ns;
    clock->last_end_ns = MAX(clock->last_end_ns, end_ns);
    return end_ns;
}

static mover_ticket fetch(void *self, const struct mover_copy *copy,
                          const struct mover_after *after)
{
    struct sim_clock *clock = self;

    occupy(clock, copy);
    clock->lap.h2d_bytes += copy->bytes;
    clock->lap.h2d_copies++;
    return enqueue(clock, MOVER_H2D, issue(clock, after), clock->h2d_ns[copy->chunk]);
}

static mover_ticket write_back(void *self, const struct mover_copy *copy, bool leaves,
                               const struct mover_after *after)
{
    struct sim_clock *clock = self;

    if (leaves) {
        leave(clock, copy->chunk);
        clock->lap.evictions++;
    }
    clock->lap.d2h_bytes += copy->bytes;
    clock->lap.d2h_copies++;
    return enqueue(clock, MOVER_D2H, issue(clock, after), clock->d2h_ns[copy->chunk]);
}

static void allocate(void *self, const struct mover_copy *copy)
{
    occupy(self, copy);
}

static void drop(void *self, uint32_t chunk)
{
    struct sim_clock *clock = self;

    leave(clock, chunk);
    clock->lap.evictions++;
}

static mover_ticket move(void *self, const struct mover_copy *to, uint64_t from,
                         const struct mover_after *after)
{
    struct sim_clock *clock = self;
    uint64_t duration_ns = costs_ns(&clock->job.costs->memory, 2 * to->bytes);

    g_assert(clock->end[to->chunk] == from + to->slot_bytes);
    occupy(clock, to);
    clock->lap.moves++;
    clock->lap.moved_bytes += to->bytes;
    return compute(clock, latest(after), duration_ns);
}

static mover_ticket run_on_host(struct sim_clock *clock, const struct trace_operator *op,
                                uint64_t ready_ns)
{
    const struct costs *costs = clock->job.costs;

    if (op->d2h_bytes)
        ready_ns = enqueue(clock, MOVER_D2H, ready_ns, costs_ns(&costs->d2h, op->d2h_bytes));
    uint64_t end_ns = enqueue(clock, MOVER_HOST, ready_ns, op->duration_ns);
    clock->last_end_ns = MAX(clock->last_end_ns, end_ns);
    if (op->h2d_bytes)
        end_ns = enqueue(clock, MOVER_H2D, end_ns, costs_ns(&costs->h2d, op->h2d_bytes));
    clock->lap.d2h_bytes += op->d2h_bytes;
    clock->lap.h2d_bytes += op->h2d_bytes;
    return end_ns;
}

static void account_peaks(struct sim_clock *clock, uint32_t moment)
{
    const struct sim_job *job = &clock->job;
    struct plan_figures *lap = &clock->lap;

    lap->peak_device_bytes = MAX(lap->peak_device_bytes,
                                 highest_end(clock) + job->non_model[moment]);
    lap->peak_live_device_bytes = MAX(lap->peak_live_device_bytes,
                                      clock->resident_bytes + job->trace->non_model_bytes[moment]);
    lap->peak_host_bytes = job->plan->host_bytes;
}

static mover_ticket run(void *self, uint32_t moment, const struct mover_after *after)
{
    struct sim_clock *clock = self;
    const struct trace_operator *op = &clock->job.trace->operators[moment];

    account_peaks(clock, moment);
    if (op->place == TRACE_ON_HOST)
        return run_on_host(clock, op, issue(clock, after));
    return compute(clock, latest(after), op->duration_ns);
}

const struct mover_ops sim_clock_mover = {
    .fetch = fetch,
    .write_back = write_back,
    .allocate = allocate,
    .drop = drop,
    .move = move,
    .run = run,
};

struct plan_figures sim_clock_lap(struct sim_clock *clock)
{
    struct plan_figures figures = clock->lap;

    figures.stall_seconds = (double)clock->stall_ns * 1e-9;
    figures.iteration_seconds = (double)(clock->last_end_ns - clock->lap_ns) * 1e-9;
    clock->lap = (struct plan_figures){0};
    clock->stall_ns = 0;
    clock->lap_ns = clock->last_end_ns;
    return figures;
}
