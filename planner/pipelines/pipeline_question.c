#include "planner/pipelines/pipeline_question.h"

#include "models/synth.h"

struct model_iteration *pipeline_describe(const struct pipeline_question *q,
                                          const struct model_job *job, GError **error)
{
    if (q->recognised)
        return model_derive_iteration(q->recognised, q->trace, job, q->platform, error);
    struct model_iteration *iteration = model_iteration_new(q->config, job, error);
    if (iteration)
        model_estimate(iteration, q->platform);
    return iteration;
}
