#include "planner/pipelines/pipeline_question.h"

#include "models/synth.h"

/* What a search gets that begins after the deadline. */
#define LEAST_SECONDS 1e-3

bool pipeline_goes_on(const struct pipeline_question *q, uint32_t done, uint32_t total)
{
    bool is_late = q->deadline && g_get_monotonic_time() >= q->deadline;
    return (!q->progress || q->progress(q->progress_data, done, total)) && !is_late;
}

double pipeline_seconds_left(const struct pipeline_question *q)
{
    double left = (double)(q->deadline - g_get_monotonic_time()) * 1e-6;
    return q->deadline ? MAX(left, LEAST_SECONDS) : 0;
}

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
