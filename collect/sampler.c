#include "collect/sampler.h"

#include <glib.h>
#include <signal.h>

enum { PERIOD_US = 50000 };

struct sampler {
    void (*work)(void *data);
    void *data;
    GThread *thread;
    GMutex lock;
    GCond changed;
    bool on, awake, stopped;
};

/* Whether there is work; false: to be stopped. */
static bool wait_for_work(struct sampler *sampler)
{
    g_mutex_lock(&sampler->lock);
    gint64 next = g_get_monotonic_time() + PERIOD_US;
    while (!sampler->stopped && !sampler->awake) {
        if (!sampler->on)
            g_cond_wait(&sampler->changed, &sampler->lock);
        else if (!g_cond_wait_until(&sampler->changed, &sampler->lock, next))
            break;
    }
    sampler->awake = false;
    bool go_on = !sampler->stopped;
    g_mutex_unlock(&sampler->lock);
    return go_on;
}

static void *run(void *data)
{
    struct sampler *sampler = data;
    while (wait_for_work(sampler))
        sampler->work(sampler->data);
    return NULL;
}

struct sampler *sampler_new(void (*work)(void *), void *data)
{
    struct sampler *sampler = g_new0(struct sampler, 1);
    sampler->work = work;
    sampler->data = data;
    g_mutex_init(&sampler->lock);
    g_cond_init(&sampler->changed);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    sampler->thread = g_thread_try_new("pstar-collect", run, sampler, NULL);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (sampler->thread == NULL)
        g_clear_pointer(&sampler, g_free);
    return sampler;
}

void sampler_turn(struct sampler *sampler, bool on)
{
    g_mutex_lock(&sampler->lock);
    sampler->on = on;
    g_cond_signal(&sampler->changed);
    g_mutex_unlock(&sampler->lock);
}

void sampler_wake(struct sampler *sampler)
{
    g_mutex_lock(&sampler->lock);
    sampler->awake = true;
    g_cond_signal(&sampler->changed);
    g_mutex_unlock(&sampler->lock);
}

void sampler_stop(struct sampler *sampler)
{
    if (sampler == NULL)
        return;
    g_mutex_lock(&sampler->lock);
    sampler->stopped = true;
    g_cond_signal(&sampler->changed);
    g_mutex_unlock(&sampler->lock);
    g_thread_join(sampler->thread);
    g_mutex_clear(&sampler->lock);
    g_cond_clear(&sampler->changed);
    g_free(sampler);
}
