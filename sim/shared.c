/* A link whose directions slow each other, or that copies share with what ranks exchange, and a
 * host's memory that copies and host operators share. While both directions copy, each copy goes on
 * at the rate that was measured for that; otherwise at its own rate. If all that runs together
 * wants more bytes a second than the host's memory has for this rank, copies to the host come
 * first, and the rest is slowed alike.
 *
 * So the end of a copy depends on work of the other queues that is queued after it. A copy has no
 * end before the device waits for it. By then all work that may begin before that end is queued,
 * because copies and host operators are bound to moments and never begin before the device's work
 * that precedes them. A ticket is the number of a piece of work in its queue, from 1; a ticket of
 * the device is a time. Everything begins and ends at whole nanoseconds. */
#include "sim/timing.h"

#include <math.h>

/* A copy, or an operator of the host. */
struct shared_work {
    struct mover_after after; /* tickets of the queues that are not the device's */
    uint64_t ready_ns;        /* when the device has done its work before this */
    uint64_t alone_ns;
    double pace;  /* time beside the other direction, relative to alone_ns */
    double bytes; /* of the host's memory, read and written */
    double
        link_bytes; /* each way over the link that copies and exchanges share; 0 if it takes none */
};

/* The progress of a queue. */
struct lane {
    uint64_t done; /* pieces of work that are complete */
    bool running;  /* the next piece has begun */
    double left;   /* time alone that was left of the running piece at `since_ns` */
    double pace;   /* of its progress since then */
    uint64_t since_ns, end_ns;
};

struct shared_state {
    uint64_t now_ns;
    struct lane lane[MOVER_QUEUES]; /* the entry of MOVER_COMPUTE is unused */
    struct timeline *timeline;
};

struct shared {
    GArray *queued[MOVER_QUEUES];   /* struct shared_work */
    uint64_t gone[MOVER_QUEUES];    /* how many complete pieces `queued` no longer holds */
    uint64_t compute_ns;            /* the end of the device's last work */
    uint64_t work_ns[MOVER_QUEUES]; /* in this lap, if nothing slows it */
    double host_bytes;              /* of the host's memory, read and written in this lap */
    double host_rate;               /* of it in bytes a nanosecond; 0 if unlimited */
    double
        link_rate[2]; /* H2D, D2H: of the link that copies share with exchanges; 0 if they do not */
    struct shared_state state;
};

static void *open_shared(const struct sim_job *job)
{
    struct shared *shared = g_new0(struct shared, 1);
    shared->state.timeline = job->timeline;
    shared->host_rate = job->costs->host_rate * 1e-9;
    for (int d = MOVER_H2D; costs_exchanges_share_link(job->costs) && d <= MOVER_D2H; d++)
        shared->link_rate[d - MOVER_H2D] = costs_link_rate(job->costs, (enum mover_queue)d) * 1e-9;
    for (int q = MOVER_H2D; q < MOVER_QUEUES; q++)
        shared->queued[q] = g_array_new(FALSE, FALSE, sizeof(struct shared_work));
    return shared;
}

static void close_shared(void *self)
{
    struct shared *shared = self;
    for (int q = MOVER_H2D; q < MOVER_QUEUES; q++)
        g_array_unref(shared->queued[q]);
    g_free(shared);
}

/* ---- events: work begins, work ends ---- */

/* Returns the piece that runs or would run next, or NULL. */
static const struct shared_work *head(const struct shared *shared, const struct shared_state *state,
                                      int queue)
{
    uint64_t index = state->lane[queue].done - shared->gone[queue];
    const GArray *queued = shared->queued[queue];
    return index < queued->len ? &g_array_index(queued, struct shared_work, index) : NULL;
}

static bool is_complete(const struct shared_state *state, const struct mover_after *after)
{
    for (int q = MOVER_H2D; q < MOVER_QUEUES; q++)
        if (state->lane[q].done < after->queue[q])
            return false;
    return true;
}

static uint64_t begin_ns(const struct shared *shared, const struct shared_state *state, int queue)
{
    const struct shared_work *work = head(shared, state, queue);
    return work && is_complete(state, &work->after) ? MAX(work->ready_ns, state->now_ns)
                                                    : UINT64_MAX;
}

static uint64_t next_event_ns(const struct shared *shared, const struct shared_state *state)
{
    uint64_t next = UINT64_MAX;
    for (int q = MOVER_H2D; q < MOVER_QUEUES; q++)
        next = MIN(next,
                   state->lane[q].running ? state->lane[q].end_ns : begin_ns(shared, state, q));
    return next;
}

static struct timeline_span *span_of(const struct shared_state *state, int queue)
{
    return state->timeline ? &g_array_index(state->timeline->spans[queue], struct timeline_span,
                                            state->lane[queue].done)
                           : NULL;
}

static void finish(struct shared_state *state, int queue)
{
    struct timeline_span *span = span_of(state, queue);
    if (span)
        span->end_ns = state->now_ns;
    state->lane[queue].running = false;
    state->lane[queue].done++;
}

static void begin(const struct shared *shared, struct shared_state *state, int queue)
{
    const struct shared_work *work = head(shared, state, queue);
    struct timeline_span *span = span_of(state, queue);
    struct lane *lane = &state->lane[queue];
    if (span)
        span->start_ns = state->now_ns;
    *lane = (struct lane){.done = lane->done,
                          .running = true,
                          .left = (double)work->alone_ns,
                          .pace = 1,
                          .since_ns = state->now_ns,
                          .end_ns = state->now_ns + work->alone_ns};
}

/* Lets work go on at another pace from now on. */
static void set_pace(struct shared_state *state, int queue, double pace)
{
    struct lane *lane = &state->lane[queue];
    if (pace == lane->pace)
        return;
    lane->left = fmax(0, lane->left - (double)(state->now_ns - lane->since_ns) / lane->pace);
    lane->pace = pace;
    lane->since_ns = state->now_ns;
    lane->end_ns = state->now_ns + (uint64_t)llround(lane->left * pace);
}

/* Returns how much longer one of two takes if it wants so much of the rate: each gets half, and
 * what the other leaves of its half. */
static double slowed(double wants, double other, double rate)
{
    return wants > 0 ? fmax(1, wants / fmax(rate / 2, rate - other)) : 1;
}

/* Slows the running work so that together it takes no more of the host's memory than there is.
 * Copies to the host keep their rate as long as it is at most half of the memory's, because the
 * device does not wait for what it writes; the other work is slowed alike. */
static void share_memory(const struct shared *shared, const struct shared_state *state,
                         double pace[MOVER_QUEUES])
{
    double wanted[MOVER_QUEUES] = {0}, others = 0;
    for (int q = MOVER_H2D; q < MOVER_QUEUES; q++) {
        const struct shared_work *work = head(shared, state, q);
        if (state->lane[q].running && work->alone_ns)
            wanted[q] = work->bytes / ((double)work->alone_ns * pace[q]);
        others += q == MOVER_D2H ? 0 : wanted[q];
    }
    double down = wanted[MOVER_D2H];
    if (down + others <= shared->host_rate)
        return;
    double longer = slowed(down, others, shared->host_rate);
    double left = shared->host_rate - down / longer;
    pace[MOVER_D2H] *= longer;
    for (int q = MOVER_H2D; q < MOVER_QUEUES; q++)
        if (q != MOVER_D2H && wanted[q] > 0)
            pace[q] *= others / left;
}

/* Returns the bytes a nanosecond that the queue's running work wants of the link. */
static double wanted_of_link(const struct shared *shared, const struct shared_state *state,
                             int queue, double pace)
{
    const struct shared_work *work = head(shared, state, queue);
    return state->lane[queue].running && work->alone_ns
               ? work->link_bytes / ((double)work->alone_ns * pace)
               : 0;
}

/* Slows copies, and the exchange that runs beside them in both directions. */
static void share_link(const struct shared *shared, const struct shared_state *state,
                       double pace[MOVER_QUEUES])
{
    double exchange = wanted_of_link(shared, state, MOVER_NETWORK, pace[MOVER_NETWORK]), longer = 1;
    for (int d = MOVER_H2D; d <= MOVER_D2H; d++) {
        double rate = shared->link_rate[d - MOVER_H2D];
        double copy = wanted_of_link(shared, state, d, pace[d]);
        if (rate <= 0 || copy + exchange <= rate)
            continue;
        pace[d] *= slowed(copy, exchange, rate);
        longer = fmax(longer, slowed(exchange, copy, rate));
    }
    pace[MOVER_NETWORK] *= longer;
}

static void set_paces(const struct shared *shared, struct shared_state *state)
{
    bool both = state->lane[MOVER_H2D].running && state->lane[MOVER_D2H].running;
    double pace[MOVER_QUEUES];
    for (int q = MOVER_H2D; q < MOVER_QUEUES; q++)
        pace[q] = both && q <= MOVER_D2H ? head(shared, state, q)->pace : 1;
    if (shared->host_rate > 0)
        share_memory(shared, state, pace);
    share_link(shared, state, pace);
    for (int q = MOVER_H2D; q < MOVER_QUEUES; q++)
        if (state->lane[q].running)
            set_pace(state, q, pace[q]);
}

/* Goes on to the next event, which must exist. */
static void go_on(const struct shared *shared, struct shared_state *state)
{
    uint64_t next = next_event_ns(shared, state);
    g_assert(next != UINT64_MAX);
    state->now_ns = next;
    for (int q = MOVER_H2D; q < MOVER_QUEUES; q++)
        if (state->lane[q].running && state->lane[q].end_ns <= next)
            finish(state, q);
    for (int q = MOVER_H2D; q < MOVER_QUEUES; q++)
        if (!state->lane[q].running && begin_ns(shared, state, q) <= next)
            begin(shared, state, q);
    set_paces(shared, state);
}

/* ---- what the device does ---- */

static mover_ticket put(struct shared *shared, enum mover_queue queue,
                        const struct shared_work *work)
{
    GArray *queued = shared->queued[queue];
    if (queued->len && shared->state.lane[queue].done == shared->gone[queue] + queued->len) {
        shared->gone[queue] += queued->len;
        g_array_set_size(queued, 0);
    }
    g_array_append_val(queued, *work);
    shared->work_ns[queue] += work->alone_ns;
    shared->host_bytes += work->bytes;
    return shared->gone[queue] + queued->len;
}

static mover_ticket copy(void *self, enum mover_queue queue, uint64_t bytes,
                         const struct costs_copy *time, const struct mover_after *after)
{
    struct shared *shared = self;
    double pace = time->alone_ns ? (double)time->both_ns / (double)time->alone_ns : 1;
    bool on_link = queue == MOVER_H2D || queue == MOVER_D2H;
    const struct shared_work work = {.after = *after,
                                     .ready_ns = MAX(shared->compute_ns, time->ready_ns),
                                     .alone_ns = time->alone_ns,
                                     .pace = pace,
                                     .bytes = (double)bytes,
                                     .link_bytes = (double)(on_link ? bytes : time->link_bytes)};
    return put(shared, queue, &work);
}

static mover_ticket run_on_host(void *self, uint64_t duration_ns, uint64_t bytes,
                                const struct mover_after *after)
{
    struct shared *shared = self;
    const struct shared_work work = {.after = *after,
                                     .ready_ns = shared->compute_ns,
                                     .alone_ns = duration_ns,
                                     .pace = 1,
                                     .bytes = (double)bytes};
    return put(shared, MOVER_HOST, &work);
}

/* Returns the first queue whose work is not complete. */
static enum mover_queue open_queue(const struct shared_state *state,
                                   const struct mover_after *after)
{
    int q = MOVER_H2D;
    while (state->lane[q].done >= after->queue[q])
        q++;
    return (enum mover_queue)q;
}

static struct timing_wait compute(void *self, const struct timing_work *work,
                                  const struct mover_after *after)
{
    struct shared *shared = self;
    struct shared_state *state = &shared->state;
    struct timing_wait wait = {.queue = MOVER_COMPUTE, .start_ns = shared->compute_ns};
    while (!is_complete(state, after)) {
        wait.queue = open_queue(state, after);
        go_on(shared, state);
    }
    /* Work that was complete before this call was complete when earlier device work began. */
    if (wait.queue != MOVER_COMPUTE)
        wait.start_ns = MAX(wait.start_ns, state->now_ns);
    wait.waited_ns = wait.start_ns - shared->compute_ns;
    shared->work_ns[MOVER_COMPUTE] += work->duration_ns;
    if (wait.waited_ns)
        wait.waited_for = timeline_numbered(state->timeline, wait.queue, after->queue[wait.queue]);
    wait.end_ns = wait.ticket = shared->compute_ns = wait.start_ns + work->duration_ns;
    return wait;
}

static struct mover_after all_of(const struct shared *shared, int first_queue)
{
    struct mover_after all = {{0}};
    for (int q = first_queue; q < MOVER_QUEUES; q++)
        all.queue[q] = shared->gone[q] + shared->queued[q]->len;
    return all;
}

/* The lap ends when the last of the device's and the host's operators so far is complete, if no
 * more is queued. Looks ahead on a copy of the state, because what is queued later may change it.
 * Spans that are under way get the times that they would have. */
static struct timing_lap lap(void *self)
{
    struct shared *shared = self;
    struct shared_state ahead = shared->state;
    const struct mover_after host = all_of(shared, MOVER_HOST), all = all_of(shared, MOVER_H2D);
    struct timing_lap lap = {.end_ns = shared->compute_ns};
    while (!is_complete(&ahead, &host)) {
        go_on(shared, &ahead);
        lap.end_ns = MAX(lap.end_ns, ahead.now_ns);
    }
    while (ahead.timeline && !is_complete(&ahead, &all))
        go_on(shared, &ahead);
    for (int q = 0; q < MOVER_QUEUES; q++) {
        lap.busiest_ns = MAX(lap.busiest_ns, shared->work_ns[q]);
        shared->work_ns[q] = 0;
    }
    if (shared->host_rate > 0)
        lap.busiest_ns = MAX(lap.busiest_ns, (uint64_t)(shared->host_bytes / shared->host_rate));
    shared->host_bytes = 0;
    return lap;
}

const struct timing_ops timing_shared = {
    .open = open_shared,
    .close = close_shared,
    .copy = copy,
    .run_on_host = run_on_host,
    .compute = compute,
    .lap = lap,
};
