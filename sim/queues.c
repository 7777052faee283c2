/* Independent queues: work starts when its queue is free and what it waits for is complete. A
 * ticket is a completion time in nanoseconds. */
#include "sim/timing.h"

/* ---- what is under way ---- */

enum { FIRST_ROOM = 1024 };

/* The state at one moment. */
struct flight_mark {
    uint64_t now_ns, stall_ns; /* the device's time, and how long it has stalled in the lap */
    uint32_t issued;           /* pieces of work by then */
    uint32_t count;            /* of those, under way */
};

struct flight_lap {
    struct flight_mark *marks; /* [room] */
    uint32_t count, room;
};

/* The copies and host operators that are under way at each moment. If they were issued by the same
 * calls, and end as far ahead, as at the same moment of the lap before, all that follows takes the
 * same time. */
struct flight {
    uint64_t *end_ns; /* [end_room] completion of each piece of work, in the order of issue */
    uint32_t issued, end_room;
    struct flight_queue {
        uint32_t *issued; /* [room] count pieces of work, in the order of issue and of completion */
        uint32_t ended, count, room; /* the first `ended` of them are over */
    } queues[MOVER_QUEUES];
    uint32_t prologue;             /* work before all laps: no other is like it */
    struct flight_lap lap, before; /* this lap, and the last */
};

static void lap_init(struct flight_lap *lap)
{
    *lap = (struct flight_lap){.marks = g_new(struct flight_mark, FIRST_ROOM), .room = FIRST_ROOM};
}

static void flight_init(struct flight *flight)
{
    *flight = (struct flight){.end_ns = g_new(uint64_t, FIRST_ROOM), .end_room = FIRST_ROOM};
    lap_init(&flight->lap);
    lap_init(&flight->before);
}

static void flight_clear(struct flight *flight)
{
    g_free(flight->end_ns);
    for (int q = 0; q < MOVER_QUEUES; q++)
        g_free(flight->queues[q].issued);
    g_free(flight->lap.marks);
    g_free(flight->before.marks);
}

static void flight_add(struct flight *flight, enum mover_queue on, uint64_t end_ns)
{
    struct flight_queue *queue = &flight->queues[on];
    if (flight->issued == flight->end_room) {
        flight->end_room *= 2;
        flight->end_ns = g_renew(uint64_t, flight->end_ns, flight->end_room);
    }
    if (queue->count == queue->room) {
        queue->room = MAX(FIRST_ROOM, 2 * queue->room);
        queue->issued = g_renew(uint32_t, queue->issued, queue->room);
    }
    flight->end_ns[flight->issued] = end_ns;
    queue->issued[queue->count++] = flight->issued++;
}

/* Returns the number of pieces of work that go on. */
static uint32_t forget_ended(struct flight *flight, uint64_t now_ns)
{
    uint32_t going = 0;
    for (int q = 0; q < MOVER_QUEUES; q++) {
        struct flight_queue *queue = &flight->queues[q];
        while (queue->ended < queue->count && flight->end_ns[queue->issued[queue->ended]] <= now_ns)
            queue->ended++;
        going += queue->count - queue->ended;
    }
    return going;
}

/* Returns whether the work under way at `mark` was issued as long before, and ends as long after,
 * as the work at `then`. The counts are equal, so there is no other work. */
static bool goes_on_alike(const struct flight *flight, const struct flight_mark *mark,
                          const struct flight_mark *then)
{
    uint32_t between = mark->issued - then->issued, prologue = flight->prologue;
    if (mark->count != then->count)
        return false;
    for (int q = 0; q < MOVER_QUEUES; q++) {
        const struct flight_queue *queue = &flight->queues[q];
        for (uint32_t i = queue->ended; i < queue->count; i++) {
            uint32_t work = queue->issued[i];
            if (work < between || (work < prologue) != (work - between < prologue) ||
                flight->end_ns[work] - mark->now_ns !=
                    flight->end_ns[work - between] - then->now_ns)
                return false;
        }
    }
    return true;
}

/* Adds a mark at the device's time. Returns the mark of the lap before at the same moment if what
 * is under way is alike, otherwise NULL. */
static const struct flight_mark *flight_mark(struct flight *flight, uint64_t now_ns,
                                             uint64_t stall_ns)
{
    struct flight_lap *lap = &flight->lap;
    const struct flight_lap *before = &flight->before;
    if (lap->count == lap->room) {
        lap->room *= 2;
        lap->marks = g_renew(struct flight_mark, lap->marks, lap->room);
    }
    struct flight_mark *mark = &lap->marks[lap->count++];
    *mark = (struct flight_mark){now_ns, stall_ns, flight->issued, forget_ended(flight, now_ns)};
    if (lap->count > before->count)
        return NULL;
    const struct flight_mark *then = &before->marks[lap->count - 1];
    return goes_on_alike(flight, mark, then) ? then : NULL;
}

static void flight_next_lap(struct flight *flight)
{
    struct flight_lap before = flight->before;
    if (!flight->lap.count)
        flight->prologue = flight->issued;
    flight->before = flight->lap;
    flight->lap = before;
    flight->lap.count = 0;
}

/* ---- the queues ---- */

struct sim_queues {
    struct timeline *timeline;      /* may be NULL */
    uint64_t free_ns[MOVER_QUEUES]; /* when the queue's last work is complete */
    uint64_t work_ns[MOVER_QUEUES]; /* in this lap */
    uint64_t last_end_ns;           /* of the operators and moves so far, wherever they ran */
    struct flight flight;
};

static void *open_queues(const struct sim_job *job)
{
    struct sim_queues *queues = g_new0(struct sim_queues, 1);
    queues->timeline = job->timeline;
    flight_init(&queues->flight);
    return queues;
}

static void close_queues(void *self)
{
    struct sim_queues *queues = self;
    flight_clear(&queues->flight);
    g_free(queues);
}

static uint64_t latest(const struct mover_after *after)
{
    uint64_t ns = 0;
    for (int q = 0; q < MOVER_QUEUES; q++)
        ns = MAX(ns, after->queue[q]);
    return ns;
}

static uint64_t enqueue(struct sim_queues *queues, enum mover_queue queue, uint64_t ready_ns,
                        uint64_t duration_ns)
{
    queues->free_ns[queue] = MAX(queues->free_ns[queue], ready_ns) + duration_ns;
    queues->work_ns[queue] += duration_ns;
    return queues->free_ns[queue];
}

/* Work beside the device's is bound to its moment, and starts after the device's work before. */
static uint64_t issue(struct sim_queues *queues, enum mover_queue queue, uint64_t duration_ns,
                      uint64_t ready_ns, const struct mover_after *after)
{
    ready_ns = MAX(ready_ns, MAX(latest(after), queues->free_ns[MOVER_COMPUTE]));
    uint64_t end_ns = enqueue(queues, queue, ready_ns, duration_ns);
    flight_add(&queues->flight, queue, end_ns);
    if (queues->timeline) {
        GArray *spans = queues->timeline->spans[queue];
        timeline_close(&g_array_index(spans, struct timeline_span, spans->len - 1),
                       end_ns - duration_ns, end_ns);
    }
    return end_ns;
}

static mover_ticket copy(void *self, enum mover_queue queue, uint64_t bytes,
                         const struct costs_copy *time, const struct mover_after *after)
{
    (void)bytes;
    return issue(self, queue, time->alone_ns, time->ready_ns, after);
}

static mover_ticket run_on_host(void *self, uint64_t duration_ns, uint64_t bytes,
                                const struct mover_after *after)
{
    struct sim_queues *queues = self;
    uint64_t end_ns = issue(queues, MOVER_HOST, duration_ns, 0, after);
    (void)bytes;
    queues->last_end_ns = MAX(queues->last_end_ns, end_ns);
    return end_ns;
}

static enum mover_queue last_queue(const struct mover_after *after)
{
    enum mover_queue last = MOVER_COMPUTE;
    for (int q = 0; q < MOVER_QUEUES; q++)
        if (after->queue[q] > after->queue[last])
            last = (enum mover_queue)q;
    return last;
}

static struct timing_wait compute(void *self, const struct timing_work *work,
                                  const struct mover_after *after)
{
    struct sim_queues *queues = self;
    uint64_t before_ns = queues->free_ns[MOVER_COMPUTE];
    uint64_t end_ns = enqueue(queues, MOVER_COMPUTE, latest(after), work->duration_ns);
    struct timing_wait wait = {
        .ticket = end_ns, .start_ns = end_ns - work->duration_ns, .end_ns = end_ns};
    if (wait.start_ns > before_ns) {
        wait.waited_ns = wait.start_ns - before_ns;
        wait.queue = last_queue(after);
        if (queues->timeline)
            wait.waited_for = timeline_ending(queues->timeline, wait.queue, wait.start_ns);
    }
    queues->last_end_ns = MAX(queues->last_end_ns, end_ns);
    return wait;
}

static struct timing_lap lap(void *self)
{
    struct sim_queues *queues = self;
    struct timing_lap lap = {.end_ns = queues->last_end_ns};
    flight_next_lap(&queues->flight);
    for (int q = 0; q < MOVER_QUEUES; q++) {
        lap.busiest_ns = MAX(lap.busiest_ns, queues->work_ns[q]);
        queues->work_ns[q] = 0;
    }
    return lap;
}

static uint64_t await_all(void *self)
{
    struct sim_queues *queues = self;
    uint64_t *compute_ns = &queues->free_ns[MOVER_COMPUTE];
    for (int q = 0; q < MOVER_QUEUES; q++)
        *compute_ns = MAX(*compute_ns, queues->free_ns[q]);
    return queues->last_end_ns = *compute_ns;
}

static bool follows(void *self, uint64_t stall_ns, struct timing_mark *then)
{
    struct sim_queues *queues = self;
    const struct flight_mark *mark = flight_mark(&queues->flight, queues->free_ns[MOVER_COMPUTE],
                                                 stall_ns);
    if (mark)
        *then = (struct timing_mark){mark->now_ns, mark->stall_ns};
    return mark;
}

const struct timing_ops timing_queues = {
    .open = open_queues,
    .close = close_queues,
    .copy = copy,
    .run_on_host = run_on_host,
    .compute = compute,
    .lap = lap,
    .await_all = await_all,
    .follows = follows,
};
