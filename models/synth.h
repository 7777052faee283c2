/* Makes the trace of an iteration that never ran. Its durations are estimated by counting. */
#ifndef PSTAR_MODELS_SYNTH_H
#define PSTAR_MODELS_SYNTH_H

#include "models/iteration.h"
#include "platforms/platform.h"

/* Returns the trace of the job's iteration with durations estimated for the platform, which may be
 * NULL; durations are then 0. Nothing of the model is allocated.
 *
 * An operator with matrix products takes the time of its operations at the platform's compute rate
 * or the time of its bytes at the rate of the device's memory, whichever is longer. Any other
 * operator takes the time of its bytes. If the platform says what a framework makes of its rates,
 * products and attention take their operations at their shares of the compute rate, and all
 * operators but updates and exchanges pass over their bytes several times besides. Unfused, an
 * operator takes the sum of the times of its operations and of its bytes, at the rates as they are,
 * and a pass through a layer takes at least the time of its kernels on the curve launch, if the
 * platform has it. An update on the host follows the curve host_update, and an embedding on the
 * host the memory rate that this curve implies. Fails as model_iteration_new does. The caller frees
 * the result with trace_free. */
struct trace *model_synthesise(const struct model_config *config, const struct model_job *job,
                               const struct platform *platform, GError **error);

/* Sets the durations of the iteration's trace in this way, and says in it for which platform. */
void model_estimate(struct model_iteration *iteration, const struct platform *platform);

/* Returns the estimate for the operator at a moment: nanoseconds, at least 1. */
uint64_t model_operator_ns(const struct model_iteration *iteration, uint32_t moment,
                           const struct platform *platform);

#endif
