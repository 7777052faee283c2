/* Measures this machine, as a device uses it, and writes a platform file. */
#ifndef PSTAR_ENGINE_PROBE_PROBE_H
#define PSTAR_ENGINE_PROBE_PROBE_H

#include "engine/device.h"

/* Takes less than a minute, and 0.4 GB; says on a terminal what it does. Returns the exit status:
 * 0, 2 where the path cannot be written or there is no such device, 1 where writing fails, 3 where
 * the machine has not the memory. */
int probe_run(const struct device_ops *ops, const char *path, GError **error);

#endif
