/* From a trace, the one of the same iteration with the optimizer elsewhere. */
#ifndef PSTAR_MODELS_PLACE_UPDATES_H
#define PSTAR_MODELS_PLACE_UPDATES_H

#include "platforms/platform.h"
#include "traces/trace.h"

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
 * Other choices are models/derive.h's. Fails (TRACE_ERROR_INVALID) where one operator updates
 * tensors of both kinds. The caller frees the result with trace_free. */
struct trace *model_place_updates(const struct trace *trace, const uint8_t *on_host,
                                  const struct platform *platform, GError **error);

#endif
