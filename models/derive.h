/* From the trace of a run, its model, and the traces of the same run with other choices. */
#ifndef PSTAR_MODELS_DERIVE_H
#define PSTAR_MODELS_DERIVE_H

#include "models/iteration.h"
#include "platforms/platform.h"

struct recognised {
    struct model_config *config; /* what shapes an iteration; probabilities of dropout are 0.1 where
                                    there is any, epsilon and the like are defaults */
    struct model_iteration
        *iteration; /* its trace is the given one but for strings and durations */
};

/* Shapes come from the sizes of tensors, heads from attention's operations, dropout from what it
 * leaves. The result is not guessed: the iteration that it describes has every operator, access,
 * count and buffer of the trace. Fails (TRACE_ERROR_INVALID) where that is not so: the run was
 * another program's. The caller frees the result with recognised_free. */
struct recognised *recognise(const struct trace *trace, GError **error);
void recognised_free(struct recognised *recognised); /* NULL is allowed */

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

/* `on_host` [tensor_count]: nonzero updates the tensor on the host, 0 on the device.
 *
 * An update that stays keeps its duration. One that goes to the host takes what the platform's
 * curve host_update says of its elements, one that goes to the device what the platform's device
 * memory takes for its bytes. Without a platform (NULL) it takes as long an element as the trace's
 * own updates there, or, where there are none, as long as it took where it was; unknown stays
 * unknown. The result is marked as estimated where any operator moved.
 *
 * Updates on the host come first, then the device's, each in the order of the tensors, as in a run
 * (models/iteration.h), where nothing depends on their order: each tensor has one, they use no
 * buffers, and nothing follows them. Else they stay in the order of the trace.
 *
 * Fails (TRACE_ERROR_INVALID) where one operator updates
 * tensors of both kinds. The caller frees the result with trace_free. */
struct trace *model_place_updates(const struct trace *trace, const uint8_t *on_host,
                                  const struct platform *platform, GError **error);

#endif
