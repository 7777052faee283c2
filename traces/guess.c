#include "traces/guess.h"

#include "traces/activity_steps.h"
#include "traces/kernel_words.h"
#include "traces/size.h"
#include "traces/summary.h"

/* Shares of an iteration's kernels by which two ways to find a phase may differ and still agree. */
static const double agreement = 0.05;

struct launch {
    uint64_t ns; /* of the call, or, where calls were not recorded, of the kernel */
    const struct kernel_record *kernel;
};

struct span {
    uint64_t begin_ns, end_ns;
};

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
        struct launch launch = {call != NULL ? call->start_ns : kernel->start_ns, kernel};
        if (kernel->device == device)
            g_array_append_val(launches, launch);
    }
    g_array_sort(launches, by_time);
    return launches;
}

static const struct launch *launch_at(const GArray *launches, uint32_t place)
{
    return &g_array_index(launches, struct launch, place);
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

static bool find_repeated(const struct activity *activity, const GArray *launches, uint32_t device,
                          struct span *span, double *alike)
{
    uint64_t step_ns;
    struct period period = activity_steps(activity, device, &step_ns);
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

/* How many kernels had been launched. */
static uint32_t moment_of(const GArray *launches, uint64_t ns)
{
    uint32_t low = 0, high = launches->len;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (launch_at(launches, middle)->ns < ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

struct lives {
    uint32_t first_free; /* the moment at which, after the peak, the first is freed */
    uint32_t all_free;   /* at which, after that, all but a tenth of the peak is free */
    bool has_free, has_all;
};

static bool is_device_memory(const struct memory_record *event, uint32_t device)
{
    return event->device == device && (event->kind == MEMORY_DEVICE || event->kind == MEMORY_ARRAY);
}

/* Follows the allocations through the iteration. `visit` is called with each that comes and goes
 * within it. */
static GHashTable *passing_allocations(const struct activity *activity, const struct span *span,
                                       struct guessed_iteration *guessed)
{
    g_autoptr(GHashTable) live = g_hash_table_new(g_int64_hash, g_int64_equal);
    GHashTable *passing = g_hash_table_new(NULL, NULL); /* events: allocations and their frees */
    bool begun = false;
    GHashTableIter iterator;
    gpointer value;
    for (uint32_t i = 0; i <= activity->memory_count; i++) {
        const struct memory_record *event = &activity->memory[i];
        bool ended = i == activity->memory_count || event->start_ns >= span->end_ns;
        if (!begun && (ended || event->start_ns >= span->begin_ns)) {
            begun = true;
            g_hash_table_iter_init(&iterator, live);
            while (g_hash_table_iter_next(&iterator, NULL, &value)) {
                guessed->lasting_count++;
                guessed->lasting_bytes += ((const struct memory_record *)value)->bytes;
            }
        }
        if (ended)
            break;
        if (!is_device_memory(event, guessed->device))
            continue;
        const struct memory_record *before = g_hash_table_lookup(live, &event->address);
        if (event->operation == MEMORY_ALLOCATE) {
            g_hash_table_replace(live, (gpointer)&event->address, (gpointer)event);
        } else if (before != NULL) {
            g_hash_table_remove(live, &event->address);
            bool within = before->start_ns >= span->begin_ns;
            if (within) {
                g_hash_table_insert(passing, (gpointer)before, (gpointer)before);
                g_hash_table_insert(passing, (gpointer)event, (gpointer)before);
            } else if (begun) { /* freed within, after all */
                guessed->lasting_count--;
                guessed->lasting_bytes -= before->bytes;
            }
        }
    }
    g_hash_table_iter_init(&iterator, live);
    while (g_hash_table_iter_next(&iterator, NULL, &value)) {
        const struct memory_record *left = value;
        if (left->start_ns < span->begin_ns)
            continue;
        guessed->new_count++;
        guessed->new_bytes += left->bytes;
    }
    return passing;
}

/* The sum of what comes and goes, event by event. */
static struct lives follow(const struct activity *activity, const struct span *span,
                           const GArray *launches, struct guessed_iteration *guessed)
{
    struct lives lives = {0};
    g_autoptr(GHashTable) passing = passing_allocations(activity, span, guessed);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < activity->memory_count; i++) {
        const struct memory_record *event = &activity->memory[i];
        const struct memory_record *allocation = g_hash_table_lookup(passing, event);
        if (allocation == NULL)
            continue;
        bool allocates = allocation == event;
        uint32_t moment = moment_of(launches, event->start_ns);
        guessed->passing_count += allocates;
        bytes += allocates ? allocation->bytes : -allocation->bytes;
        if (bytes > guessed->passing_peak_bytes) {
            guessed->passing_peak_bytes = bytes;
            guessed->passing_peak_kernel = moment;
            lives = (struct lives){0};
        } else if (!allocates && !lives.has_free) {
            lives.has_free = true;
            lives.first_free = moment;
        }
        if (lives.has_free && !lives.has_all && bytes <= guessed->passing_peak_bytes / 10) {
            lives.has_all = true;
            lives.all_free = moment;
        }
    }
    return lives;
}

/* The first kernel from `from` on that is named so; the number of kernels where none is. */
static uint32_t first_named(const GArray *launches, const struct records *records, uint32_t from,
                            bool (*is_named)(const char *name))
{
    for (uint32_t i = from; i < launches->len; i++)
        if (is_named(records_text(records, launch_at(launches, i)->kernel->name)))
            return i;
    return launches->len;
}

/* Names count first. */
static uint32_t choose(uint32_t named, bool has_memory, uint32_t by_memory, uint32_t kernels,
                       uint32_t *by)
{
    bool has_name = named < kernels;
    uint32_t apart = named > by_memory ? named - by_memory : by_memory - named;
    bool agree = has_name && has_memory && apart <= agreement * kernels + 1;
    *by = agree ? GUESSED_BOTH
                : (has_name     ? GUESSED_NAMES
                   : has_memory ? GUESSED_MEMORY
                                : GUESSED_NOT);
    return has_name ? named : has_memory ? MIN(by_memory, kernels) : kernels;
}

static void set_phase(struct guessed_phase *phase, const GArray *launches, uint32_t first,
                      uint32_t end)
{
    phase->first = first;
    phase->kernels = end > first ? end - first : 0;
    for (uint32_t i = first; i < end; i++) {
        const struct kernel_record *kernel = launch_at(launches, i)->kernel;
        phase->ns += kernel->end_ns - kernel->start_ns;
    }
}

static void find_phases(struct guessed_iteration *guessed, const GArray *launches,
                        const struct records *records, const struct lives *lives)
{
    uint32_t kernels = launches->len;
    uint32_t backward = choose(first_named(launches, records, 0, kernel_words_backward),
                               lives->has_free, lives->first_free, kernels, &guessed->backward.by);
    uint32_t update =
        choose(first_named(launches, records, MIN(backward, kernels), kernel_words_optimizer),
               lives->has_all && lives->all_free > backward, lives->all_free, kernels,
               &guessed->update.by);
    update = MAX(update, backward);
    set_phase(&guessed->forward, launches, 0, backward);
    set_phase(&guessed->backward, launches, backward, update);
    set_phase(&guessed->update, launches, update, kernels);
    guessed->forward.by = guessed->backward.by;
}

struct guessed_iteration *guess_iteration(const struct activity *activity,
                                          const struct records *records)
{
    uint32_t device = busiest_device(activity);
    g_autoptr(GArray) launches = list_launches(activity, device);
    struct span span;
    double alike = 0;
    if (launches->len == 0 ||
        (!find_marked(records, &span) && !find_repeated(activity, launches, device, &span, &alike)))
        return NULL;
    cut(launches, &span);
    if (launches->len == 0)
        return NULL;
    struct guessed_iteration *guessed = g_new0(struct guessed_iteration, 1);
    guessed->device = device;
    guessed->kernels = launches->len;
    guessed->alike = alike;
    struct lives lives = follow(activity, &span, launches, guessed);
    find_phases(guessed, launches, records, &lives);
    return guessed;
}
