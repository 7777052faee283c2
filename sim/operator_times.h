/* Where the times of operators come from, which limits what a prediction is worth. */
#ifndef PSTAR_SIM_OPERATOR_TIMES_H
#define PSTAR_SIM_OPERATOR_TIMES_H

#include "platforms/platform.h"
#include "sim/costs.h"
#include "traces/trace.h"

#include <stdio.h>

/* How many times its estimate an operator may take. What published steps took limits it
 * (docs/papers.md, "Resident training on A100 and H100"). */
struct operator_times_band {
    const char *source; /* a sentence: where the estimates come from */
    double least, most;
};

/* Returns false if the operators' times are not estimates for the platform, which may be NULL, or
 * if its rates were measured. */
bool operator_times_band(const struct trace *trace, const struct platform *platform,
                         struct operator_times_band *band);

/* Prints a band as a sentence for people. A step takes from `least` to `most` seconds. */
void operator_times_print_band(const struct operator_times_band *band, double least, double most,
                               FILE *out);

/* Returns a sentence if the operators have no times, or if these are of another device than the
 * platform's: they are the trace's, measured or computed, and the platform does not change them.
 * The sentence names pstar-trace retime if that computes them. Returns NULL if they are the
 * platform's, or if one of the two is not known (`platform` may be NULL). Two processors count as
 * the same device. The caller frees the result. */
char *operator_times_note(const struct trace *trace, const struct platform *platform);

/* Takes what the ranks exchange out of the durations that were measured: the clock adds it, if the
 * costs know how ranks exchange, and changes nothing if they do not. An operator that receives from
 * another stage keeps at most the time in which its bytes are copied. What remains is what the
 * operator computes: at most what its bytes take in memory, and for a reduction nothing where the
 * costs' collectives were measured, because they include the sum. */
void operator_times_leave_exchanges(struct trace *trace, const struct costs *costs);

/* Returns the trace with durations so many times as long on the device. The caller frees it with
 * trace_free. */
struct trace *operator_times_scale(const struct trace *trace, double times);

#endif
