#include "sim/workers.h"

#include <glib.h>

enum { PROGRESS_MICROSECONDS = 100 * 1000 };

struct workers {
    const struct workers_job *job;
    gint next; /* atomic: the task to begin next */
    gint stop; /* atomic */
    GMutex lock;
    GCond changed;
    uint32_t done;    /* tasks; guarded by lock */
    uint32_t working; /* threads; guarded by lock */
};

static void *work(void *data)
{
    struct workers *workers = data;
    const struct workers_job *job = workers->job;
    while (!g_atomic_int_get(&workers->stop)) {
        uint32_t index = (uint32_t)g_atomic_int_add(&workers->next, 1);
        if (index >= job->count)
            break;
        job->task(job->data, index);
        g_mutex_lock(&workers->lock);
        workers->done++;
        g_mutex_unlock(&workers->lock);
    }
    g_mutex_lock(&workers->lock);
    workers->working--;
    g_cond_signal(&workers->changed);
    g_mutex_unlock(&workers->lock);
    return NULL;
}

/* Reports until the last thread has ended. */
static void watch(struct workers *workers)
{
    const struct workers_job *job = workers->job;
    g_mutex_lock(&workers->lock);
    while (workers->working) {
        gint64 until = g_get_monotonic_time() + PROGRESS_MICROSECONDS;
        if (g_cond_wait_until(&workers->changed, &workers->lock, until) || !job->progress)
            continue;
        uint32_t done = workers->done;
        g_mutex_unlock(&workers->lock);
        if (!job->progress(job->progress_data, done, job->count))
            g_atomic_int_set(&workers->stop, 1);
        g_mutex_lock(&workers->lock);
    }
    g_mutex_unlock(&workers->lock);
}

void workers_run(const struct workers_job *job)
{
    if (job->count == 0)
        return;
    uint32_t threads = MIN(job->threads ? job->threads : g_get_num_processors(), job->count);
    struct workers workers = {.job = job, .working = threads};
    uint32_t started = 0;
    GThread **handles = g_new(GThread *, threads);
    g_mutex_init(&workers.lock);
    g_cond_init(&workers.changed);
    while (started < threads &&
           (handles[started] = g_thread_try_new("worker", work, &workers, NULL)))
        started++;
    g_mutex_lock(&workers.lock);
    workers.working -= started ? threads - started : threads - 1;
    g_mutex_unlock(&workers.lock);
    if (!started)
        work(&workers); /* the system has no thread left for us */
    watch(&workers);
    for (uint32_t t = 0; t < started; t++)
        g_thread_join(handles[t]);
    g_mutex_clear(&workers.lock);
    g_cond_clear(&workers.changed);
    g_free(handles);
}
