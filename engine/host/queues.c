#include "engine/host/queues.h"

#include "base/process_limits.h"

#include <stdatomic.h>
#include <time.h>

struct queued_work {
    struct mover_after after;
    uint64_t work[]; /* aligned for anything */
};

struct work_queue {
    struct work_queues *queues;
    GThread *thread; /* NULL if the caller does this queue's work */
    GCond ready;     /* the thread can go on */
    queues_run *run;
    void (*enter)(void *self);
    void *self;
    GQueue waiting; /* struct queued_work */
    mover_ticket put;
    _Atomic mover_ticket done;
};

struct work_queues {
    GMutex lock;      /* protects all fields; `done` is written under it but read without it */
    GCond changed;    /* work is complete; for queues_wait */
    uint32_t waiting; /* threads in queues_wait */
    bool ending;
    struct work_queue queue[MOVER_QUEUES];
};

struct work_queues *queues_new(void)
{
    struct work_queues *queues = g_new0(struct work_queues, 1);
    g_mutex_init(&queues->lock);
    g_cond_init(&queues->changed);
    for (int q = 0; q < MOVER_QUEUES; q++) {
        queues->queue[q].queues = queues;
        g_cond_init(&queues->queue[q].ready);
        g_queue_init(&queues->queue[q].waiting);
    }
    return queues;
}

static bool complete(struct work_queues *queues, const struct mover_after *after)
{
    for (int q = 0; q < MOVER_QUEUES; q++)
        if (atomic_load_explicit(&queues->queue[q].done, memory_order_acquire) < after->queue[q])
            return false;
    return true;
}

static bool can_go_on(struct work_queue *queue)
{
    const struct queued_work *next = g_queue_peek_head(&queue->waiting);
    return next ? complete(queue->queues, &next->after) : queue->queues->ending;
}

/* Wakes a thread only if it can go on: where it shares a core with one that computes, to wake for
 * nothing takes time from that. */
static void wake(struct work_queue *queue)
{
    if (can_go_on(queue))
        g_cond_signal(&queue->ready);
}

static void finish(struct work_queues *queues, struct work_queue *queue)
{
    g_mutex_lock(&queues->lock);
    atomic_fetch_add_explicit(&queue->done, 1, memory_order_release);
    for (int q = 0; q < MOVER_QUEUES; q++)
        wake(&queues->queue[q]);
    if (queues->waiting)
        g_cond_broadcast(&queues->changed);
    g_mutex_unlock(&queues->lock);
}

/* Returns the next piece once everything that it waits for is complete, or NULL at the end. */
static struct queued_work *take(struct work_queue *queue, bool *at_once)
{
    struct work_queues *queues = queue->queues;
    *at_once = true;
    g_mutex_lock(&queues->lock);
    while (!can_go_on(queue)) {
        *at_once = false;
        g_cond_wait(&queue->ready, &queues->lock);
    }
    struct queued_work *piece = g_queue_pop_head(&queue->waiting);
    g_mutex_unlock(&queues->lock);
    return piece;
}

static void *serve(void *data)
{
    struct work_queue *queue = data;
    struct queued_work *piece;
    bool at_once;
    if (queue->enter)
        queue->enter(queue->self);
    while ((piece = take(queue, &at_once))) {
        queue->run(queue->self, piece->work, at_once);
        g_free(piece);
        finish(queue->queues, queue);
    }
    return NULL;
}

bool queues_start(struct work_queues *queues, enum mover_queue which, queues_run *run,
                  void (*enter)(void *self), void *self, GError **error)
{
    static const char *const names[MOVER_QUEUES] = {"compute", "h2d",       "d2h",       "host",
                                                    "network", "nvme read", "nvme write"};
    struct work_queue *queue = &queues->queue[which];
    g_assert(!queue->thread);
    queue->run = run;
    queue->enter = enter;
    queue->self = self;
    queue->thread = process_thread_new(names[which], serve, queue, error);
    return queue->thread != NULL;
}

mover_ticket queues_put(struct work_queues *queues, enum mover_queue which, const void *work,
                        uint32_t bytes, const struct mover_after *after)
{
    struct work_queue *queue = &queues->queue[which];
    struct queued_work *piece = g_malloc(sizeof *piece + bytes);
    g_assert(queue->thread);
    piece->after = *after;
    memcpy(piece->work, work, bytes);
    g_mutex_lock(&queues->lock);
    g_queue_push_tail(&queue->waiting, piece);
    mover_ticket ticket = ++queue->put;
    wake(queue);
    g_mutex_unlock(&queues->lock);
    return ticket;
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

uint64_t queues_wait(struct work_queues *queues, const struct mover_after *after)
{
    if (complete(queues, after))
        return 0;
    uint64_t start = now_ns();
    g_mutex_lock(&queues->lock);
    queues->waiting++;
    while (!complete(queues, after))
        g_cond_wait(&queues->changed, &queues->lock);
    queues->waiting--;
    g_mutex_unlock(&queues->lock);
    return now_ns() - start;
}

mover_ticket queues_complete(struct work_queues *queues, enum mover_queue which)
{
    struct work_queue *queue = &queues->queue[which];
    g_assert(!queue->thread);
    mover_ticket ticket = ++queue->put;
    finish(queues, queue);
    return ticket;
}

struct mover_after queues_all(const struct work_queues *queues)
{
    struct mover_after all;
    for (int q = 0; q < MOVER_QUEUES; q++)
        all.queue[q] = queues->queue[q].put;
    return all;
}

void queues_free(struct work_queues *queues)
{
    g_mutex_lock(&queues->lock);
    queues->ending = true;
    for (int q = 0; q < MOVER_QUEUES; q++)
        wake(&queues->queue[q]);
    g_mutex_unlock(&queues->lock);
    for (int q = 0; q < MOVER_QUEUES; q++)
        if (queues->queue[q].thread)
            g_thread_join(queues->queue[q].thread);
    for (int q = 0; q < MOVER_QUEUES; q++)
        g_cond_clear(&queues->queue[q].ready);
    g_cond_clear(&queues->changed);
    g_mutex_clear(&queues->lock);
    g_free(queues);
}
