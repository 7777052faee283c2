/* A device: memory that operators reach, host memory that they do not, and what connects the two.
 *
 * One vtable a device. Work goes into the queues of chunks/residency/mover.h, each in order; a
 * ticket is the place of a piece of work in its queue, from 1. Addresses are bytes from the start
 * of the arena or of the host pool: pointers stay inside the device. Unless said otherwise
 * functions are called by one thread, the one that opened the device. */
#ifndef PSTAR_ENGINE_DEVICE_H
#define PSTAR_ENGINE_DEVICE_H

#include "chunks/residency/mover.h"
#include "engine/operation.h"
#include <glib.h>

enum device_memory { DEVICE_ARENA, DEVICE_HOST_POOL };

struct annotate;

struct device_options {
    uint64_t arena_bytes, host_pool_bytes;
    double h2d_rate, d2h_rate; /* bytes a second; 0: as fast as memory */
    uint32_t threads;          /* for operators on the device; 0: all that may be used for them */
    /* [host_cut_count] where things begin in the host pool, ascending: on a machine whose memory
     * lies in several places each of them is spread by itself (engine/host/cores.h). The caller's.
     */
    const uint64_t *host_cuts;
    uint32_t host_cut_count;
    /* For copies, by a device that no profiler watches; NULL: nobody listens. Outlives it. */
    const struct annotate *annotate;
};

/* What went over the link since the device was opened, counted by those who copied, at the end of
 * each copy. */
struct device_traffic {
    uint64_t bytes[MOVER_QUEUES], copies[MOVER_QUEUES];
};

/* A device's own memory, in bytes. */
struct device_capacity {
    uint64_t bytes; /* that an arena can have at most */
    /* Of the rest: what the driver, libraries and other programs hold, and the device's buffers
     * beside the arena. 0 where memory is the host's. */
    uint64_t library_bytes;
};

struct device {
    const struct device_ops *ops;
};

enum device_error {
    DEVICE_ERROR_NONE_HERE, /* no such device, or no driver for it */
    DEVICE_ERROR_MEMORY,
    DEVICE_ERROR_MODEL, /* no operators for such a model */
    DEVICE_ERROR_WORK   /* queued work failed */
};
#define DEVICE_ERROR device_error_quark()
GQuark device_error_quark(void);

struct device_ops {
    const char *name; /* as in --device */

    /* Whether the device has operators for the model; fails with DEVICE_ERROR_MODEL where not. */
    bool (*supports)(const struct model_config *config, GError **error);
    /* The device's name, free with g_free, and its memory as measured now. DEVICE_ERROR_NONE_HERE
     * where there is no such device. */
    char *(*describe)(struct device_capacity *capacity, GError **error);
    /* Takes all memory at once, zeroed. DEVICE_ERROR_MEMORY where the machine has not that much. */
    struct device *(*open)(const struct device_options *options, GError **error);
    /* Completes what is queued first. */
    void (*close)(struct device *device);

    /* Queues a copy in the direction of `queue`, MOVER_H2D or MOVER_D2H. */
    mover_ticket (*copy)(struct device *device, enum mover_queue queue, uint64_t device_address,
                         uint64_t host_address, uint64_t bytes, const struct mover_after *after);
    /* Within the arena, in the compute queue; the ranges may overlap. */
    mover_ticket (*move)(struct device *device, uint64_t to, uint64_t from, uint64_t bytes,
                         const struct mover_after *after);
    /* Bytes that the caller has go to the arena, in the compute queue; they are taken at once. */
    mover_ticket (*send)(struct device *device, uint64_t to, uint64_t bytes, const void *from,
                         const struct mover_after *after);
    /* Runs an operator on the arena, in the compute queue; its scalar results are valid when the
     * ticket is complete, and lie in memory of `scalars`. */
    mover_ticket (*compute)(struct device *device, const struct operation *operation,
                            const struct mover_after *after);
    /* The same on the host pool, in the host's queue. The operation is copied. */
    mover_ticket (*compute_on_host)(struct device *device, const struct operation *operation,
                                    const struct mover_after *after);
    /* Queues, in the compute queue, what adamw_clip gives for the sum of squares[count], in order:
     * *scale is valid when the ticket is complete, and for updates on the device that are queued
     * later. All are memory of `scalars`. */
    mover_ticket (*clip)(struct device *device, const double *squares, uint32_t count, double clip,
                         double *scale, const struct mover_after *after);
    /* A place in the host's queue that is reached when `after` is complete. */
    mover_ticket (*join_on_host)(struct device *device, const struct mover_after *after);
    /* Returns when the work is complete. */
    void (*wait)(struct device *device, const struct mover_after *after);
    /* Returns when all work is. */
    void (*drain)(struct device *device);

    /* `count` numbers for the results of operators, 0 at first; the device's, until it is closed.
     */
    double *(*scalars)(struct device *device, uint32_t count);
    /* Fails with DEVICE_ERROR_WORK where work that was waited for has failed. */
    bool (*check)(struct device *device, GError **error);

    /* Seconds in which the compute queue, or the caller of wait, waited for others, since the
     * device was opened; of waits that are over. Does not wait itself. */
    double (*stall_seconds)(struct device *device);
    /* Nothing may be queued. */
    struct device_traffic (*traffic)(const struct device *device);
    /* Operations a second of a large matrix product: what the device can do at best; 0 where that
     * cannot be tried. Takes a fraction of a second. */
    double (*peak_flops)(struct device *device, enum model_precision precision);

    /* Direct access for loading and saving; queued work on these bytes must be complete. */
    void (*read)(struct device *device, enum device_memory memory, uint64_t address, uint64_t bytes,
                 void *to);
    void (*write)(struct device *device, enum device_memory memory, uint64_t address,
                  uint64_t bytes, const void *from);
};

extern const struct device_ops device_cpu;

#endif
