/* The collector's part in what devices do: when they are recorded, the samples of a window, and the
 * iterations that are found in launches. */
#include "collect/collector_parts.h"

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

/* In the sampler's thread. The management library may take its time: not with the lock. */
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
    }
    harmless_unlock(&collector->lock);
}

static void wake_sampler(void *data)
{
    struct collector *collector = data;
    if (collector->sampler && collector_state(collector) != OVER)
        sampler_wake(collector->sampler);
}

/* What repeated does so no more, as in an evaluation between two steps: the iteration is none. */
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

/* In the thread that launches, between its call and what it does next. */
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

/* Where nothing else may mark iterations, so far. */
static void watch_launches(struct collector *collector)
{
    if (collector_state(collector) != PLAIN || collector->range)
        return;
    collector->pattern = launch_pattern_new();
    device_session_watch(collector->device, true);
}

void collector_use_device(struct collector *collector)
{
    GError *error = NULL;
    const struct device_hooks hooks = {wake_sampler, on_launch, collector};
    harmless_lock(&collector->lock);
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
    }
    harmless_unlock(&collector->lock);
}
