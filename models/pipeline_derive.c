#include "models/pipeline_derive.h"

#include "models/synth.h"

static bool is_added(const struct model_operator *op)
{
    return op->kind == MODEL_SEND || op->kind == MODEL_RECEIVE || op->kind == MODEL_ADD ||
           op->kind == MODEL_NEWEST;
}

/* Returns the trace of a stage of `whole`, whose trace has durations. */
static struct trace *cut(const struct model_iteration *whole, const struct pipeline_shape *shape,
                         uint32_t s, const struct platform *platform)
{
    struct model_iteration *stage = pipeline_stage(whole, shape, s);
    struct trace *trace = stage->trace;
    for (uint32_t m = 0; platform && m < trace->operator_count; m++)
        if (is_added(&stage->operators[m]))
            trace->operators[m].duration_ns = model_operator_ns(stage, m, platform);
    trace->producer = g_strdup(whole->trace->producer);
    trace->machine = g_strdup(whole->trace->machine);
    trace->library_bytes = whole->trace->library_bytes;
    trace->estimated = whole->trace->estimated;
    trace->partial = whole->trace->partial;
    stage->trace = NULL;
    model_iteration_free(stage);
    return trace;
}

struct trace **pipeline_traces_of(const struct model_iteration *whole,
                                  const struct pipeline_shape *shape,
                                  const struct platform *platform, GError **error)
{
    if (!pipeline_check(whole->config, &whole->job, shape, error))
        return NULL;
    struct trace **traces = g_new(struct trace *, shape->stages);
    for (uint32_t s = 0; s < shape->stages; s++)
        traces[s] = cut(whole, shape, s, platform);
    return traces;
}

static struct trace **cut_all(const struct recognised *recognised, const struct trace *trace,
                              const struct pipeline_request *request,
                              const struct platform *platform, GError **error)
{
    struct model_job job = recognised->iteration->job;
    if (request->micro_batches)
        job.choices.micro_batches = request->micro_batches;
    job.delay |= request->shape.schedule == PIPELINE_2BW;
    job.split = pipeline_splits(request->shape.schedule);
    struct model_iteration *whole = model_derive_iteration(recognised, trace, &job, platform,
                                                           error);
    struct trace **traces = whole ? pipeline_traces_of(whole, &request->shape, platform, error)
                                  : NULL;
    model_iteration_free(whole);
    return traces;
}

struct trace **pipeline_traces_new(const struct trace *trace,
                                   const struct pipeline_request *request,
                                   const struct platform *platform, GError **error)
{
    struct recognised *recognised = recognise(trace, error);
    struct trace **traces = recognised ? cut_all(recognised, trace, request, platform, error)
                                       : NULL;
    recognised_free(recognised);
    return traces;
}

void pipeline_traces_free(struct trace **traces, uint32_t stages)
{
    for (uint32_t s = 0; traces && s < stages; s++)
        trace_free(traces[s]);
    g_free(traces);
}
