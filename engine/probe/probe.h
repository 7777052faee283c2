/* Measures this machine, as a device uses it, and writes a platform file. */
#ifndef PSTAR_ENGINE_PROBE_PROBE_H
#define PSTAR_ENGINE_PROBE_PROBE_H

#include "engine/device.h"
#include "engine/ranks.h"

/* The quantity that the probe measures next. */
struct probe_step {
    uint32_t done, total; /* measurements */
    const char *subject;
    double seconds_left; /* about what the rest takes */
};

struct probe_request {
    const struct device_ops *device;
    const char *path;    /* of the platform file */
    const char *nvme;    /* folder of a disk to measure; NULL for none, as with several ranks */
    struct ranks *ranks; /* NULL with one. All ranks measure at the same time; the first writes */
    ranks_status_of *status_of; /* of an error; may be NULL with one rank */
    void (*show)(void *data, const struct probe_step *step); /* before each measurement; may be
                                                                NULL */
    void *data;
};

/* Takes less than a minute, and 0.4 GB for each rank. Fails if the path cannot be written, or if
 * there is no such device. An error is marked (base/failure.h) if writing fails after the
 * measurements, or if the machine has too little memory. With several ranks one of them has the
 * error; for the others *elsewhere becomes the exit status (ranks_agree). */
bool probe_run(const struct probe_request *request, int *elsewhere, GError **error);

#endif
