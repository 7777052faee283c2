/* Derives, from the trace of a run, the trace of the same run with other choices. */
#ifndef PSTAR_MODELS_DERIVE_H
#define PSTAR_MODELS_DERIVE_H

#include "models/recognise.h"
#include "platforms/platform.h"
#include "traces/choices.h"

/* Sets the choice of one or two backwards, for a run derived from one that made the choices
 * `traced`. A second backward needs split masters. One backward leaves masters as they were traced,
 * or whole if the traced run had two: a trace does not say whether its run clips gradients, and
 * with split masters and one backward a run cannot. */
void model_choose_backward(struct run_choices *choices, const struct run_choices *traced,
                           bool second_backward);

/* Describes the run anew with other choices; `recognised` is that of `trace`. Updates stay where
 * they were traced, whatever choices->host_update says: model_place_updates moves them.
 *
 * Tensors, operators, accesses, counts and buffers are exactly those of a run with these choices.
 *
 * With the traced micro-batches, operators of both runs keep their durations. An operator that
 * recomputes what the trace kept takes as long as its forward did, and one of a second backward as
 * long as in the first. An embedding on the other side takes what a synthesis for the platform says
 * (as long as it did, if `platform` is NULL). Where masters lie otherwise, some operators move
 * other bytes: synthesised durations are synthesised again, measured ones stay. If any duration is
 * not the trace's own, the result is marked as estimated.
 *
 * Other micro-batches must divide the same step, and no measurement tells how long their operators
 * take. So they need a trace with the durations of a synthesis for `platform`, and all durations
 * are synthesised again.
 *
 * Fails (TRACE_ERROR_INVALID) if the model has no such step (an embedding on the host with
 * gradients in buffers; two backwards in fp32 or with several micro-batches; masters that
 * model_choose_backward does not give) or if the durations cannot be known. The caller frees the
 * result with trace_free. */
struct trace *model_derive(const struct recognised *recognised, const struct trace *trace,
                           const struct run_choices *choices, const struct platform *platform,
                           GError **error);

/* Returns whether the trace's durations are those of a synthesis for the platform. */
bool model_is_synthesised(const struct recognised *recognised, const struct trace *trace,
                          const struct platform *platform);

#endif
