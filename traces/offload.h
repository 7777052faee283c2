/* Saved activations of layers, in a trace of any program, that may leave the device between forward
 * and backward. */
#ifndef PSTAR_TRACES_OFFLOAD_H
#define PSTAR_TRACES_OFFLOAD_H

#include "traces/trace.h"

/* Returns whether trace_offload takes the trace: it is of one rank, knows how operators use buffers
 * that may leave, and chunks hold none of them yet. */
bool trace_may_offload(const struct trace *trace);

/* Returns the trace of the same iteration in which chunks hold the buffers that backward of marked
 * layers restores, and no layer without a mark. `layers` has a mark for each layer that operators
 * name. Which layer saves a buffer does not matter: a program may save one early to log its norm.
 *
 * The operator that saves a buffer copies it into its chunk, which is there again for each operator
 * that restores it. So the buffer keeps its index, begins with the operator that saves it, and has
 * accesses. Where it was made, it is a buffer of its own, behind the others, until the last use in
 * forward. Where an operator of backward uses what an earlier one has restored, that is
 * a copy, too. Copies within the device take no time.
 *
 * Buffers of less than a 32nd of the largest of their layer stay as they are. The trace must
 * satisfy trace_may_offload. The caller frees the result with trace_free. */
struct trace *trace_offload(const struct trace *trace, const uint8_t *layers);

#endif
