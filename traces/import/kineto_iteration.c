#include "traces/import/kineto_iteration.h"

#include "traces/import/kineto_parts.h"

#include <stdio.h>
#include <string.h>

/* Whether two steps consist of the same operators. */
static bool are_alike(const struct kineto_step *a, const struct kineto_step *b)
{
    bool alike = a->works->len == b->works->len;
    for (uint32_t i = 0; alike && i < a->works->len; i++)
        alike = kineto_work_at(a, i)->range->name == kineto_work_at(b, i)->range->name &&
                kineto_work_at(a, i)->phase == kineto_work_at(b, i)->phase;
    return alike;
}

static int by_size(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static uint64_t median(GArray *times)
{
    g_array_sort(times, by_size);
    uint64_t low = g_array_index(times, uint64_t, (times->len - 1) / 2);
    uint64_t high = g_array_index(times, uint64_t, times->len / 2);
    return low + (high - low) / 2;
}

static uint64_t time_of(const struct kineto_step *step, uint32_t work)
{
    uint64_t before = work > 0 ? kineto_work_at(step, work - 1)->end_ns : step->begin_ns;
    return kineto_work_at(step, work)->end_ns - before;
}

/* The steps like the one given, it among them. */
static GPtrArray *find_alike(const GPtrArray *steps, const struct kineto_step *step)
{
    GPtrArray *alike = g_ptr_array_new();
    for (guint i = 0; i < steps->len; i++)
        if (are_alike((const struct kineto_step *)g_ptr_array_index(steps, i), step))
            g_ptr_array_add(alike, g_ptr_array_index(steps, i));
    return alike;
}

/* The last of the largest set of steps that are alike. */
static const struct kineto_step *choose(const GPtrArray *steps)
{
    const struct kineto_step *best = NULL;
    guint most = 0;
    for (guint i = 0; i < steps->len; i++) {
        const struct kineto_step *step = (const struct kineto_step *)g_ptr_array_index(steps, i);
        g_autoptr(GPtrArray) alike = find_alike(steps, step);
        if (alike->len >= most) {
            best = step;
            most = alike->len;
        }
    }
    return best;
}

static void set_times(struct kineto_parts *parts, const GPtrArray *alike)
{
    g_autoptr(GArray) times = g_array_new(FALSE, FALSE, sizeof(uint64_t));
    for (uint32_t w = 0; w < parts->step->works->len; w++) {
        g_array_set_size(times, 0);
        for (guint i = 0; i < alike->len; i++) {
            uint64_t time_ns = time_of((const struct kineto_step *)g_ptr_array_index(alike, i), w);
            g_array_append_val(times, time_ns);
        }
        parts->time_ns[w] = median(times);
    }
}

static uint32_t first_of_update(const struct kineto_step *step)
{
    uint32_t first = 0;
    while (first < step->works->len && kineto_work_at(step, first)->phase != TRACE_UPDATE_PHASE)
        first++;
    return first;
}

/* Tokens are looked up in an embedding: [sequences, tokens a sequence]. */
static void set_batch(const struct kineto_parts *parts)
{
    struct trace *trace = parts->trace;
    trace->batch = trace->sequence = 1;
    for (uint32_t i = 0; i < parts->update; i++) {
        const struct kineto_range *range = kineto_work_at(parts->step, i)->range;
        const char *name = string_table_text(parts->kineto->strings, range->name);
        unsigned batch = 0, sequence = 0;
        if (strcmp(name, "aten::embedding") != 0 || range->second_shape == 0 ||
            sscanf(string_table_text(parts->kineto->strings, range->second_shape), "[%u, %u]",
                   &batch, &sequence) != 2 ||
            batch == 0 || sequence == 0)
            continue;
        trace->batch = batch;
        trace->sequence = sequence;
        return;
    }
    g_ptr_array_add(parts->notes, g_strdup("batch and sequence: no embedding tells them"));
}

static void set_meta(const struct kineto_parts *parts)
{
    struct trace *trace = parts->trace;
    trace->producer = g_strdup("PyTorch profiler");
    trace->micro_batches = parts->step->micro_batches;
    if (parts->kineto->gpus->len > 0)
        trace->machine = g_strdup(g_array_index(parts->kineto->gpus, struct gpu_record, 0).name);
    set_batch(parts);
}

static bool make(struct kineto_parts *parts)
{
    if (!kineto_find_tensors(parts))
        return false;
    set_meta(parts);
    kineto_make_operators(parts);
    kineto_find_buffers(parts);
    for (uint32_t m = 0; parts->kineto->untimed && m < parts->trace->operator_count; m++)
        parts->trace->operators[m].duration_ns = 0;
    return true;
}

static void note_steps(GPtrArray *notes, const GPtrArray *steps, const GPtrArray *alike,
                       const char *marked_by)
{
    if (steps->len > alike->len)
        g_ptr_array_add(notes, g_strdup_printf("%u of %u steps: they consist of other operators",
                                               steps->len - alike->len, steps->len));
    if (steps->len == 1)
        g_ptr_array_add(notes, g_strdup_printf("repetition: one step, told by %s", marked_by));
}

struct trace *kineto_iteration(const struct kineto *kineto, GPtrArray *notes)
{
    const char *marked_by;
    g_autoptr(GPtrArray) steps = kineto_steps(kineto, &marked_by);
    if (steps->len == 0) {
        g_ptr_array_add(notes, g_strdup("the iteration: no step with a backward pass"));
        return NULL;
    }
    for (guint i = 0; i < steps->len; i++)
        kineto_step_times(kineto, (struct kineto_step *)g_ptr_array_index(steps, i));
    const struct kineto_step *step = choose(steps);
    g_autoptr(GPtrArray) alike = find_alike(steps, step);
    struct kineto_parts parts = {
        .kineto = kineto,
        .step = step,
        .trace = g_new0(struct trace, 1),
        .notes = notes,
        .moment = g_new0(uint32_t, step->works->len),
        .time_ns = g_new0(uint64_t, step->works->len),
        .update = first_of_update(step),
        .accesses = g_array_new(FALSE, FALSE, sizeof(struct kineto_access))};
    note_steps(notes, steps, alike, marked_by);
    set_times(&parts, alike);
    if (!make(&parts))
        g_clear_pointer(&parts.trace, trace_free);
    g_free(parts.moment);
    g_free(parts.time_ns);
    g_array_unref(parts.accesses);
    return parts.trace;
}
