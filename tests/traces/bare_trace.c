#include "tests/traces/bare_trace.h"

struct trace *bare_trace(uint32_t operators)
{
    struct trace *trace = g_new0(struct trace, 1);
    trace->batch = trace->sequence = trace->micro_batches = 1;
    trace->list_element_bytes[TRACE_PARAM] = trace->list_element_bytes[TRACE_GRAD] = 4;
    trace->tensor_count = 1;
    trace->tensors = g_new0(struct trace_tensor, 1);
    trace->tensors[0] = (struct trace_tensor){g_strdup("weight"), 8, 0};
    trace->operator_count = trace->access_count = operators;
    trace->operators = g_new0(struct trace_operator, operators);
    trace->accesses = g_new0(struct trace_access, operators);
    trace->buffers = g_new0(struct trace_buffer, operators);
    return trace;
}
