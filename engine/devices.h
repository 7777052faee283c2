/* The devices by name. All but the CPU lie in libraries of their own, "libpstar-NAME.so". */
#ifndef PSTAR_ENGINE_DEVICES_H
#define PSTAR_ENGINE_DEVICES_H

#include "engine/device.h"

/* The device of a name as in --device; stays loaded. DEVICE_ERROR_NONE_HERE where there is no such
 * device, or its library or what that needs is not on this machine. */
const struct device_ops *devices_find(const char *name, GError **error);

/* What such a library exports. */
const struct device_ops *pstar_device(void);

#endif
