#include "traces/trace.h"

G_DEFINE_QUARK(pstar - trace - error - quark, trace_error)

void trace_free(struct trace *trace)
{
    if (trace == NULL)
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

void trace_sum_buffers(struct trace *trace)
{
    /* What becomes live and what dies at each moment; unsigned wrap-around cancels out. */
    uint64_t *change = g_new0(uint64_t, (size_t)trace->operator_count + 1);
    for (uint32_t i = 0; i < trace->buffer_count; i++) {
        const struct trace_buffer *buffer = &trace->buffers[i];
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
