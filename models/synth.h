/* A trace of one iteration that never ran, timed by counting. */
#ifndef PSTAR_MODELS_SYNTH_H
#define PSTAR_MODELS_SYNTH_H

#include "models/iteration.h"
#include "platforms/platform.h"

/* The trace of the job's iteration, with durations estimated for the platform; NULL: durations stay
 * 0. Nothing of the model is allocated. An operator with matrix products takes the longer of its
 * products at the platform's compute rate and its bytes at the rate of the device's memory, unfused
 * the sum of both, any other the latter. An update on the host follows the host's curve by
 * elements; an embedding on the host the memory rate that this curve implies. Fails as
 * model_iteration_new does. The caller frees the result with trace_free. */
struct trace *model_synthesise(const struct model_config *config, const struct model_job *job,
                               const struct platform *platform, GError **error);

/* What it says of the iteration's operator at a moment: nanoseconds, at least 1. */
uint64_t model_operator_ns(const struct model_iteration *iteration, uint32_t moment,
                           const struct platform *platform);

#endif
