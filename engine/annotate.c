#include "engine/annotate.h"

#include "traces/annotations.h"

#include <nvtx3/nvToolsExt.h>
#include <stddef.h>

struct annotate {
    nvtxDomainHandle_t domain;
    enum annotate_timing timing;
    uint32_t operator_count;
    nvtxStringHandle_t iteration;
    nvtxStringHandle_t copies[MOVER_QUEUES]; /* their directions */
    nvtxStringHandle_t gather, queued_gather;
    nvtxStringHandle_t operators[]; /* [operator_count] their names */
};

static nvtxEventAttributes_t event(uint32_t category, uint64_t payload)
{
    return (nvtxEventAttributes_t){
        .version = NVTX_VERSION,
        .size = NVTX_EVENT_ATTRIB_STRUCT_SIZE,
        .category = category,
        .payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64,
        .payload.ullValue = payload,
    };
}

static void push(const struct annotate *annotate, uint32_t category, nvtxStringHandle_t name,
                 uint64_t payload)
{
    nvtxEventAttributes_t attributes = event(category, payload);
    attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
    attributes.message.registered = name;
    nvtxDomainRangePushEx(annotate->domain, &attributes);
}

/* Emits one declaration: a mark whose text is `format` and whose payload is the index of the
 * declared object. */
G_GNUC_PRINTF(3, 4)
static void declare(nvtxDomainHandle_t domain, uint64_t index, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = g_strdup_vprintf(format, arguments);
    va_end(arguments);
    nvtxEventAttributes_t attributes = event(ANNOTATION_DECLARATION, index);
    attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
    attributes.message.ascii = text;
    nvtxDomainMarkEx(domain, &attributes);
    g_free(text);
}

static void declare_text(nvtxDomainHandle_t domain, const char *key, const char *text)
{
    if (text)
        declare(domain, 0, "meta %s %s", key, text);
}

static void declare_meta(nvtxDomainHandle_t domain, const struct trace *trace)
{
    declare_text(domain, "producer", trace->producer);
    declare_text(domain, "model", trace->model);
    declare_text(domain, "precision", trace->precision);
    declare_text(domain, "machine", trace->machine);
    declare(domain, trace->batch, "meta batch");
    declare(domain, trace->sequence, "meta sequence");
    declare(domain, trace->micro_batches, "meta micro_batches");
    if (trace->ranks > 1) {
        declare(domain, trace->ranks, "meta ranks");
        declare(domain, trace->shared_parameters, "meta shared_parameters");
        declare(domain, trace->whole_gradients, "meta whole_gradients");
        declare(domain, trace->whole_states, "meta whole_states");
    }
    if (trace->stages > 1) {
        declare(domain, trace->stages, "meta stages");
        declare(domain, trace->stage, "meta stage");
    }
    if (trace->state_block)
        declare(domain, trace->state_block, "meta state_block");
    declare(domain, trace->library_bytes, "meta library_bytes");
    for (int list = 0; list < TRACE_LISTS; list++)
        declare(domain, trace->list_element_bytes[list], "meta element_bytes_%s",
                trace_list_name((enum trace_list)list));
}

static void declare_exchanges(nvtxDomainHandle_t domain, const struct trace *trace, uint32_t m)
{
    for (int c = 0; c < TRACE_COLLECTIVES; c++) {
        const struct trace_exchange *exchange = &trace->operators[m].exchange[c];
        if (exchange->sent_bytes || exchange->received_bytes)
            declare(domain, exchange->received_bytes, "exchange %u %s %" G_GUINT64_FORMAT, m,
                    trace_collective_name((enum trace_collective)c), exchange->sent_bytes);
    }
}

static void declare_access(nvtxDomainHandle_t domain, const struct trace_access *access, uint32_t m)
{
    const char *list = trace_list_name(access->list), *mode = trace_mode_name(access->mode);
    if (access->block)
        declare(domain, access->tensor, "access %u %s %s %u", m, list, mode, access->block);
    else
        declare(domain, access->tensor, "access %u %s %s", m, list, mode);
}

static void declare_operators(nvtxDomainHandle_t domain, const struct trace *trace)
{
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        declare(domain, m,
                "operator %s %s %d %u %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT
                " %" G_GUINT64_FORMAT " %" G_GUINT64_FORMAT " %s",
                trace_phase_name(op->phase), trace_place_name(op->place), op->layer,
                op->micro_batch, op->flops, op->bytes, op->h2d_bytes, op->d2h_bytes, op->name);
        for (uint32_t i = op->first_access; i < op->first_access + op->access_count; i++)
            declare_access(domain, &trace->accesses[i], m);
        declare_exchanges(domain, trace, m);
    }
}

static void declare_non_model(nvtxDomainHandle_t domain, const struct trace *trace)
{
    for (uint32_t i = 0; i < trace->buffer_count; i++) {
        const struct trace_buffer *buffer = &trace->buffers[i];
        declare(domain, i, "buffer %" G_GUINT64_FORMAT " %u %u %d %" G_GUINT64_FORMAT " %s",
                buffer->bytes, buffer->first, buffer->last, buffer->saved, buffer->recompute_flops,
                buffer->name);
    }
    if (trace->buffer_count == 0)
        for (uint32_t m = 0; m < trace->operator_count; m++)
            declare(domain, trace->non_model_bytes[m], "moment %u", m);
}

static void declare_absent(nvtxDomainHandle_t domain, const struct trace *trace)
{
    for (int list = 0; list < TRACE_LISTS; list++)
        for (uint32_t i = 0; trace->list_element_bytes[list] && i < trace->tensor_count; i++)
            if (!trace_has(trace, (enum trace_list)list, i))
                declare(domain, i, "absent %s", trace_list_name((enum trace_list)list));
}

static void declare_all(nvtxDomainHandle_t domain, const struct trace *trace)
{
    declare_meta(domain, trace);
    for (uint32_t i = 0; i < trace->tensor_count; i++)
        declare(domain, i, "tensor %" G_GUINT64_FORMAT " %s", trace->tensors[i].elements,
                trace->tensors[i].name);
    declare_absent(domain, trace);
    declare_operators(domain, trace);
    declare_non_model(domain, trace);
    declare(domain, trace->operator_count, "declared %u %u %u %u", trace->tensor_count,
            trace->operator_count, trace->access_count, trace->buffer_count);
}

struct annotate *annotate_new(const struct trace *trace, enum annotate_timing timing)
{
    nvtxDomainHandle_t domain = nvtxDomainCreateA(ANNOTATION_DOMAIN);
    if (!domain)
        return NULL;
    nvtxDomainNameCategoryA(domain, ANNOTATION_DECLARATION, "declaration");
    nvtxDomainNameCategoryA(domain, ANNOTATION_ITERATION, "iteration");
    nvtxDomainNameCategoryA(domain, ANNOTATION_OPERATOR, "operator");
    nvtxDomainNameCategoryA(domain, ANNOTATION_COPY, "copy");
    nvtxDomainNameCategoryA(domain, ANNOTATION_EXCHANGE, "exchange");
    if (timing != ANNOTATE_RANGES)
        declare(domain, timing == ANNOTATE_DEVICE_RESIDENT, "queued");
    declare_all(domain, trace);

    struct annotate *annotate = (struct annotate *)g_malloc(
        offsetof(struct annotate, operators) + trace->operator_count * sizeof(nvtxStringHandle_t));
    annotate->domain = domain;
    annotate->timing = timing;
    annotate->operator_count = trace->operator_count;
    annotate->iteration = nvtxDomainRegisterStringA(domain, "iteration");
    annotate->copies[MOVER_H2D] = nvtxDomainRegisterStringA(domain, ANNOTATION_H2D);
    annotate->copies[MOVER_D2H] = nvtxDomainRegisterStringA(domain, ANNOTATION_D2H);
    annotate->gather = nvtxDomainRegisterStringA(domain, ANNOTATION_GATHER);
    annotate->queued_gather = nvtxDomainRegisterStringA(domain, ANNOTATION_QUEUED_GATHER);
    for (uint32_t m = 0; m < trace->operator_count; m++)
        annotate->operators[m] = nvtxDomainRegisterStringA(domain, trace->operators[m].name);
    return annotate;
}

void annotate_free(struct annotate *annotate)
{
    if (!annotate)
        return;
    nvtxDomainDestroy(annotate->domain);
    g_free(annotate);
}

bool annotate_waits(const struct annotate *annotate)
{
    return annotate && annotate->timing == ANNOTATE_RANGES;
}

void annotate_iteration_begin(struct annotate *annotate, uint64_t step)
{
    if (annotate)
        push(annotate, ANNOTATION_ITERATION, annotate->iteration, step);
}

void annotate_iteration_end(struct annotate *annotate)
{
    if (annotate)
        nvtxDomainRangePop(annotate->domain);
}

void annotate_operator_begin(const struct annotate *annotate, moment_id moment)
{
    if (!annotate)
        return;
    g_assert(moment < annotate->operator_count);
    push(annotate, ANNOTATION_OPERATOR, annotate->operators[moment], moment);
}

void annotate_operator_end(const struct annotate *annotate)
{
    if (annotate)
        nvtxDomainRangePop(annotate->domain);
}

void annotate_copy_begin(const struct annotate *annotate, enum mover_queue direction,
                         uint64_t bytes)
{
    g_assert(direction == MOVER_H2D || direction == MOVER_D2H);
    if (annotate)
        push(annotate, ANNOTATION_COPY, annotate->copies[direction], bytes);
}

void annotate_copy_end(const struct annotate *annotate)
{
    if (annotate)
        nvtxDomainRangePop(annotate->domain);
}

void annotate_gather_begin(const struct annotate *annotate, uint64_t bytes)
{
    if (annotate)
        push(annotate, ANNOTATION_EXCHANGE, annotate->gather, bytes);
}

void annotate_gather_end(const struct annotate *annotate)
{
    if (annotate)
        nvtxDomainRangePop(annotate->domain);
}

void annotate_queued_gather_begin(const struct annotate *annotate, uint64_t bytes)
{
    if (annotate && annotate->timing != ANNOTATE_RANGES)
        push(annotate, ANNOTATION_EXCHANGE, annotate->queued_gather, bytes);
}

void annotate_queued_gather_end(const struct annotate *annotate)
{
    if (annotate && annotate->timing != ANNOTATE_RANGES)
        nvtxDomainRangePop(annotate->domain);
}
