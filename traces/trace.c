#include "traces/trace.h"

G_DEFINE_QUARK(pstar_trace_error, trace_error)

void trace_free(struct trace *trace)
{
    if (!trace)
        return;
    for (uint32_t i = 0; i < trace->tensor_count; i++)
        g_free(trace->tensors[i].name);
    for (uint32_t i = 0; i < trace->operator_count; i++)
        g_free(trace->operators[i].name);
    for (uint32_t i = 0; i < trace->buffer_count; i++)
        g_free(trace->buffers[i].name);
    g_free(trace->tensors);
    g_free(trace->operators);
    g_free(trace->accesses);
    g_free(trace->buffers);
    g_free(trace->non_model_bytes);
    g_free(trace->producer);
    g_free(trace->model);
    g_free(trace->precision);
    g_free(trace->machine);
    g_free(trace);
}

struct trace *trace_copy(const struct trace *trace)
{
    struct trace *copy = g_memdup2(trace, sizeof *trace);
    copy->producer = g_strdup(trace->producer);
    copy->model = g_strdup(trace->model);
    copy->precision = g_strdup(trace->precision);
    copy->machine = g_strdup(trace->machine);
    copy->tensors = g_memdup2(trace->tensors, trace->tensor_count * sizeof *trace->tensors);
    copy->operators = g_memdup2(trace->operators, trace->operator_count * sizeof *trace->operators);
    copy->accesses = g_memdup2(trace->accesses, trace->access_count * sizeof *trace->accesses);
    copy->buffers = g_memdup2(trace->buffers, trace->buffer_count * sizeof *trace->buffers);
    copy->non_model_bytes = g_memdup2(trace->non_model_bytes,
                                      trace->operator_count * sizeof *trace->non_model_bytes);
    for (uint32_t i = 0; i < copy->tensor_count; i++)
        copy->tensors[i].name = g_strdup(trace->tensors[i].name);
    for (uint32_t i = 0; i < copy->operator_count; i++)
        copy->operators[i].name = g_strdup(trace->operators[i].name);
    for (uint32_t i = 0; i < copy->buffer_count; i++)
        copy->buffers[i].name = g_strdup(trace->buffers[i].name);
    return copy;
}

uint8_t *trace_held_buffers(const struct trace *trace)
{
    uint8_t *held = NULL;
    for (uint32_t a = 0; a < trace->access_count; a++) {
        if (trace->accesses[a].list != TRACE_ACTIVATION)
            continue;
        if (!held)
            held = g_new0(uint8_t, trace->buffer_count);
        held[trace->accesses[a].tensor] = 1;
    }
    return held;
}

void trace_sum_buffers(struct trace *trace)
{
    g_autofree uint8_t *held = trace_held_buffers(trace);
    /* What becomes live and what dies at each moment; unsigned wrap-around cancels out. */
    uint64_t *change = g_new0(uint64_t, (size_t)trace->operator_count + 1);
    for (uint32_t i = 0; i < trace->buffer_count; i++) {
        const struct trace_buffer *buffer = &trace->buffers[i];
        if (held && held[i])
            continue;
        change[buffer->first] += buffer->bytes;
        change[buffer->last + 1] -= buffer->bytes;
    }
    for (uint32_t m = 1; m < trace->operator_count; m++)
        change[m] += change[m - 1];
    g_free(trace->non_model_bytes);
    trace->non_model_bytes = change;
}

uint64_t trace_model_bytes(const struct trace *trace)
{
    uint64_t element_bytes = 0, elements = 0;
    for (int list = 0; list < TRACE_LISTS; list++)
        element_bytes += trace->list_element_bytes[list];
    for (uint32_t i = 0; i < trace->tensor_count; i++)
        elements += trace->tensors[i].elements;
    return elements * element_bytes;
}
