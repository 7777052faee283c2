/* The probe's measurements, one function a subject. Each opens what it needs and leaves nothing
 * behind but points; DEVICE_ERROR_MEMORY where the machine has not the memory. */
#ifndef PSTAR_ENGINE_PROBE_PROBE_STEPS_H
#define PSTAR_ENGINE_PROBE_PROBE_STEPS_H

#include "engine/device.h"
#include "platforms/platform.h"

/* A link so fast that memory is what limits its copies; compute and copies keep to their own cores,
 * as they do with --link. */
#define PROBE_FASTEST_LINK 1e15

/* Copies by size: each direction alone, both at once, beside matrix products, and moves. */
bool probe_copies(const struct device_ops *ops, struct platform *platform, GError **error);

/* Matrix products and traffic of memory of the CPU device, on all cores and on those that --link
 * leaves to compute. */
bool probe_compute(const struct device_ops *ops, struct platform *platform, GError **error);

/* The same through a device's queue. */
bool probe_operators(const struct device_ops *ops, struct platform *platform, GError **error);

/* AdamW on the host, by elements and by threads. */
bool probe_updates(const struct device_ops *ops, struct platform *platform, GError **error);

/* Of the CPU device: what waiting and waking threads cost, and the engine's work between two
 * operators. */
bool probe_threads(const struct device_ops *ops, struct platform *platform, GError **error);

/* Of the CPU device: how much slower operators are beside copies and beside the host's operators.
 */
bool probe_neighbours(const struct device_ops *ops, struct platform *platform, GError **error);

#endif
