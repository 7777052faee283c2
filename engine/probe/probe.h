/* Measures this machine, as a device uses it, and writes a platform file. */
#ifndef PSTAR_ENGINE_PROBE_PROBE_H
#define PSTAR_ENGINE_PROBE_PROBE_H

#include "engine/device.h"

/* The quantity that the probe measures next. */
struct probe_step {
    uint32_t done, total; /* measurements */
    const char *subject;
    double seconds_left; /* about what the rest takes */
};

/* Takes less than a minute, and 0.4 GB. `show` is called before each measurement; it may be NULL.
 * Fails if the path cannot be written, or if there is no such device. An error is marked
 * (traces/failure.h) if writing fails after the measurements, or if the machine has too little
 * memory. */
bool probe_run(const struct device_ops *ops, const char *path,
               void (*show)(void *data, const struct probe_step *step), void *data, GError **error);

#endif
