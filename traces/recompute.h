/* Recomputation of layers' activations, as torch.utils.checkpoint does it, in a trace of any
 * program whose operators name layers. */
#ifndef PSTAR_TRACES_RECOMPUTE_H
#define PSTAR_TRACES_RECOMPUTE_H

#include "traces/trace.h"

/* Returns whether trace_recompute takes the trace: it is of one rank, knows its buffers, of which
 * chunks hold none, and has a list of gradients, since without one a gradient may overwrite what a
 * recomputation reads. */
bool trace_may_recompute(const struct trace *trace);

/* Returns the trace of the same iteration in which backward computes the marked layers again.
 * `layers` has a mark for each layer that operators name.
 *
 * A segment is a run of forward operators of one layer and one micro-batch. What it saves for
 * backward leaves the device at the segment's end, except what its last operator makes: that is
 * what the next layer reads. Before the first operator of the layer's backward, the segment's
 * operators run again, as far as the last one that saves something, with the durations of forward.
 * What is on the device when a segment begins stays until then, since a trace does not say which of
 * it the segment reads. So more may be alive than in a program that knows, but not less, unless
 * what an operator in the middle of a segment saves is read within another layer's backward.
 *
 * A segment stays as it is if an operator of it runs on the host, exchanges something or writes
 * model data; if nothing of it can leave; and if its layer is recomputed already. If an operator
 * that runs again has a duration, the result is marked as estimated.
 *
 * The trace must satisfy trace_may_recompute. The caller frees the result with trace_free. */
struct trace *trace_recompute(const struct trace *trace, const uint8_t *layers);

#endif
