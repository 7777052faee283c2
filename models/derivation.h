/* The runs that can be derived from a trace. If pstar describes its model, they differ in any
 * choice (models/derive.h). Otherwise they differ in the layers that backward computes again
 * (traces/recompute.h) and, if the trace knows how operators use what is saved for backward, in the
 * layers whose activations may leave the device (traces/offload.h). */
#ifndef PSTAR_MODELS_DERIVATION_H
#define PSTAR_MODELS_DERIVATION_H

#include "models/derive.h"

struct derivation;

/* Returns NULL, and an error that says why pstar does not describe the model, if no other run can
 * be derived. The trace must outlive the result. The caller frees it with derivation_free. */
struct derivation *derivation_new(const struct trace *trace, GError **error);
void derivation_free(struct derivation *derivation); /* NULL is allowed */

/* Returns the trace's model, or NULL if pstar does not describe it. It is the derivation's. NULL is
 * allowed. */
const struct recognised *derivation_model(const struct derivation *derivation);

/* Returns the choices (bits of enum run_choice) in which derived runs may differ: none for NULL. */
unsigned derivation_scope(const struct derivation *derivation);

/* Does the same for a trace: none if no other run can be derived from it. */
unsigned derivation_scope_of(const struct trace *trace);

/* Returns the trace of the run with other choices, as model_derive does. Of a model that pstar does
 * not describe, layers that the trace recomputes must stay recomputed. Fails with
 * TRACE_ERROR_INVALID. The caller frees the result with trace_free. */
struct trace *derivation_trace(const struct derivation *derivation,
                               const struct run_choices *choices, const struct platform *platform,
                               GError **error);

#endif
