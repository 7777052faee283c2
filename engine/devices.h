/* Devices by their names. All but the CPU device lie in libraries of their own,
 * "libpstar-NAME.so". */
#ifndef PSTAR_ENGINE_DEVICES_H
#define PSTAR_ENGINE_DEVICES_H

#include "engine/device.h"

/* Returns the device of a name as in --device; it stays loaded. Fails with DEVICE_ERROR_NONE_HERE
 * if there is no such device, or if its library or something that the library needs is not on this
 * machine. */
const struct device_ops *devices_find(const char *name, GError **error);

/* The function that such a library exports. */
const struct device_ops *pstar_device(void);

#endif
