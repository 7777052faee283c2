#include "traces/activity/activity_steps.h"
#include "traces/import/guess_parts.h"
#include "traces/summary.h"

static int by_time(const void *left, const void *right)
{
    const struct launch *a = left, *b = right;
    return (a->ns > b->ns) - (a->ns < b->ns);
}

static uint32_t busiest_device(const struct activity *activity)
{
    uint32_t counts[64] = {0}, busiest = 0;
    for (uint32_t i = 0; i < activity->kernel_count; i++)
        if (activity->kernels[i].device < G_N_ELEMENTS(counts))
            counts[activity->kernels[i].device]++;
    for (uint32_t device = 1; device < G_N_ELEMENTS(counts); device++)
        if (counts[device] > counts[busiest])
            busiest = device;
    return busiest;
}

/* Of struct launch, all of a device, in their order. */
static GArray *list_launches(const struct activity *activity, uint32_t device)
{
    g_autoptr(GHashTable) calls = g_hash_table_new(NULL, NULL);
    GArray *launches = g_array_new(FALSE, FALSE, sizeof(struct launch));
    for (uint32_t i = 0; i < activity->call_count; i++)
        g_hash_table_insert(calls, GUINT_TO_POINTER(activity->calls[i].correlation),
                            &activity->calls[i]);
    for (uint32_t i = 0; i < activity->kernel_count; i++) {
        const struct kernel_record *kernel = &activity->kernels[i];
        const struct call_record *call = g_hash_table_lookup(calls,
                                                             GUINT_TO_POINTER(kernel->correlation));
        struct launch launch = {call ? call->start_ns : kernel->start_ns, kernel};
        if (kernel->device == device)
            g_array_append_val(launches, launch);
    }
    g_array_sort(launches, by_time);
    return launches;
}

/* The first that was recorded. */
static bool find_marked(const struct records *records, struct span *span)
{
    for (uint32_t i = 0; i < records->event_count; i++) {
        const struct record *event = &records->events[i];
        if (!summary_is_iteration(records, event))
            continue;
        *span = (struct span){event->start_ns, event->end_ns};
        return true;
    }
    return false;
}

static bool find_repeated(const struct activity *activity, const struct records *records,
                          const GArray *launches, uint32_t device, struct span *span, double *alike)
{
    uint64_t step_ns;
    struct period period = activity_steps(activity, records, device, &step_ns);
    if (period.length == 0)
        return false;
    *alike = period.alike;
    /* Kernels of other streams lie in between: by time, not by number. */
    uint64_t begin_ns = activity_steps_kernel(activity, device, period.first)->start_ns;
    uint64_t end_ns =
        activity_steps_kernel(activity, device, period.first + period.length)->start_ns;
    *span = (struct span){UINT64_MAX, 0};
    for (guint i = 0; i < launches->len; i++) {
        const struct launch *launch = launch_at(launches, i);
        if (launch->kernel->start_ns == begin_ns)
            span->begin_ns = MIN(span->begin_ns, launch->ns);
        if (launch->kernel->start_ns == end_ns)
            span->end_ns = MAX(span->end_ns, launch->ns);
    }
    return span->begin_ns < span->end_ns;
}

/* Launches of the span alone. */
static void cut(GArray *launches, const struct span *span)
{
    guint kept = 0;
    for (guint i = 0; i < launches->len; i++)
        if (launch_at(launches, i)->ns >= span->begin_ns &&
            launch_at(launches, i)->ns < span->end_ns)
            g_array_index(launches, struct launch, kept++) = *launch_at(launches, i);
    g_array_set_size(launches, kept);
}

struct guessed_iteration *guess_iteration(const struct activity *activity,
                                          const struct records *records)
{
    uint32_t device = busiest_device(activity);
    g_autoptr(GArray) launches = list_launches(activity, device);
    struct span span;
    double alike = 0;
    if (launches->len == 0 || (!find_marked(records, &span) &&
                               !find_repeated(activity, records, launches, device, &span, &alike)))
        return NULL;
    cut(launches, &span);
    if (launches->len == 0)
        return NULL;
    struct guessed_iteration *guessed = g_new0(struct guessed_iteration, 1);
    guessed->device = device;
    guessed->kernels = launches->len;
    guessed->alike = alike;
    g_autoptr(GArray) changes = guess_changes(activity, &span, launches, guessed);
    guess_phases(guessed, launches, records, changes);
    return guessed;
}

void guess_free(struct guessed_iteration *guessed)
{
    if (!guessed)
        return;
    g_array_unref(guessed->phases);
    g_free(guessed);
}
