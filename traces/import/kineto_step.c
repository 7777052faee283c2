#include "traces/import/kineto.h"

#include <string.h>

#define KINETO_NODE      "autograd::engine::evaluate_function: "
#define ACCUMULATE       "torch::autograd::AccumulateGrad"
#define REENTRANT        "CheckpointFunctionBackward"
#define STEP             "ProfilerStep#"
#define KINETO_OPTIMIZER "Optimizer.step#"

struct step_window {
    uint64_t start_ns, end_ns;
};

static const struct kineto_range *range_at(const struct kineto *kineto, guint index)
{
    return &g_array_index(kineto->ranges, struct kineto_range, index);
}

static const char *name_of(const struct kineto *kineto, const struct kineto_range *range)
{
    return string_table_text(kineto->strings, range->name);
}

static void step_free(gpointer data)
{
    struct kineto_step *step = (struct kineto_step *)data;
    g_array_unref(step->works);
    g_array_unref(step->gradients);
    g_array_unref(step->alone);
    g_free(step);
}

/* Finds ranges that the program or the profiler has marked as steps. */
static void find_marks(const struct kineto *kineto, GArray *windows)
{
    for (guint i = 0; i < kineto->ranges->len; i++) {
        const struct kineto_range *range = range_at(kineto, i);
        struct step_window window = {range->start_ns, range->end_ns};
        if (range->annotation && g_str_has_prefix(name_of(kineto, range), STEP))
            g_array_append_val(windows, window);
    }
}

/* Finds steps from the end of an update to the end of the next. */
static void find_updates(const struct kineto *kineto, GArray *windows)
{
    uint64_t last_ns = 0;
    for (guint i = 0; i < kineto->ranges->len; i++) {
        const struct kineto_range *range = range_at(kineto, i);
        if (!range->annotation || !g_str_has_prefix(name_of(kineto, range), KINETO_OPTIMIZER))
            continue;
        struct step_window window = {last_ns, range->end_ns};
        if (last_ns > 0)
            g_array_append_val(windows, window);
        last_ns = range->end_ns;
    }
}

static const char *find_windows(const struct kineto *kineto, GArray *windows)
{
    find_marks(kineto, windows);
    if (windows->len > 0)
        return "ProfilerStep marks";
    find_updates(kineto, windows);
    if (windows->len > 0)
        return "the ends of the optimizer's steps";
    struct step_window all = {0, UINT64_MAX};
    g_array_append_val(windows, all);
    return "nothing: the whole file is one step";
}

/* State of walking through a step's ranges in order of start. */
struct walk {
    const struct kineto *kineto;
    struct kineto_step *step;
    GHashTable *threads;    /* backward threads, which execute nodes */
    GHashTable *open_until; /* thread to the end (uint64_t *) of its latest outermost operator */
    uint64_t update_until;  /* end of the latest optimizer step */
    uint64_t last_node;     /* sequence number of the latest node */
    uint64_t inner_until;   /* end of the latest backward of a reentrant checkpoint */
    uint32_t inner_shape;   /* shape of the gradient that it receives */
    uint32_t main_thread;   /* the thread that runs forward */
};

static bool is_node(const struct walk *walk, const struct kineto_range *range)
{
    return !range->annotation && g_str_has_prefix(name_of(walk->kineto, range), KINETO_NODE);
}

/* Returns whether the range is in no other range of its thread, and if so makes it the latest
 * outermost one. */
static bool is_outermost(const struct walk *walk, const struct kineto_range *range)
{
    gpointer thread = GUINT_TO_POINTER(range->thread);
    const uint64_t *until = (const uint64_t *)g_hash_table_lookup(walk->open_until, thread);
    if (until && range->start_ns < *until)
        return false;
    g_hash_table_insert(walk->open_until, thread, g_memdup2(&range->end_ns, sizeof range->end_ns));
    return true;
}

static void add_work(struct walk *walk, const struct kineto_range *range)
{
    struct kineto_work work = {.range = range,
                               .start_ns = range->start_ns,
                               .sequence = range->sequence,
                               .phase = is_node(walk, range)                   ? TRACE_BACKWARD
                                        : range->start_ns < walk->update_until ? TRACE_UPDATE_PHASE
                                                                               : TRACE_FORWARD};
    g_array_append_val(walk->step->works, work);
}

/* Returns whether the gradient is that of a reentrant checkpoint's input, a leaf of the backward
 * within. Its shape is that of the output, because layers keep the shape. */
static bool is_of_input(const struct walk *walk, const struct kineto_range *range)
{
    return range->start_ns < walk->inner_until && range->shape && range->shape == walk->inner_shape;
}

static void add_gradient(const struct walk *walk, const struct kineto_range *range)
{
    if (is_of_input(walk, range)) {
        walk->step->inputs++;
        return;
    }
    struct kineto_gradient gradient = {.sequence = walk->last_node,
                                       .elements = range->elements,
                                       .work = walk->step->works->len - 1,
                                       .shape = range->shape,
                                       .type = range->type};
    if (walk->step->works->len > 0)
        g_array_append_val(walk->step->gradients, gradient);
}

static void take_range(struct walk *walk, const struct kineto_range *range)
{
    const char *name = name_of(walk->kineto, range);
    if (range->annotation) {
        if (g_str_has_prefix(name, KINETO_OPTIMIZER))
            walk->update_until = range->end_ns;
        return;
    }
    bool node = is_node(walk, range), accumulates = strcmp(name, KINETO_NODE ACCUMULATE) == 0;
    bool outermost = is_outermost(walk, range);
    if (strcmp(name, REENTRANT) == 0) {
        walk->inner_until = range->end_ns;
        walk->inner_shape = range->shape;
    }
    if (node && !accumulates)
        walk->last_node = range->sequence;
    if (outermost && !accumulates)
        add_work(walk, range);
    else if (strcmp(name, ACCUMULATE) == 0)
        add_gradient(walk, range);
}

/* The forward thread is the thread of the first operator that is not a backward node. */
static uint32_t find_main_thread(const struct walk *walk)
{
    for (guint i = 0; i < walk->kineto->ranges->len; i++) {
        const struct kineto_range *range = range_at(walk->kineto, i);
        if (range->start_ns >= walk->step->start_ns && !is_node(walk, range))
            return range->thread;
    }
    return 0;
}

static void find_backward_threads(const struct walk *walk)
{
    for (guint i = 0; i < walk->kineto->ranges->len; i++)
        if (is_node(walk, range_at(walk->kineto, i)))
            g_hash_table_add(walk->threads, GUINT_TO_POINTER(range_at(walk->kineto, i)->thread));
}

/* Work after the last node belongs to the update, marked or not. Forward work after an earlier node
 * begins another micro-batch. */
static void settle_phases(struct kineto_step *step)
{
    uint32_t last_node = 0, micro_batch = 0;
    for (uint32_t i = 0; i < step->works->len; i++)
        if (kineto_work_at(step, i)->phase == TRACE_BACKWARD)
            last_node = i;
    for (uint32_t i = 0; i < step->works->len; i++) {
        struct kineto_work *work = kineto_work_at(step, i);
        if (i > last_node)
            work->phase = TRACE_UPDATE_PHASE;
        else if (work->phase == TRACE_UPDATE_PHASE)
            work->phase = TRACE_FORWARD;
        if (i > 0 && work->phase == TRACE_FORWARD &&
            kineto_work_at(step, i - 1)->phase == TRACE_BACKWARD)
            micro_batch++;
        work->micro_batch = work->phase == TRACE_UPDATE_PHASE ? 0 : micro_batch;
    }
    step->micro_batches = micro_batch + 1;
}

/* Parts of a forward operator also have numbers, higher than its own. */
static void find_highest_forward(const struct walk *walk)
{
    struct kineto_step *step = walk->step;
    uint32_t at = 0;
    for (guint i = 0; i < walk->kineto->ranges->len; i++) {
        const struct kineto_range *range = range_at(walk->kineto, i);
        while (at + 1 < step->works->len &&
               kineto_work_at(step, at + 1)->start_ns <= range->start_ns)
            at++;
        if (step->works->len > 0 && range->start_ns >= kineto_work_at(step, 0)->start_ns &&
            range->start_ns < step->end_ns && kineto_work_at(step, at)->phase == TRACE_FORWARD &&
            range->sequence != KINETO_NO_SEQUENCE)
            step->highest_forward = MAX(step->highest_forward, range->sequence);
    }
}

static struct kineto_step *make_step(const struct kineto *kineto, const struct step_window *window)
{
    struct kineto_step *step = g_new0(struct kineto_step, 1);
    *step =
        (struct kineto_step){.start_ns = window->start_ns,
                             .end_ns = window->end_ns,
                             .works = g_array_new(FALSE, FALSE, sizeof(struct kineto_work)),
                             .gradients = g_array_new(FALSE, FALSE, sizeof(struct kineto_gradient)),
                             .alone = g_array_new(FALSE, FALSE, sizeof(struct kineto_span))};
    struct walk walk = {.kineto = kineto,
                        .step = step,
                        .threads = g_hash_table_new(NULL, NULL),
                        .open_until = g_hash_table_new_full(NULL, NULL, NULL, g_free)};
    find_backward_threads(&walk);
    walk.main_thread = find_main_thread(&walk);
    for (guint i = 0; i < kineto->ranges->len; i++) {
        const struct kineto_range *range = range_at(kineto, i);
        bool here = range->start_ns >= window->start_ns && range->start_ns < window->end_ns &&
                    (range->thread == walk.main_thread ||
                     g_hash_table_contains(walk.threads, GUINT_TO_POINTER(range->thread)));
        if (here)
            take_range(&walk, range);
    }
    settle_phases(step);
    find_highest_forward(&walk);
    g_hash_table_unref(walk.threads);
    g_hash_table_unref(walk.open_until);
    return step;
}

static bool has_backward(const struct kineto_step *step)
{
    for (uint32_t i = 0; i < step->works->len; i++)
        if (kineto_work_at(step, i)->phase == TRACE_BACKWARD)
            return true;
    return false;
}

GPtrArray *kineto_steps(const struct kineto *kineto, const char **marked_by)
{
    GPtrArray *steps = g_ptr_array_new_with_free_func(step_free);
    g_autoptr(GArray) windows = g_array_new(FALSE, FALSE, sizeof(struct step_window));
    *marked_by = find_windows(kineto, windows);
    for (guint i = 0; i < windows->len; i++) {
        struct kineto_step *step = make_step(kineto,
                                             &g_array_index(windows, struct step_window, i));
        if (has_backward(step))
            g_ptr_array_add(steps, step);
        else
            step_free(step);
    }
    return steps;
}

/* Work of the device: the time at which the host asked for it, its start and its end. */
struct asked {
    uint64_t call_ns, start_ns, end_ns;
};

/* The work of the device. Arrays of struct asked. */
struct device_work {
    GArray *computing;   /* kernels and copies, by the time of the call */
    GArray *collectives; /* by the time of the call */
};

static int by_call(const void *left, const void *right)
{
    const struct asked *a = (const struct asked *)left, *b = (const struct asked *)right;
    return (a->call_ns > b->call_ns) - (a->call_ns < b->call_ns);
}

/* Returns a table from correlation to call. */
static GHashTable *index_calls(const struct kineto *kineto)
{
    GHashTable *calls = g_hash_table_new(NULL, NULL);
    for (guint i = 0; i < kineto->calls->len; i++) {
        struct call_record *call = &g_array_index(kineto->calls, struct call_record, i);
        if (call->correlation != 0)
            g_hash_table_insert(calls, GUINT_TO_POINTER(call->correlation), call);
    }
    return calls;
}

static int by_start(const void *left, const void *right)
{
    const struct asked *a = (const struct asked *)left, *b = (const struct asked *)right;
    return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static void add_asked(GArray *all, GHashTable *calls, uint32_t correlation, uint64_t start_ns,
                      uint64_t end_ns)
{
    const struct call_record *call =
        (const struct call_record *)g_hash_table_lookup(calls, GUINT_TO_POINTER(correlation));
    struct asked asked = {!call ? start_ns : call->start_ns, start_ns, end_ns};
    g_array_append_val(all, asked);
}

#define ADD_ALL(array, type)                                                          \
    for (guint i = 0; i < (array)->len; i++) {                                        \
        const type *record = &g_array_index(array, type, i);                          \
        add_asked(all, calls, record->correlation, record->start_ns, record->end_ns); \
    }

static void add_kernels(const struct kineto *kineto, GHashTable *calls,
                        const struct device_work *work)
{
    for (guint i = 0; i < kineto->kernels->len; i++) {
        const struct kernel_record *kernel = &g_array_index(kineto->kernels, struct kernel_record,
                                                            i);
        const char *name = string_table_text(kineto->strings, kernel->short_name);
        add_asked(kernel_is_collective(name) ? work->collectives : work->computing, calls,
                  kernel->correlation, kernel->start_ns, kernel->end_ns);
    }
}

static struct device_work collect_work(const struct kineto *kineto)
{
    struct device_work work = {g_array_new(FALSE, FALSE, sizeof(struct asked)),
                               g_array_new(FALSE, FALSE, sizeof(struct asked))};
    GArray *all = work.computing;
    GHashTable *calls = index_calls(kineto);
    add_kernels(kineto, calls, &work);
    ADD_ALL(kineto->copies, struct copy_record)
    ADD_ALL(kineto->sets, struct set_record)
    g_array_sort(work.computing, by_call);
    g_array_sort(work.collectives, by_call);
    g_hash_table_unref(calls);
    return work;
}

static void device_work_clear(struct device_work *work)
{
    g_array_unref(work->computing);
    g_array_unref(work->collectives);
}

static void set_host_times(struct kineto_step *step)
{
    uint32_t count = step->works->len;
    for (uint32_t i = 0; i < count; i++) {
        struct kineto_work *work = kineto_work_at(step, i);
        work->works = true;
        work->end_ns = i + 1 < count ? kineto_work_at(step, i + 1)->start_ns
                                     : MAX(work->range->end_ns, work->start_ns);
    }
    step->begin_ns = kineto_work_at(step, 0)->start_ns;
}

static void set_device_times(struct kineto_step *step, const GArray *all)
{
    uint64_t done_ns = 0;
    guint a = 0;
    for (; a < all->len; a++) {
        const struct asked *asked = &g_array_index(all, struct asked, a);
        if (asked->call_ns >= kineto_work_at(step, 0)->start_ns)
            break;
        done_ns = MAX(done_ns, asked->end_ns);
    }
    step->begin_ns = done_ns = MAX(done_ns, kineto_work_at(step, 0)->start_ns);
    for (uint32_t i = 0; i < step->works->len; i++) {
        struct kineto_work *work = kineto_work_at(step, i);
        uint64_t until = i + 1 < step->works->len ? kineto_work_at(step, i + 1)->start_ns
                                                  : step->end_ns;
        for (; a < all->len && g_array_index(all, struct asked, a).call_ns < until; a++) {
            work->works = true;
            done_ns = MAX(done_ns, g_array_index(all, struct asked, a).end_ns);
        }
        work->end_ns = done_ns;
    }
}

/* Counts the step's collectives. */
static void count_collectives(struct kineto_step *step, const GArray *collectives)
{
    for (guint i = 0; i < collectives->len; i++) {
        const struct asked *asked = &g_array_index(collectives, struct asked, i);
        if (asked->call_ns < kineto_work_at(step, 0)->start_ns || asked->call_ns >= step->end_ns)
            continue;
        step->collectives++;
        step->collective_ns += asked->end_ns - asked->start_ns;
    }
}

/* The device may still be at work on the step when the host has ended it. */
static bool is_in_step(const struct kineto_step *step, const struct kineto_span *span)
{
    uint64_t end_ns = kineto_work_at(step, step->works->len - 1)->end_ns;
    return span->end_ns > step->begin_ns && span->start_ns < MAX(step->end_ns, end_ns);
}

static GArray *sorted_by_start(const GArray *work)
{
    GArray *sorted = g_array_new(FALSE, FALSE, sizeof(struct asked));
    g_array_append_vals(sorted, work->data, work->len);
    g_array_sort(sorted, by_start);
    return sorted;
}

/* Finds the times in the step at which only collectives ran. */
static void find_alone(struct kineto_step *step, const struct device_work *work)
{
    g_autoptr(GArray) computing = sorted_by_start(work->computing);
    g_autoptr(GArray) collectives = sorted_by_start(work->collectives);
    uint64_t covered_ns = 0; /* until then all is known */
    guint next = 0;
    for (guint i = 0; i < collectives->len; i++) {
        const struct asked *collective = &g_array_index(collectives, struct asked, i);
        uint64_t from_ns = MAX(collective->start_ns, covered_ns);
        while (from_ns < collective->end_ns) {
            const struct asked *other = next < computing->len
                                            ? &g_array_index(computing, struct asked, next)
                                            : NULL;
            uint64_t until_ns = other ? CLAMP(other->start_ns, from_ns, collective->end_ns)
                                      : collective->end_ns;
            const struct kineto_span alone = {from_ns, until_ns};
            if (until_ns > from_ns && is_in_step(step, &alone))
                g_array_append_val(step->alone, alone);
            if (!other || other->start_ns >= collective->end_ns) {
                from_ns = collective->end_ns;
                break;
            }
            from_ns = MAX(until_ns, other->end_ns);
            next++;
        }
        covered_ns = MAX(covered_ns, from_ns);
    }
}

uint64_t kineto_step_alone_ns(const struct kineto_step *step, uint64_t from_ns, uint64_t until_ns)
{
    uint64_t sum = 0;
    for (guint i = 0; i < step->alone->len; i++) {
        const struct kineto_span *alone = &g_array_index(step->alone, struct kineto_span, i);
        uint64_t from = MAX(alone->start_ns, from_ns), until = MIN(alone->end_ns, until_ns);
        sum += until > from ? until - from : 0;
    }
    return sum;
}

static void set_waiting(struct kineto_step *step)
{
    uint64_t before_ns = step->begin_ns;
    for (uint32_t i = 0; step->alone->len && i < step->works->len; i++) {
        struct kineto_work *work = kineto_work_at(step, i);
        work->waited_ns = kineto_step_alone_ns(step, before_ns, work->end_ns);
        before_ns = work->end_ns;
    }
}

void kineto_step_times(const struct kineto *kineto, struct kineto_step *step)
{
    if (kineto->kernels->len == 0) {
        set_host_times(step);
        return;
    }
    struct device_work work = collect_work(kineto);
    set_device_times(step, work.computing);
    find_alone(step, &work);
    set_waiting(step);
    count_collectives(step, work.collectives);
    device_work_clear(&work);
}
