/* The probe's measurements, one function a subject. Each opens what it needs and leaves nothing
 * behind but points; DEVICE_ERROR_MEMORY where the machine has not the memory. */
#ifndef PSTAR_ENGINE_PROBE_STEPS_H
#define PSTAR_ENGINE_PROBE_STEPS_H

#include "engine/device.h"
#include "platforms/platform.h"

/* A link so fast that memory is what limits its copies; compute and copies keep to their own cores,
 * as they do with --link. */
#define PROBE_FASTEST_LINK 1e15

/* Copies by size: each direction alone, both at once, beside a matrix product, and moves. */
bool probe_copies(struct platform *platform, GError **error);

/* Matrix products and traffic of memory, on all cores and on those that --link leaves to compute.
 */
bool probe_compute(struct platform *platform, GError **error);

/* AdamW by elements and by threads. */
bool probe_updates(struct platform *platform, GError **error);

/* What waiting and waking threads cost, and the engine's work between two operators. */
bool probe_threads(struct platform *platform, GError **error);

/* How much slower operators are beside copies and beside the host's operators. */
bool probe_neighbours(struct platform *platform, GError **error);

#endif
