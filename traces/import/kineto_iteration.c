/* Makes the operators of the iteration: the operators of forward and backward that used the device,
 * and one update per parameter. */
#include "traces/import/kineto.h"

#include <stdio.h>
#include <string.h>

static const struct kineto_work *work_at(const struct kineto_parts *parts, uint32_t index)
{
    return kineto_work_at(parts->step, index);
}

/* Work that did not use the device belongs to the work before it in the same phase. */
static bool begins_operator(const struct kineto_parts *parts, uint32_t index)
{
    if (index == 0 || index == parts->update)
        return true;
    return index < parts->update &&
           (work_at(parts, index)->works ||
            work_at(parts, index)->phase != work_at(parts, index - 1)->phase);
}

static uint32_t count_operators(struct kineto_parts *parts)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < parts->step->works->len; i++) {
        count += begins_operator(parts, i);
        parts->moment[i] = count - 1;
    }
    return count;
}

static char *name_of(const struct kineto_parts *parts, const struct kineto_work *work)
{
    const char *name = string_table_text(parts->kineto->strings, work->range->name);
    return g_strdup_printf("%s %s", trace_phase_name((enum trace_phase)work->phase),
                           g_str_has_prefix(name, KINETO_NODE) ? name + strlen(KINETO_NODE) : name);
}

static void make_passes(struct kineto_parts *parts)
{
    for (uint32_t i = 0; i < parts->update; i++) {
        const struct kineto_work *work = work_at(parts, i);
        struct trace_operator *op = &parts->trace->operators[parts->moment[i]];
        if (!op->name) {
            op->name = name_of(parts, work);
            op->phase = work->phase;
            op->micro_batch = work->micro_batch;
            op->layer = -1;
        }
        op->duration_ns += parts->time_ns[i];
    }
}

/* Returns time_ns * part / whole, exactly. */
static uint64_t share(uint64_t time_ns, uint64_t part, uint64_t whole)
{
    return (uint64_t)((unsigned __int128)time_ns * part / whole);
}

/* Divides the update's time among the parameters by their elements. */
static void make_updates(struct kineto_parts *parts, uint32_t first)
{
    struct trace *trace = parts->trace;
    uint64_t time_ns = 0, elements = 0, before = 0;
    for (uint32_t i = parts->update; i < parts->step->works->len; i++)
        time_ns += parts->time_ns[i];
    for (uint32_t t = 0; t < parts->trained; t++)
        elements += trace->tensors[t].elements;
    for (uint32_t m = first; m < trace->operator_count; m++) {
        const struct trace_tensor *tensor = &trace->tensors[m - first];
        uint64_t after = before + tensor->elements;
        trace->operators[m] = (struct trace_operator){
            .name = g_strdup_printf("update %s", tensor->name),
            .phase = TRACE_UPDATE_PHASE,
            .layer = -1,
            .duration_ns = share(time_ns, after, elements) - share(time_ns, before, elements)};
        before = after;
    }
}

static void append(GArray *accesses, struct trace_operator *op, uint32_t tensor,
                   enum trace_list list, enum trace_mode mode)
{
    struct trace_access access = {tensor, (uint8_t)list, (uint8_t)mode, 0};
    for (uint32_t i = op->first_access; i < accesses->len; i++) {
        const struct trace_access *other = &g_array_index(accesses, struct trace_access, i);
        if (other->tensor == tensor && other->list == list)
            return;
    }
    g_array_append_val(accesses, access);
    op->access_count++;
}

static void add_update_accesses(const struct trace *trace, GArray *accesses,
                                struct trace_operator *op, tensor_id tensor)
{
    append(accesses, op, tensor, TRACE_PARAM, TRACE_UPDATE);
    append(accesses, op, tensor, TRACE_GRAD, TRACE_READ);
    for (int list = TRACE_MASTER; list < TRACE_LISTS; list++)
        if (trace->list_element_bytes[list] > 0)
            append(accesses, op, tensor, (enum trace_list)list, TRACE_UPDATE);
}

static int by_work(const void *left, const void *right)
{
    const struct kineto_access *a = (const struct kineto_access *)left;
    const struct kineto_access *b = (const struct kineto_access *)right;
    return (a->work > b->work) - (a->work < b->work);
}

static void set_accesses(struct kineto_parts *parts, uint32_t first_update)
{
    struct trace *trace = parts->trace;
    GArray *accesses = g_array_new(FALSE, FALSE, sizeof(struct trace_access));
    guint next = 0;
    g_array_sort(parts->accesses, by_work);
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        struct trace_operator *op = &trace->operators[m];
        op->first_access = accesses->len;
        if (m >= first_update)
            add_update_accesses(trace, accesses, op, m - first_update);
        for (; m < first_update && next < parts->accesses->len; next++) {
            const struct kineto_access *use = &g_array_index(parts->accesses, struct kineto_access,
                                                             next);
            if (parts->moment[use->work] != m)
                break;
            append(accesses, op, use->access.tensor, (enum trace_list)use->access.list,
                   (enum trace_mode)use->access.mode);
        }
    }
    trace->access_count = accesses->len;
    trace->accesses = (struct trace_access *)(void *)g_array_free(accesses, accesses->len == 0);
}

/* Makes operators, their times and accesses. Sets `moment`. */
static void kineto_make_operators(struct kineto_parts *parts)
{
    struct trace *trace = parts->trace;
    bool updates = parts->update < parts->step->works->len;
    uint32_t passes = count_operators(parts) - updates;
    trace->operator_count = passes + (updates ? parts->trained : 0);
    trace->operators = g_new0(struct trace_operator, trace->operator_count);
    make_passes(parts);
    make_updates(parts, passes);
    set_accesses(parts, passes);
}

/* Returns whether two steps consist of the same operators. */
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
    return kineto_work_at(step, work)->end_ns - before - kineto_work_at(step, work)->waited_ns;
}

/* Returns the steps like the given one, itself included. */
static GPtrArray *find_alike(const GPtrArray *steps, const struct kineto_step *step)
{
    GPtrArray *alike = g_ptr_array_new();
    for (guint i = 0; i < steps->len; i++)
        if (are_alike((const struct kineto_step *)g_ptr_array_index(steps, i), step))
            g_ptr_array_add(alike, g_ptr_array_index(steps, i));
    return alike;
}

/* Returns the last step of the largest set of equal steps. */
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

/* The embedding's input is [sequences, tokens per sequence]. */
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
    trace->micro_batches = parts->step->micro_batches * MAX(trace->ranks, 1);
    if (parts->kineto->gpus->len > 0)
        trace->machine = g_strdup(g_array_index(parts->kineto->gpus, struct gpu_record, 0).name);
    set_batch(parts);
}

static bool make(struct kineto_parts *parts)
{
    kineto_find_exchanges(parts);
    if (!kineto_find_tensors(parts))
        return false;
    set_meta(parts);
    kineto_make_operators(parts);
    kineto_find_buffers(parts);
    kineto_add_exchanges(parts);
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

/* What ranks exchange is told apart from operators, and is no part of the iteration. */
static void note_collectives(GPtrArray *notes, const struct kineto_step *step)
{
    uint64_t waited_ns = 0;
    for (uint32_t i = 0; i < step->works->len; i++)
        waited_ns += kineto_work_at(step, i)->waited_ns;
    if (step->collectives)
        g_ptr_array_add(
            notes, g_strdup_printf("%u collectives of a step, which run for %.3f ms, %.3f ms of it "
                                   "while nothing else does: operators' times are without them",
                                   step->collectives, (double)step->collective_ns * 1e-6,
                                   (double)waited_ns * 1e-6));
}

struct trace *kineto_iteration(const struct kineto *kineto, GPtrArray *notes)
{
    const char *marked_by;
    g_autoptr(GPtrArray) steps = kineto_steps(kineto, &marked_by);
    if (steps->len == 0) {
        g_ptr_array_add(notes,
                        g_strdup("the iteration: no step with a backward pass was found; record "
                                 "whole training steps, with backward() and "
                                 "optimizer.step()"));
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
        .accesses = g_array_new(FALSE, FALSE, sizeof(struct kineto_access)),
        .exchanges = g_array_new(FALSE, FALSE, sizeof(struct kineto_collective))};
    note_steps(notes, steps, alike, marked_by);
    note_collectives(notes, step);
    set_times(&parts, alike);
    if (!make(&parts))
        g_clear_pointer(&parts.trace, trace_free);
    g_free(parts.moment);
    g_free(parts.time_ns);
    g_array_unref(parts.accesses);
    g_array_unref(parts.exchanges);
    return parts.trace;
}
