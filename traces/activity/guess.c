#include "traces/activity/guess.h"

#include "traces/activity/steps.h"
#include "traces/summary.h"

#include <string.h>

/* A kernel launch. In this file a moment is a number of launched kernels. */

struct launch {
    uint64_t ns; /* time of the call, or of the kernel if calls were not recorded */
    const struct kernel_record *kernel;
};

struct span {
    uint64_t begin_ns, end_ns;
};

static inline const struct launch *launch_at(const GArray *launches, uint32_t place)
{
    return &g_array_index(launches, struct launch, place);
}

/* The begin or end of an allocation that comes and goes within the iteration. */
struct live_change {
    moment_id moment;
    uint32_t until; /* the moment of its end, possibly this one */
    int64_t bytes;  /* < 0 at its end */
};

/* A rise and fall of non-model data, as in forward and backward. */
struct rise {
    uint32_t begin;      /* moment of its first allocation */
    uint32_t first_free; /* moment of the first free after the peak */
    uint32_t all_free;   /* moment at which only a tenth of the peak is left; UINT32_MAX if never */
};

/* Returns the number of kernels launched before a time. */
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

static bool is_device_memory(const struct memory_record *event, uint32_t device)
{
    return event->device == device && (event->kind == MEMORY_DEVICE || event->kind == MEMORY_ARRAY);
}

/* Classifies the allocations by following them through the iteration. Returns those that come and
 * go within it. */
static GHashTable *passing_allocations(const struct activity *activity, const struct span *span,
                                       struct guessed_iteration *guessed)
{
    g_autoptr(GHashTable) live = g_hash_table_new(g_int64_hash, g_int64_equal);
    GHashTable *passing = g_hash_table_new(NULL,
                                           NULL); /* allocations and frees to their allocation */
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
        } else if (before) {
            g_hash_table_remove(live, &event->address);
            bool within = before->start_ns >= span->begin_ns;
            if (within) {
                g_hash_table_insert(passing, (gpointer)before, (gpointer)before);
                g_hash_table_insert(passing, (gpointer)event, (gpointer)before);
            } else if (begun) { /* it lasted until now, but is freed within */
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

/* Returns the sequence of struct live_change. Sets the memory fields of `guessed`, except `rises`.
 */
static GArray *guess_changes(const struct activity *activity, const struct span *span,
                             const GArray *launches, struct guessed_iteration *guessed)
{
    GArray *changes = g_array_new(FALSE, FALSE, sizeof(struct live_change));
    g_autoptr(GHashTable) passing = passing_allocations(activity, span, guessed);
    g_autoptr(GHashTable) begun = g_hash_table_new(NULL, NULL); /* allocation to 1 + its index */
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < activity->memory_count; i++) {
        const struct memory_record *event = &activity->memory[i];
        const struct memory_record *allocation = g_hash_table_lookup(passing, event);
        if (!allocation)
            continue;
        bool allocates = allocation == event;
        moment_id moment = moment_of(launches, event->start_ns);
        struct live_change change = {moment, moment, (int64_t)allocation->bytes};
        if (allocates) {
            g_hash_table_insert(begun, (gpointer)event, GUINT_TO_POINTER(changes->len + 1));
        } else {
            guint place = GPOINTER_TO_UINT(g_hash_table_lookup(begun, allocation)) - 1;
            g_array_index(changes, struct live_change, place).until = moment;
            change.bytes = -change.bytes;
        }
        g_array_append_val(changes, change);
        guessed->passing_count += allocates;
        bytes += (uint64_t)change.bytes;
        if (bytes > guessed->passing_peak_bytes) {
            guessed->passing_peak_bytes = bytes;
            guessed->passing_peak_kernel = moment;
        }
    }
    return changes;
}

static int64_t highest(const GArray *changes, uint32_t update)
{
    int64_t bytes = 0, most = 0;
    for (guint i = 0; i < changes->len; i++) {
        const struct live_change *change = &g_array_index(changes, struct live_change, i);
        bytes += change->until < update ? change->bytes : 0;
        most = MAX(most, bytes);
    }
    return most;
}

/* State of following one rise. */
struct follower {
    struct rise rise;
    int64_t bytes, peak, valley; /* the valley follows the peak */
    uint32_t valley_end;         /* moment of the first allocation after the valley */
    bool has_free, left_valley;
};

static void follow(struct follower *f, const struct live_change *change)
{
    f->bytes += change->bytes;
    if (f->bytes > f->peak) {
        f->peak = f->valley = f->bytes;
        f->has_free = f->left_valley = false;
        f->rise.all_free = UINT32_MAX;
    } else if (change->bytes < 0 && !f->has_free) {
        f->has_free = true;
        f->rise.first_free = change->moment;
    }
    if (f->bytes <= f->valley) {
        f->valley = f->bytes;
        f->left_valley = false;
    } else if (!f->left_valley) {
        f->left_valley = true;
        f->valley_end = change->moment;
    }
    if (f->has_free && f->rise.all_free == UINT32_MAX && f->bytes <= f->peak / 10)
        f->rise.all_free = change->moment;
}

/* Returns struct rise: falls of at least half the highest peak separate them. Allocations that are
 * live at moment `update` are ignored, because they may be gradients. */
static GArray *guess_rises(const GArray *changes, uint32_t update)
{
    GArray *rises = g_array_new(FALSE, FALSE, sizeof(struct rise));
    int64_t half = MAX(highest(changes, update) / 2, 1);
    struct follower f = {.rise.all_free = UINT32_MAX};
    for (guint i = 0; i < changes->len; i++) {
        const struct live_change *change = &g_array_index(changes, struct live_change, i);
        if (change->until >= update)
            continue;
        bool again = f.peak - f.valley >= half && f.bytes + change->bytes - f.valley >= half;
        if (again && f.has_free) {
            g_array_append_val(rises, f.rise);
            uint32_t begin = f.left_valley ? f.valley_end : change->moment;
            f = (struct follower){.rise = {begin, begin, UINT32_MAX},
                                  .bytes = f.bytes,
                                  .peak = f.bytes,
                                  .valley = f.bytes};
        }
        follow(&f, change);
    }
    if (f.has_free)
        g_array_append_val(rises, f.rise);
    return rises;
}

/* Two ways to find a phase agree within `agreement` of the iteration's kernels. The forward of
 * another micro-batch may differ from the first in the share `unlike` of its kernels, and in at
 * most MOST_UNLIKE of them. */
static const double agreement = 0.05, unlike = 0.25;
enum { MOST_UNLIKE = 1024, END = 4 };

/* Begins of a micro-batch's phases. */
struct micro_batch {
    uint32_t forward, backward;
};

/* Returns the first kernel from `from` on with such a name, or the number of kernels. */
static uint32_t first_named(const GArray *launches, const struct records *records, uint32_t from,
                            bool (*is_named)(const char *name))
{
    for (uint32_t i = from; i < launches->len; i++)
        if (is_named(records_text(records, launch_at(launches, i)->kernel->name)))
            return i;
    return launches->len;
}

static bool close_to(uint32_t left, uint32_t right, uint32_t kernels)
{
    return (left > right ? left - right : right - left) <= agreement * kernels + 1;
}

/* Names have priority over memory. */
static uint32_t choose(uint32_t named, bool has_memory, uint32_t by_memory, uint32_t kernels,
                       uint8_t *by)
{
    bool has_name = named < kernels;
    bool agree = has_name && has_memory && close_to(named, by_memory, kernels);
    *by = agree ? GUESSED_BOTH
                : (has_name     ? GUESSED_NAMES
                   : has_memory ? GUESSED_MEMORY
                                : GUESSED_NOT);
    return has_name ? named : has_memory ? MIN(by_memory, kernels) : kernels;
}

/* Free with g_free. */
static char *without_digits(const char *name)
{
    char *copy = g_strdup(name), *to = copy;
    for (const char *from = copy; *from != '\0'; from++)
        if (!g_ascii_isdigit(*from))
            *to++ = *from;
    *to = '\0';
    return copy;
}

/* Returns [launches->len] a number for each name without digits, because digits encode shapes. */
static uint32_t *number_names(const GArray *launches, const struct records *records)
{
    uint32_t *numbers = g_new(uint32_t, launches->len);
    g_autoptr(GHashTable) by_id = g_hash_table_new(NULL, NULL);
    g_autoptr(GHashTable) by_name = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    for (guint i = 0; i < launches->len; i++) {
        gpointer id = GUINT_TO_POINTER(launch_at(launches, i)->kernel->name), number;
        if (!g_hash_table_lookup_extended(by_id, id, NULL, &number)) {
            char *name = without_digits(records_text(records, GPOINTER_TO_UINT(id)));
            if (!g_hash_table_lookup_extended(by_name, name, NULL, &number))
                number = GUINT_TO_POINTER(g_hash_table_size(by_name));
            g_hash_table_insert(by_name, name, number);
            g_hash_table_insert(by_id, id, number);
        }
        numbers[i] = GPOINTER_TO_UINT(number);
    }
    return numbers;
}

/* Compares, from the last to the first, the first `length` names with at most `room` names before
 * `end`. */
struct comparison {
    const uint32_t *names;
    int32_t length, end, room;
};

/* With `done` of the first names and done - k of the others consumed, consumes equal names. Returns
 * the new `done`, or -1 if there are not enough names. */
static int32_t follow_equal(const struct comparison *c, int32_t done, int32_t k)
{
    if (done < 0 || done > c->length || done - k < 0 || done - k > c->room)
        return -1;
    while (done < c->length && done - k < c->room &&
           c->names[c->length - 1 - done] == c->names[c->end - 1 - (done - k)])
        done++;
    return done;
}

/* Returns how many names before `end` repeat the first `length`, allowing a few missing or
 * additional ones; 0 if they do not. Myers' algorithm for the shortest edit. */
static uint32_t length_alike(const struct comparison *c)
{
    int32_t most = (int32_t)MIN(unlike * c->length, MOST_UNLIKE);
    /* Furthest position for each diagonal k, beginning at -most - 1. */
    g_autofree int32_t *reached = g_new(int32_t, 2 * (size_t)most + 3);
    for (int32_t i = 0; i < 2 * most + 3; i++)
        reached[i] = -1;
    for (int32_t edits = 0; edits <= most; edits++) {
        for (int32_t k = -edits; k <= edits; k += 2) {
            int32_t *place = &reached[most + 1 + k];
            int32_t left_out = place[-1] >= 0 ? follow_equal(c, place[-1] + 1, k) : -1;
            int32_t added = follow_equal(c, place[1], k);
            *place = edits == 0 ? follow_equal(c, 0, 0) : MAX(left_out, added);
            if (*place == c->length)
                return (uint32_t)(*place - k);
        }
    }
    return 0;
}

/* Returns whether the same few names precede both positions. */
static bool same_end(const uint32_t *names, uint32_t first, uint32_t second)
{
    uint32_t compared = MIN(first, END);
    return memcmp(names + first - compared, names + second - compared,
                  compared * sizeof names[0]) == 0;
}

/* Returns struct micro_batch: positions with the same kernels as before the first backward. */
static GArray *find_micro_batches(struct guessed_iteration *guessed, const GArray *launches,
                                  const struct records *records, uint32_t backward)
{
    GArray *batches = g_array_new(FALSE, FALSE, sizeof(struct micro_batch));
    struct micro_batch batch = {0, backward};
    g_array_append_val(batches, batch);
    if (backward == 0 || backward >= launches->len)
        return batches;
    g_autofree uint32_t *names = number_names(launches, records);
    guessed->turns = 1;
    if (names[backward] == names[backward - 1]) /* the names do not tell where a forward ends */
        return batches;
    for (uint32_t i = backward + 1; i < launches->len; i++) {
        if (names[i] != names[backward] || names[i - 1] != names[backward - 1])
            continue;
        guessed->turns += same_end(names, backward, i);
        const struct comparison comparison = {names, (int32_t)backward, (int32_t)i,
                                              (int32_t)(i - batch.backward - 1)};
        uint32_t length = length_alike(&comparison);
        if (length == 0)
            continue;
        batch = (struct micro_batch){i - length, i};
        g_array_append_val(batches, batch);
    }
    return batches;
}

static void add_phase(struct guessed_iteration *guessed, const GArray *launches, uint8_t kind,
                      uint32_t first, uint32_t end, uint8_t by)
{
    struct guessed_phase phase = {.first = first, .kernels = end - first, .phase = kind, .by = by};
    if (end <= first)
        return;
    for (uint32_t i = first; i < end; i++) {
        const struct kernel_record *kernel = launch_at(launches, i)->kernel;
        phase.ns += kernel->end_ns - kernel->start_ns;
    }
    g_array_append_val(guessed->phases, phase);
}

static uint32_t count_named(const GArray *launches, const struct records *records, uint32_t from,
                            uint32_t end, bool (*is_named)(const char *name))
{
    uint32_t count = 0;
    for (uint32_t i = from; i < end; i++)
        count += is_named(records_text(records, launch_at(launches, i)->kernel->name));
    return count;
}

/* Finds the begin of the update in the micro-batch that ends at `end`. `rise` may be NULL. */
static uint32_t find_update(const GArray *launches, const struct records *records,
                            const struct rise *rise, uint32_t backward, uint8_t *by)
{
    bool has_memory = rise && rise->all_free != UINT32_MAX && rise->all_free > backward;
    return choose(first_named(launches, records, backward, kernel_words_optimizer), has_memory,
                  has_memory ? rise->all_free : 0, launches->len, by);
}

/* Memory can agree only if it shows the same number of micro-batches. */
static uint8_t with_memory(const GArray *batches, const GArray *rises, uint32_t moment,
                           uint32_t by_memory, uint32_t kernels)
{
    return rises->len == batches->len && close_to(moment, by_memory, kernels) ? GUESSED_BOTH
                                                                              : GUESSED_NAMES;
}

static void add_phases(struct guessed_iteration *guessed, const GArray *launches,
                       const struct records *records, const GArray *batches, const GArray *rises,
                       uint8_t first_by)
{
    uint32_t kernels = launches->len;
    const struct micro_batch *last = &g_array_index(batches, struct micro_batch, batches->len - 1);
    uint32_t updates = count_named(launches, records, last->backward, kernels,
                                   kernel_words_optimizer);
    for (guint i = 0; i < batches->len; i++) {
        const struct micro_batch *batch = &g_array_index(batches, struct micro_batch, i);
        bool as_many = rises->len == batches->len;
        const struct rise *rise = as_many ? &g_array_index(rises, struct rise, i) : NULL;
        uint32_t end = batch == last ? kernels : batch[1].forward;
        uint8_t by = first_by, update_by;
        uint32_t update = find_update(launches, records, rise, batch->backward, &update_by);
        /* If only few kernels between two micro-batches have optimizer names, there is no update.
         */
        if (batch != last &&
            2 * count_named(launches, records, batch->backward, end, kernel_words_optimizer) <
                MAX(updates, 1))
            update = end;
        update = MIN(update, end);
        if (i > 0)
            by = with_memory(batches, rises, batch->forward, rise ? rise->begin : 0, kernels);
        add_phase(guessed, launches, TRACE_FORWARD, batch->forward, batch->backward, by);
        if (i > 0)
            by = with_memory(batches, rises, batch->backward, rise ? rise->first_free : 0, kernels);
        add_phase(guessed, launches, TRACE_BACKWARD, batch->backward, update, by);
        add_phase(guessed, launches, TRACE_UPDATE_PHASE, update, end, update_by);
    }
}

/* Sets the phases, `micro_batches`, `turns` and `rises`. */
static void guess_phases(struct guessed_iteration *guessed, const GArray *launches,
                         const struct records *records, const GArray *changes)
{
    uint32_t kernels = launches->len;
    uint32_t named = first_named(launches, records, 0, kernel_words_backward);
    uint32_t searched = named < kernels ? named : guessed->passing_peak_kernel;
    uint32_t update = first_named(launches, records, MIN(searched, kernels),
                                  kernel_words_optimizer);
    g_autoptr(GArray) rises = guess_rises(changes, update);
    const struct rise *first = rises->len > 0 ? &g_array_index(rises, struct rise, 0) : NULL;
    uint8_t by;
    uint32_t backward = choose(named, first != NULL, first ? first->first_free : 0, kernels, &by);
    g_autoptr(GArray) batches = find_micro_batches(guessed, launches, records, backward);
    guessed->phases = g_array_new(FALSE, FALSE, sizeof(struct guessed_phase));
    guessed->micro_batches = batches->len;
    guessed->rises = rises->len;
    add_phases(guessed, launches, records, batches, rises, by);
}

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

/* Returns the launches on a device in order (struct launch). */
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

/* Finds the first recorded iteration. */
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
    /* Kernels of other streams lie in between, so use times instead of indices. */
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

/* Keeps only the launches within the span. */
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
