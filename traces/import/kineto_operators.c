/* Operators of the iteration: those of forward and backward that the device worked for, and an
 * update for each parameter. */
#include "traces/import/kineto_parts.h"

#include <string.h>

static const struct kineto_work *work_at(const struct kineto_parts *parts, uint32_t index)
{
    return kineto_work_at(parts->step, index);
}

/* What the device did not work for is part of what came before it in the same phase. */
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

/* `part` of `whole` of the time, to the nanosecond. */
static uint64_t share(uint64_t time_ns, uint64_t part, uint64_t whole)
{
    return (uint64_t)((unsigned __int128)time_ns * part / whole);
}

/* The update's time is divided among the parameters by their elements. */
static void make_updates(struct kineto_parts *parts, uint32_t first)
{
    struct trace *trace = parts->trace;
    uint64_t time_ns = 0, elements = 0, before = 0;
    for (uint32_t i = parts->update; i < parts->step->works->len; i++)
        time_ns += parts->time_ns[i];
    for (uint32_t t = 0; t < trace->tensor_count; t++)
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
    struct trace_access access = {tensor, (uint8_t)list, (uint8_t)mode};
    for (uint32_t i = op->first_access; i < accesses->len; i++) {
        const struct trace_access *other = &g_array_index(accesses, struct trace_access, i);
        if (other->tensor == tensor && other->list == list)
            return;
    }
    g_array_append_val(accesses, access);
    op->access_count++;
}

static void add_update_accesses(const struct trace *trace, GArray *accesses,
                                struct trace_operator *op, uint32_t tensor)
{
    append(accesses, op, tensor, TRACE_PARAM, TRACE_UPDATE);
    append(accesses, op, tensor, TRACE_GRAD, TRACE_READ);
    for (int list = TRACE_EXP_AVG; list < TRACE_LISTS; list++)
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

void kineto_make_operators(struct kineto_parts *parts)
{
    struct trace *trace = parts->trace;
    bool updates = parts->update < parts->step->works->len;
    uint32_t passes = count_operators(parts) - updates;
    trace->operator_count = passes + (updates ? trace->tensor_count : 0);
    trace->operators = g_new0(struct trace_operator, trace->operator_count);
    make_passes(parts);
    make_updates(parts, passes);
    set_accesses(parts, passes);
}
