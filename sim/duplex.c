/* A link whose directions slow each other. While both directions copy, each copy goes on at the
 * rate that was measured for that; otherwise at its own rate.
 *
 * So the end of a copy depends on copies of the other direction that are queued after it. A copy
 * has no end before the device waits for it. By then every copy that may begin before that end is
 * queued, because copies are bound to moments and never begin before the device's work that
 * precedes them. A ticket is the number of a piece of work in its queue, from 1; a ticket of the
 * device is a time. Everything begins and ends at whole nanoseconds. */
#include "sim/timing.h"

#include <math.h>

/* A copy, or an operator of the host, which nothing slows. */
struct duplex_work {
    struct mover_after after; /* tickets of the queues that are not the device's */
    uint64_t ready_ns;        /* when the device has done its work before this */
    uint64_t alone_ns;
    double pace; /* time beside the other direction, relative to alone_ns */
};

/* The progress of a queue. */
struct lane {
    uint64_t done; /* pieces of work that are complete */
    bool running;  /* the next piece has begun */
    double left;   /* time alone that was left of the running piece at `since_ns` */
    double pace;   /* of its progress since then */
    uint64_t since_ns, end_ns;
};

struct duplex_state {
    uint64_t now_ns;
    struct lane lane[MOVER_QUEUES]; /* the entry of MOVER_COMPUTE is unused */
    struct timeline *timeline;
};

struct duplex {
    GArray *queued[MOVER_QUEUES]; /* struct duplex_work */
    uint64_t gone[MOVER_QUEUES];  /* how many complete pieces `queued` no longer holds */
    uint64_t compute_ns;          /* the end of the device's last work */
    struct duplex_state state;
};

static void *open_duplex(const struct sim_job *job)
{
    struct duplex *duplex = g_new0(struct duplex, 1);
    duplex->state.timeline = job->timeline;
    for (int q = MOVER_H2D; q < MOVER_QUEUES; q++)
        duplex->queued[q] = g_array_new(FALSE, FALSE, sizeof(struct duplex_work));
    return duplex;
}

static void close_duplex(void *self)
{
    struct duplex *duplex = self;
    for (int q = MOVER_H2D; q < MOVER_QUEUES; q++)
        g_array_unref(duplex->queued[q]);
    g_free(duplex);
}

/* ---- events: work begins, work ends ---- */

/* Returns the piece that runs or would run next, or NULL. */
static const struct duplex_work *head(const struct duplex *duplex, const struct duplex_state *state,
                                      int queue)
{
    uint64_t index = state->lane[queue].done - duplex->gone[queue];
    const GArray *queued = duplex->queued[queue];
    return index < queued->len ? &g_array_index(queued, struct duplex_work, index) : NULL;
}

static bool is_complete(const struct duplex_state *state, const struct mover_after *after)
{
    for (int q = MOVER_H2D; q < MOVER_QUEUES; q++)
        if (state->lane[q].done < after->queue[q])
            return false;
    return true;
}

static uint64_t begin_ns(const struct duplex *duplex, const struct duplex_state *state, int queue)
{
    const struct duplex_work *work = head(duplex, state, queue);
    return work && is_complete(state, &work->after) ? MAX(work->ready_ns, state->now_ns)
                                                    : UINT64_MAX;
}

static uint64_t next_event_ns(const struct duplex *duplex, const struct duplex_state *state)
{
    uint64_t next = UINT64_MAX;
    for (int q = MOVER_H2D; q < MOVER_QUEUES; q++)
        next = MIN(next,
                   state->lane[q].running ? state->lane[q].end_ns : begin_ns(duplex, state, q));
    return next;
}

static struct timeline_span *span_of(const struct duplex_state *state, int queue)
{
    return state->timeline ? &g_array_index(state->timeline->spans[queue], struct timeline_span,
                                            state->lane[queue].done)
                           : NULL;
}

static void finish(struct duplex_state *state, int queue)
{
    struct timeline_span *span = span_of(state, queue);
    if (span)
        span->end_ns = state->now_ns;
    state->lane[queue].running = false;
    state->lane[queue].done++;
}

static void begin(const struct duplex *duplex, struct duplex_state *state, int queue)
{
    const struct duplex_work *work = head(duplex, state, queue);
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

/* Lets a copy go on at another pace from now on. */
static void set_pace(struct duplex_state *state, int queue, double pace)
{
    struct lane *lane = &state->lane[queue];
    if (pace == lane->pace)
        return;
    lane->left = fmax(0, lane->left - (double)(state->now_ns - lane->since_ns) / lane->pace);
    lane->pace = pace;
    lane->since_ns = state->now_ns;
    lane->end_ns = state->now_ns + (uint64_t)llround(lane->left * pace);
}

static void set_paces(const struct duplex *duplex, struct duplex_state *state)
{
    bool both = state->lane[MOVER_H2D].running && state->lane[MOVER_D2H].running;
    for (int q = MOVER_H2D; q <= MOVER_D2H; q++)
        if (state->lane[q].running)
            set_pace(state, q, both ? head(duplex, state, q)->pace : 1);
}

/* Goes on to the next event, which must exist. */
static void go_on(const struct duplex *duplex, struct duplex_state *state)
{
    uint64_t next = next_event_ns(duplex, state);
    g_assert(next != UINT64_MAX);
    state->now_ns = next;
    for (int q = MOVER_H2D; q < MOVER_QUEUES; q++)
        if (state->lane[q].running && state->lane[q].end_ns <= next)
            finish(state, q);
    for (int q = MOVER_H2D; q < MOVER_QUEUES; q++)
        if (!state->lane[q].running && begin_ns(duplex, state, q) <= next)
            begin(duplex, state, q);
    set_paces(duplex, state);
}

/* ---- what the device does ---- */

static mover_ticket put(struct duplex *duplex, enum mover_queue queue,
                        const struct duplex_work *work)
{
    GArray *queued = duplex->queued[queue];
    if (queued->len && duplex->state.lane[queue].done == duplex->gone[queue] + queued->len) {
        duplex->gone[queue] += queued->len;
        g_array_set_size(queued, 0);
    }
    g_array_append_val(queued, *work);
    return duplex->gone[queue] + queued->len;
}

static mover_ticket copy(void *self, enum mover_queue queue, uint64_t bytes,
                         const struct costs_copy *time, const struct mover_after *after)
{
    struct duplex *duplex = self;
    double pace = time->alone_ns ? (double)time->both_ns / (double)time->alone_ns : 1;
    const struct duplex_work work = {*after, duplex->compute_ns, time->alone_ns, pace};
    (void)bytes;
    return put(duplex, queue, &work);
}

static mover_ticket run_on_host(void *self, uint64_t duration_ns, const struct mover_after *after)
{
    struct duplex *duplex = self;
    const struct duplex_work work = {*after, duplex->compute_ns, duration_ns, 1};
    return put(duplex, MOVER_HOST, &work);
}

/* Returns the first queue whose work is not complete. */
static enum mover_queue open_queue(const struct duplex_state *state,
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
    struct duplex *duplex = self;
    struct duplex_state *state = &duplex->state;
    struct timing_wait wait = {.queue = MOVER_COMPUTE, .start_ns = duplex->compute_ns};
    while (!is_complete(state, after)) {
        wait.queue = open_queue(state, after);
        go_on(duplex, state);
    }
    /* Work that was complete before this call was complete when earlier device work began. */
    if (wait.queue != MOVER_COMPUTE)
        wait.start_ns = MAX(wait.start_ns, state->now_ns);
    wait.waited_ns = wait.start_ns - duplex->compute_ns;
    if (wait.waited_ns)
        wait.waited_for = timeline_numbered(state->timeline, wait.queue, after->queue[wait.queue]);
    wait.end_ns = wait.ticket = duplex->compute_ns = wait.start_ns + work->duration_ns;
    return wait;
}

static struct mover_after all_of(const struct duplex *duplex, int first_queue)
{
    struct mover_after all = {{0}};
    for (int q = first_queue; q < MOVER_QUEUES; q++)
        all.queue[q] = duplex->gone[q] + duplex->queued[q]->len;
    return all;
}

/* The lap ends when the last of the device's and the host's operators so far is complete, if no
 * more is queued. Looks ahead on a copy of the state, because what is queued later may change it.
 * Spans that are under way get the times that they would have. */
static struct timing_lap lap(void *self)
{
    const struct duplex *duplex = self;
    struct duplex_state ahead = duplex->state;
    const struct mover_after host = all_of(duplex, MOVER_HOST), all = all_of(duplex, MOVER_H2D);
    struct timing_lap lap = {.end_ns = duplex->compute_ns};
    while (!is_complete(&ahead, &host)) {
        go_on(duplex, &ahead);
        lap.end_ns = MAX(lap.end_ns, ahead.now_ns);
    }
    while (ahead.timeline && !is_complete(&ahead, &all))
        go_on(duplex, &ahead);
    return lap;
}

const struct timing_ops timing_duplex = {
    .open = open_duplex,
    .close = close_duplex,
    .copy = copy,
    .run_on_host = run_on_host,
    .compute = compute,
    .lap = lap,
};
