/* A device that is threads of a machine (struct costs_threads): one computes, one a direction
 * copies over a link, one runs the host's operators. Unlike independent queues, they share. Copies
 * and the host's operators share the host's cores, in equal parts if together they want more than
 * all cores; copies slow the operators that run beside them; a thread that waits wakes late.
 *
 * With costs_threads.together, the device computes on these cores, too, as a thread on each of
 * them. It then shares them like the others, and nothing else slows it.
 *
 * A ticket is the number of a piece of work in its queue, from 1, as in the engine. Only what the
 * computing thread does takes time, and it lets everything that was queued go on. */
#include "sim/timing.h"

#include <math.h>

enum { NEIGHBOURS = PLATFORM_BESIDE_UPDATE + 1 };

/* Times are nanoseconds. */
struct piece {
    struct mover_after after;
    double ready; /* it does not end before this time */
    double link;  /* time of a copy over the link, or the duration of an operator */
    double cores; /* time that it takes of one host core, or, if an operator, of all */
    uint64_t bytes;
};

/* A thread and its work. */
struct thread {
    GArray *pieces; /* struct piece; those before `taken` are done or running */
    uint64_t taken; /* pieces begun */
    mover_ticket done;
    bool running, sleeping; /* a sleeping thread waits for work, and wakes late */
    double wakes;           /* when a sleeping thread begins its work; INFINITY if it has none */
    double left; /* time left of the running piece at full speed; below 0 if it is due but not
                    complete */
    double rate; /* speed of its progress now, at most 1 */
};

struct cores {
    const struct costs_threads *threads;
    bool bf16; /* precision of the products */
    struct timeline *timeline;
    double now;
    double work[MOVER_QUEUES]; /* in this lap, if nothing slows it */
    mover_ticket compute_done;
    bool computing;
    struct thread thread[MOVER_QUEUES]; /* of MOVER_COMPUTE only the rate is used */
};

static double seconds_ns(double seconds)
{
    return seconds * 1e9;
}

static void *open_cores(const struct sim_job *job)
{
    struct cores *cores = g_new0(struct cores, 1);
    cores->threads = &job->costs->threads;
    cores->timeline = job->timeline;
    cores->bf16 = g_strcmp0(job->trace->precision, "bf16") == 0;
    for (int q = 0; q < MOVER_QUEUES; q++) {
        cores->thread[q].pieces = g_array_new(FALSE, FALSE, sizeof(struct piece));
        cores->thread[q].sleeping = true;
        cores->thread[q].wakes = INFINITY;
    }
    return cores;
}

static void close_cores(void *self)
{
    struct cores *cores = self;
    for (int q = 0; q < MOVER_QUEUES; q++)
        g_array_unref(cores->thread[q].pieces);
    g_free(cores);
}

/* ---- the threads beside the computing one ---- */

static mover_ticket done(const struct cores *cores, int queue)
{
    return queue == MOVER_COMPUTE ? cores->compute_done : cores->thread[queue].done;
}

static bool complete(const struct cores *cores, const struct mover_after *after)
{
    for (int q = 0; q < MOVER_QUEUES; q++)
        if (done(cores, q) < after->queue[q])
            return false;
    return true;
}

static struct piece *next_piece(const struct thread *thread)
{
    return thread->taken < thread->pieces->len
               ? &g_array_index(thread->pieces, struct piece, thread->taken)
               : NULL;
}

static struct timeline_span *span_of(struct cores *cores, int queue, uint64_t index)
{
    GArray *spans = cores->timeline ? cores->timeline->spans[queue] : NULL;
    return spans && index < spans->len ? &g_array_index(spans, struct timeline_span, index) : NULL;
}

/* Begins the next piece, which really began `head_start` ago. */
static void begin(struct cores *cores, int queue, double head_start)
{
    struct thread *thread = &cores->thread[queue];
    struct timeline_span *span = span_of(cores, queue, thread->taken);
    thread->left = fmax(next_piece(thread)->link - head_start,
                        next_piece(thread)->ready - cores->now);
    thread->running = true;
    thread->sleeping = false;
    thread->wakes = INFINITY;
    thread->taken++;
    if (span)
        span->start_ns = (uint64_t)llround(cores->now - head_start);
}

/* Wakes the sleeping threads whose next piece is ready now. */
static void wake_ready(struct cores *cores)
{
    for (int q = 0; q < MOVER_QUEUES; q++) {
        struct thread *thread = &cores->thread[q];
        const struct piece *piece = next_piece(thread);
        if (q != MOVER_COMPUTE && thread->sleeping && isinf(thread->wakes) && piece &&
            complete(cores, &piece->after))
            thread->wakes = cores->now + seconds_ns(cores->threads->constants.wake_seconds);
    }
}

static double late(const struct cores *cores, int queue)
{
    return queue >= MOVER_HOST ? 0 : seconds_ns(cores->threads->constants.late_seconds);
}

/* A copy that follows at once began when the earlier one was due, not when its thread woke. */
static void finish(struct cores *cores, int queue)
{
    struct thread *thread = &cores->thread[queue];
    struct timeline_span *span = span_of(cores, queue, thread->taken - 1);
    if (span)
        span->end_ns = (uint64_t)llround(cores->now);
    thread->running = false;
    thread->done++;
    const struct piece *next = next_piece(thread);
    if (next && complete(cores, &next->after))
        begin(cores, queue, late(cores, queue));
    else
        thread->sleeping = true;
    wake_ready(cores);
}

/* ---- shares of the host's cores ---- */

/* Returns how many cores a running thread would take at full speed. */
static double demand(const struct cores *cores, int queue)
{
    const struct thread *thread = &cores->thread[queue];
    if (queue == MOVER_COMPUTE)
        return cores->computing && cores->threads->together ? cores->threads->cores : 0;
    if (!thread->running || thread->left <= 0)
        return 0;
    if (queue == MOVER_HOST)
        return cores->threads->cores;
    const struct piece *piece = &g_array_index(thread->pieces, struct piece, thread->taken - 1);
    return fmin(1, piece->cores / piece->link);
}

/* Returns how many parts a queue's work gets where it shares: operators that run on the cores of
 * computing have a thread on each. */
static double parts_of(const struct cores *cores, int queue)
{
    bool everywhere = queue == MOVER_COMPUTE || queue == MOVER_HOST;
    return everywhere && cores->threads->together ? cores->threads->cores : 1;
}

/* A thread that wants less than an equal part gets what it wants; the others share the rest. */
static void share_cores(struct cores *cores)
{
    double left = cores->threads->cores, wanted[MOVER_QUEUES], open = 0;
    for (int q = 0; q < MOVER_QUEUES; q++) {
        wanted[q] = demand(cores, q);
        cores->thread[q].rate = 1;
        open += wanted[q] > 0 ? parts_of(cores, q) : 0;
    }
    for (bool changed = true; changed && open > 0;) {
        changed = false;
        for (int q = 0; q < MOVER_QUEUES; q++)
            if (wanted[q] > 0 && wanted[q] <= left / open * parts_of(cores, q)) {
                left -= wanted[q];
                wanted[q] = 0;
                open -= parts_of(cores, q);
                changed = true;
            }
    }
    for (int q = 0; q < MOVER_QUEUES; q++)
        if (wanted[q] > 0)
            cores->thread[q].rate = left / open * parts_of(cores, q) / wanted[q];
}

/* ---- time goes on ---- */

static double next_event(const struct cores *cores)
{
    double next = INFINITY;
    for (int q = 0; q < MOVER_QUEUES; q++) {
        const struct thread *thread = &cores->thread[q];
        if (!thread->running)
            next = fmin(next, thread->wakes - cores->now);
        else if (thread->left > 0)
            next = fmin(next, thread->left / thread->rate);
        else
            next = fmin(next, thread->left + late(cores, q));
    }
    return fmax(0, next);
}

/* Lets `ns` pass. Nothing may happen before their end. */
static void pass(struct cores *cores, double ns)
{
    cores->now += ns;
    for (int q = 0; q < MOVER_QUEUES; q++) {
        struct thread *thread = &cores->thread[q];
        if (thread->running)
            thread->left -= ns * (thread->left > 0 ? thread->rate : 1);
    }
    for (int q = 0; q < MOVER_QUEUES; q++) {
        struct thread *thread = &cores->thread[q];
        const double rounding = 1e-3;
        if (thread->running && fabs(thread->left) < rounding)
            thread->left = 0;
        if (thread->running && thread->left <= 0 && thread->left + late(cores, q) < rounding)
            finish(cores, q);
        else if (!thread->running && thread->wakes <= cores->now + rounding)
            begin(cores, q, 0);
    }
}

static void go_on(struct cores *cores, double ns)
{
    double end = cores->now + ns;
    while (cores->now < end) {
        share_cores(cores);
        double step = fmin(next_event(cores), end - cores->now);
        if (step >= end - cores->now) {
            pass(cores, end - cores->now);
            break;
        }
        pass(cores, step);
    }
}

/* ---- what the computing thread does ---- */

static mover_ticket put(struct cores *cores, enum mover_queue queue, const struct piece *piece)
{
    struct thread *thread = &cores->thread[queue];
    go_on(cores, seconds_ns(cores->threads->constants.put_seconds));
    g_array_append_val(thread->pieces, *piece);
    cores->work[queue] += piece->link;
    wake_ready(cores);
    return thread->pieces->len;
}

static mover_ticket copy(void *self, enum mover_queue queue, uint64_t bytes,
                         const struct costs_copy *time, const struct mover_after *after)
{
    struct cores *cores = self;
    double link = (double)time->alone_ns;
    double taken = queue == MOVER_NETWORK
                       ? (double)(cores->threads->together ? time->core_ns : 0)
                       : (double)costs_ns(&cores->threads->copy[queue == MOVER_D2H], bytes);
    /* If memory is slower than the link, memory limits the copy. */
    const struct piece piece = {*after, (double)time->ready_ns, fmax(1, fmax(link, taken)), taken,
                                bytes};
    return put(cores, queue, &piece);
}

static mover_ticket run_on_host(void *self, uint64_t duration_ns, uint64_t bytes,
                                const struct mover_after *after)
{
    const struct piece piece = {*after, 0, (double)duration_ns, (double)duration_ns, 0};
    (void)bytes;
    return put(self, MOVER_HOST, &piece);
}

/* Returns the queue that was waited for last. */
static enum mover_queue wait_for(struct cores *cores, const struct mover_after *after)
{
    enum mover_queue last = MOVER_COMPUTE;
    while (!complete(cores, after)) {
        for (int q = 0; q < MOVER_QUEUES; q++)
            if (done(cores, q) < after->queue[q])
                last = (enum mover_queue)q;
        share_cores(cores);
        double step = next_event(cores);
        g_assert(isfinite(step));
        pass(cores, step);
    }
    go_on(cores, seconds_ns(cores->threads->constants.wake_seconds));
    return last;
}

/* Sets the share of time that each neighbour (enum platform_neighbour) adds to the work. A move is
 * bound by memory. Of an operator, the part that waits for memory is slowed as memory-bound
 * operators are, the rest as products are. */
static void set_slow_down(const struct cores *cores, const struct timing_work *work,
                          double slow_down[NEIGHBOURS])
{
    const struct platform_threads *constants = &cores->threads->constants;
    const double *memory = constants->slow_down[PLATFORM_MEMORY_BOUND];
    const double *product =
        constants->slow_down[cores->bf16 ? PLATFORM_PRODUCT_BF16 : PLATFORM_PRODUCT_FP32];
    double share = (double)costs_ns(&cores->threads->memory, work->bytes) /
                   (double)MAX(1, work->duration_ns);
    share = MIN(1, share);
    for (int n = 0; n < NEIGHBOURS; n++)
        slow_down[n] = work->is_move ? memory[n] : share * memory[n] + (1 - share) * product[n];
}

/* Returns the time of an operator relative to its time alone. */
static double stretch(const struct cores *cores, const double slow_down[NEIGHBOURS])
{
    double more = 1;
    if (cores->threads->together)
        return 1 / cores->thread[MOVER_COMPUTE].rate;
    for (int q = MOVER_H2D; q <= MOVER_D2H; q++) {
        const struct thread *thread = &cores->thread[q];
        if (!thread->running || thread->left <= 0)
            continue;
        const struct piece *piece = &g_array_index(thread->pieces, struct piece, thread->taken - 1);
        double bytes_per_second = (double)piece->bytes / piece->link * 1e9 * thread->rate;
        more += slow_down[q == MOVER_H2D ? PLATFORM_BESIDE_H2D : PLATFORM_BESIDE_D2H] *
                bytes_per_second / PLATFORM_BESIDE_RATE;
    }
    if (cores->thread[MOVER_HOST].running)
        more += slow_down[PLATFORM_BESIDE_UPDATE] * cores->thread[MOVER_HOST].rate;
    return more;
}

static uint64_t now_ns(const struct cores *cores)
{
    return (uint64_t)llround(cores->now);
}

static struct timing_wait compute(void *self, const struct timing_work *work,
                                  const struct mover_after *after)
{
    struct cores *cores = self;
    struct timing_wait wait = {.queue = MOVER_COMPUTE};
    double left = (double)work->duration_ns, slow_down[NEIGHBOURS], before;
    set_slow_down(cores, work, slow_down);
    cores->work[MOVER_COMPUTE] += left;
    go_on(cores, seconds_ns(cores->threads->constants.gap_seconds));
    before = cores->now;
    if (!complete(cores, after))
        wait.queue = wait_for(cores, after);
    wait.waited_ns = (uint64_t)llround(cores->now - before);
    wait.start_ns = now_ns(cores);
    cores->computing = true;
    while (left > 0) {
        share_cores(cores);
        double slower = stretch(cores, slow_down);
        double step = fmin(next_event(cores), left * slower);
        left = step < left * slower ? left - step / slower : 0;
        pass(cores, step);
    }
    cores->computing = false;
    wait.ticket = ++cores->compute_done;
    wake_ready(cores);
    wait.end_ns = now_ns(cores);
    if (wait.waited_ns)
        wait.waited_for = timeline_numbered(cores->timeline, wait.queue, after->queue[wait.queue]);
    return wait;
}

static struct timing_lap lap(void *self)
{
    struct cores *cores = self;
    struct timing_lap lap = {.end_ns = now_ns(cores)};
    for (int q = 0; q < MOVER_QUEUES; q++) {
        lap.busiest_ns = MAX(lap.busiest_ns, (uint64_t)cores->work[q]);
        cores->work[q] = 0;
    }
    return lap;
}

const struct timing_ops timing_cores = {
    .open = open_cores,
    .close = close_cores,
    .copy = copy,
    .run_on_host = run_on_host,
    .compute = compute,
    .lap = lap,
};
