/* Where the times of operators come from, which limits what a prediction is worth. */
#ifndef PSTAR_SIM_OPERATOR_TIMES_H
#define PSTAR_SIM_OPERATOR_TIMES_H

#include "platforms/platform.h"
#include "sim/costs.h"
#include "traces/trace.h"

/* The least share of nominal rates that a published run reached: PyTorch on H100 with long
 * sequences (docs/papers.md, "Resident training on A100 and H100"). */
#define OPERATOR_TIMES_LEAST_SHARE 0.26

/* Says what nominal times mean, with that share in percent, and the seconds of a step at nominal
 * rates and at that share of them. */
#define OPERATOR_TIMES_BAND                                                                        \
    "Operators' times are nominal (data sheet). Published runs reached %.0f %% of such rates and " \
    "more: a step takes %.4g to %.4g s."

/* Returns a sentence if the operators' times are of another device than the platform's: they are
 * the trace's, measured or computed, and the platform does not change them. Returns NULL if they
 * are the platform's, if the trace has no times, or if one of the two is not known (`platform` may
 * be NULL). Two processors count as the same device. The caller frees the result. */
char *operator_times_note(const struct trace *trace, const struct platform *platform);

/* Returns whether the operators' times were computed from nominal rates of the platform, which may
 * be NULL. */
bool operator_times_are_nominal(const struct trace *trace, const struct platform *platform);

/* Takes what the ranks exchange out of the durations that were measured: the clock adds it, if the
 * costs know how ranks exchange, and changes nothing if they do not. An operator that receives from
 * another stage keeps at most the time in which its bytes are copied. What remains is what the
 * operator computes: at most what its bytes take in memory, and for a reduction nothing where the
 * costs' collectives were measured, because they include the sum. */
void operator_times_leave_exchanges(struct trace *trace, const struct costs *costs);

/* Returns a copy in which the device's operators take as long as at the least share of their rates.
 * Free it with trace_free. */
struct trace *operator_times_slow(const struct trace *trace);

#endif
