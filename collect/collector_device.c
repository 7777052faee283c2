#include "collect/collector_parts.h"

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

/* Returns whether the program's threads have ended. If the first thread ended by pthread_exit, it
 * is still listed, beside the calling one. */
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

/* A process ends with its last thread. The sampler is not the program's, so it ends the process as
 * if it were not there. */
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
    if (g_thread_self() == sampler->thread) /* this thread is ending the process */
        return;
    g_thread_join(sampler->thread);
    g_mutex_clear(&sampler->lock);
    g_cond_clear(&sampler->changed);
    g_free(sampler);
}

/* Device recording: when devices are recorded, samples of the window, and iterations found in
 * launches. */

void collector_leave_out_device(struct collector *collector, GError *error)
{
    harmless_say("what the device does is not recorded: %s", error->message);
    collector->unrecorded = g_strdup_printf("what the device did: %s", error->message);
    g_error_free(error);
}

void collector_open_device(struct collector *collector)
{
    GError *error = NULL;
    if (!collector_has_device(collector))
        return;
    if (device_session_open(collector->device, &error)) {
        if (collector->sampler)
            sampler_turn(collector->sampler, true);
        return;
    }
    collector_leave_out_device(collector, g_steal_pointer(&error));
    if (!collector_note_unknown(collector, &error))
        collector_give_up(collector, error);
}

static void add_counter(void *data, const char *counter, uint64_t value)
{
    const struct record_sample sample = {recording_now(), counter, value};
    g_array_append_val((GArray *)data, sample);
}

/* Runs in the sampler's thread. NVML may be slow, so it is asked without the lock. */
static void work(void *data)
{
    struct collector *collector = data;
    g_autoptr(GArray) counters = g_array_new(FALSE, FALSE, sizeof(struct record_sample));
    if (collector_state(collector) == RECORDING)
        device_session_sample(collector->device, add_counter, counters);
    harmless_lock(&collector->lock);
    if (collector_state(collector) != OVER)
        device_session_read(collector->device);
    if (collector_state(collector) == RECORDING) {
        recording_sample(collector->recording);
        for (guint i = 0; i < counters->len; i++) {
            const struct record_sample *sample = &g_array_index(counters, struct record_sample, i);
            recording_add_sample(collector->recording, sample->time_ns, sample->counter,
                                 sample->value);
        }
        if (collector->window.whole_run)
            collector_flush_in_time(collector);
    }
    harmless_unlock(&collector->lock);
}

static void wake_sampler(void *data)
{
    struct collector *collector = data;
    if (collector->sampler && collector_state(collector) != OVER)
        sampler_wake(collector->sampler);
}

/* Rejects the iteration, because the repetition has stopped, as in an evaluation between two steps.
 */
static void lose_pattern(struct collector *collector)
{
    if (collector->source != REPEATED_LAUNCHES || collector->closing)
        return;
    collector->in_iteration = false;
    if (collector_state(collector) == RECORDING)
        collector_pause(collector);
}

static void follow_launches(struct collector *collector, enum launch_place place, uint64_t passed)
{
    if (place == LAUNCH_LOST || place == LAUNCH_NEVER) {
        lose_pattern(collector);
        return;
    }
    if (collector->source == NOTHING_MARKS && collector_takes_over(collector, REPEATED_LAUNCHES))
        collector->begun = passed + 1;
    if (place == LAUNCH_LAST) {
        collector_end_iteration(collector, REPEATED_LAUNCHES);
        collector_begin_iteration(collector, REPEATED_LAUNCHES);
    }
}

/* Runs in the launching thread, at the end of the launch. */
static void on_launch(void *data, const char *kernel)
{
    struct collector *collector = data;
    if (collector_state(collector) == OVER)
        return;
    g_mutex_lock(&collector->pattern_lock);
    enum launch_place place = launch_pattern_add(collector->pattern, kernel, recording_now());
    uint64_t passed = launch_pattern_passed(collector->pattern);
    g_mutex_unlock(&collector->pattern_lock);
    bool news = place == LAUNCH_LAST || place == LAUNCH_LOST ||
                (place == LAUNCH_WITHIN && collector->source == NOTHING_MARKS);
    if (!news)
        return;
    harmless_lock(&collector->lock);
    follow_launches(collector, place, passed);
    harmless_unlock(&collector->lock);
}

/* Watches launches if nothing else marks iterations so far. */
static void watch_launches(struct collector *collector)
{
    if (collector_state(collector) != PLAIN || collector->range)
        return;
    collector->pattern = launch_pattern_new();
    device_session_watch(collector->device, true);
}

/* Handlers of the exit run in the reverse order of their registration. Those of CUPTI and of the
 * driver, which may drop records, must run after ours. Only the first call of ours does anything.
 */
static void be_first_at_exit(void *data)
{
    const struct collector *collector = data;
    atexit(collector->at_exit);
}

void collector_use_device(struct collector *collector, void (*at_exit)(void))
{
    GError *error = NULL;
    const struct device_hooks hooks = {wake_sampler, on_launch, be_first_at_exit, collector};
    harmless_lock(&collector->lock);
    collector->at_exit = at_exit;
    if (!collector->device && !collector->unrecorded && collector_state(collector) != OVER) {
        collector->device = device_session_new(collector->recording, &hooks, &error);
        if (!collector->device) {
            collector_leave_out_device(collector, g_steal_pointer(&error));
            if (collector->file && !collector_note_unknown(collector, &error))
                collector_give_up(collector, error);
        } else {
            collector->sampler = sampler_new(work, collector);
            watch_launches(collector);
        }
        if (collector_state(collector) == RECORDING)
            collector_open_device(collector);
        be_first_at_exit(collector);
    }
    harmless_unlock(&collector->lock);
}
