/* A trace's times for another machine. */
#ifndef PSTAR_MODELS_RETIME_H
#define PSTAR_MODELS_RETIME_H

#include "models/iteration.h"
#include "platforms/platform.h"

/* Returns the seconds of an operator on the host: of an update of that many elements, or, with 0
 * elements, of its bytes at the memory rate that the platform's updates imply. */
double retime_host_seconds(const struct platform *platform, double elements, double bytes);

/* Returns whether the trace has operations or bytes of its operators; imports have neither. */
bool trace_can_be_retimed(const struct trace *trace);

/* Replaces the durations of all operators by what they take on the platform, and says so in the
 * trace. If the trace is of a known model, they are those of model_synthesise; otherwise they
 * follow from the operations of matrix products, which run in `precision`, and from the bytes that
 * the trace holds. Fails with TRACE_ERROR_INVALID if the trace cannot be retimed. */
bool trace_retime(struct trace *trace, const struct platform *platform,
                  enum model_precision precision, GError **error);

/* Does so for a trace file, whose records are left out; what its recording could not tell stays in
 * it. `precision` is NULL for that of trace_products. Sets *seconds to the sum of the durations.
 * `to` may be `from`. */
bool trace_retime_file(const char *from, const struct platform *platform,
                       const enum model_precision *precision, const char *to, double *seconds,
                       GError **error);

/* Returns the precision in which the trace's matrix products run, as far as its parameters tell. */
enum model_precision trace_products(const struct trace *trace);

#endif
