#include "collect/sampler.h"

#include <glib.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { PERIOD_US = 50000, LOOK_US = 1000000 };

struct sampler {
    void (*work)(void *data);
    void *data;
    GThread *thread;
    GMutex lock;
    GCond changed;
    bool on, awake, stopped;
};

enum reason { STOPPED, WORK, LOOK };

static enum reason wait_for_work(struct sampler *sampler)
{
    g_mutex_lock(&sampler->lock);
    bool on = sampler->on, in_time = true;
    gint64 next = g_get_monotonic_time() + (on ? PERIOD_US : LOOK_US);
    while (!sampler->stopped && !sampler->awake && sampler->on == on && in_time)
        in_time = g_cond_wait_until(&sampler->changed, &sampler->lock, next);
    enum reason reason = sampler->stopped                     ? STOPPED
                         : sampler->awake || (on && !in_time) ? WORK
                                                              : LOOK;
    sampler->awake = false;
    g_mutex_unlock(&sampler->lock);
    return reason;
}

/* Whether the program's threads have ended, the first one by pthread_exit: it is still listed, as
 * the thread that asks is. */
static bool is_alone(void)
{
    g_autofree char *stat = NULL;
    if (!g_file_get_contents("/proc/self/stat", &stat, NULL, NULL))
        return false;
    const char *state = strrchr(stat, ')');
    if (!state || strncmp(state, ") Z", 3) != 0)
        return false;
    g_autoptr(GDir) threads = g_dir_open("/proc/self/task", 0, NULL);
    guint count = 0;
    while (threads && g_dir_read_name(threads))
        count++;
    return count == 2;
}

/* A process ends with its last thread, and this is none of the program's: it ends as it would have
 * without. */
static void *run(void *data)
{
    struct sampler *sampler = data;
    gint64 looked_us = 0;
    enum reason reason;
    while ((reason = wait_for_work(sampler)) != STOPPED) {
        if (reason == WORK)
            sampler->work(sampler->data);
        if (g_get_monotonic_time() - looked_us >= LOOK_US) {
            looked_us = g_get_monotonic_time();
            if (is_alone())
                exit(0);
        }
    }
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
    if (!sampler->thread)
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
    if (!sampler)
        return;
    g_mutex_lock(&sampler->lock);
    sampler->stopped = true;
    g_cond_signal(&sampler->changed);
    g_mutex_unlock(&sampler->lock);
    if (g_thread_self() == sampler->thread) /* it ends the process */
        return;
    g_thread_join(sampler->thread);
    g_mutex_clear(&sampler->lock);
    g_cond_clear(&sampler->changed);
    g_free(sampler);
}
