/* A device: memory that operators reach, host memory that they do not reach, and the link between
 * the two.
 *
 * Each device is one table of functions. Work goes into the queues of chunks/residency/mover.h, and
 * each queue runs in order; a ticket is the place of a piece of work in its queue, from 1.
 * Addresses are bytes from the start of the arena or of the host pool: pointers stay inside the
 * device. Functions are called by one thread, the one that opened the device, unless their comment
 * says otherwise. */
#ifndef PSTAR_ENGINE_DEVICE_H
#define PSTAR_ENGINE_DEVICE_H

#include "chunks/residency/mover.h"
#include "engine/operation.h"
#include <glib.h>

enum device_memory { DEVICE_ARENA, DEVICE_HOST_POOL };

struct annotate;
struct ranks;

/* A file below host memory (engine/storage/storage.h). */
struct device_storage {
    const char *folder; /* in which it has no name */
    uint64_t bytes;     /* of the file; 0 if there is none */
    uint64_t block_bytes;
    uint32_t depth;
};

struct device_options {
    /* NULL: the process trains alone. Must outlive the device, which issues turns (engine/ranks.h)
     * for the collectives that it leaves to these ranks. */
    struct ranks *ranks;
    struct ranks *stages; /* of a pipeline, of which this process is one; NULL with one. Must
                             outlive the device */
    uint64_t arena_bytes, host_pool_bytes;
    double h2d_rate, d2h_rate; /* bytes a second; 0 for the speed of memory */
    uint32_t threads;          /* for operators on the device; 0 for all that may be used */
    /* Tables of rotary positions (engine/rotary.h), which lie beside the arena if the device's
     * kernels cannot read the host's memory. */
    uint64_t table_bytes;
    struct device_storage storage;
    /* [host_cut_count] where tensors begin in the host pool, ascending. On a machine whose memory
     * lies in several places each of them is spread on its own (engine/host/cores.h). The caller
     * owns the array. */
    const uint64_t *host_cuts;
    uint32_t host_cut_count;
    /* Receives the copies of a device that no profiler watches. May be NULL; must outlive the
     * device. */
    const struct annotate *annotate;
};

/* The bytes and copies over the link since the device was opened. A copy is counted when it ends,
 * by the code that makes it. */
struct device_traffic {
    uint64_t bytes[MOVER_QUEUES], copies[MOVER_QUEUES];
};

/* A device's own memory, in bytes. */
struct device_capacity {
    uint64_t bytes; /* the most that an arena can have */
    /* The rest: what the driver, libraries and other programs hold, and the device's buffers beside
     * the arena. 0 if the memory is the host's. */
    uint64_t library_bytes;
};

/* A transfer between the host pool and the file below it. */
struct device_transfer {
    uint64_t nvme_address, host_address, bytes; /* multiples of 4096 */
    uint64_t *checksum;  /* as in struct storage_transfer, until the ticket is complete; may be NULL
                          */
    const char *subject; /* what the bytes are; outlives the device */
};

/* A tensor that becomes whole on the device. */
struct device_shard {
    uint64_t whole_address; /* of the tensor, in the arena */
    uint64_t elements;      /* of the tensor */
    bool on_device; /* this rank's shard is on the device; else it is in its place already */
    uint64_t shard_address; /* of the shard if it is on the device */
};

struct device_gather {
    const struct device_shard *shards; /* [count] */
    uint32_t count;
    uint32_t element_bytes;
};

struct device {
    const struct device_ops *ops;
};

enum device_error {
    DEVICE_ERROR_NONE_HERE, /* there is no such device, or no driver for it */
    DEVICE_ERROR_MEMORY,
    DEVICE_ERROR_MODEL, /* the device has no operators for the model */
    DEVICE_ERROR_WORK   /* queued work failed */
};
#define DEVICE_ERROR device_error_quark()
GQuark device_error_quark(void);

struct device_ops {
    const char *name; /* as in --device */

    /* Returns whether the device has operators for the model. Fails with DEVICE_ERROR_MODEL if not.
     */
    bool (*supports)(const struct model_config *config, GError **error);
    /* Returns the device's name, free with g_free, and measures its memory. Fails with
     * DEVICE_ERROR_NONE_HERE if there is no such device. */
    char *(*describe)(struct device_capacity *capacity, GError **error);
    /* Returns whether a profiler knows how long operators on the device take, because they run when
     * the device comes to them. NULL if none does. */
    bool (*is_profiled)(void);
    /* Takes all memory at once, zeroed. Fails with DEVICE_ERROR_MEMORY if the machine has less,
     * or if there is no room for the file below host memory. */
    struct device *(*open)(const struct device_options *options, GError **error);
    /* Connects the device with those of the other ranks. Every rank must call it, when all have
     * opened theirs. Fails with DEVICE_ERROR_WORK. NULL if there is nothing to connect. */
    bool (*join)(struct device *device, GError **error);
    /* Completes the queued work first. */
    void (*close)(struct device *device);

    /* Queues a copy in the direction of `queue`, MOVER_H2D or MOVER_D2H. */
    mover_ticket (*copy)(struct device *device, enum mover_queue queue, uint64_t device_address,
                         uint64_t host_address, uint64_t bytes, const struct mover_after *after);
    /* Queues a transfer in the direction of `queue`, MOVER_NVME_READ or MOVER_NVME_WRITE. */
    mover_ticket (*transfer)(struct device *device, enum mover_queue queue,
                             const struct device_transfer *transfer,
                             const struct mover_after *after);
    /* Queues, in the network's queue: puts this rank's shards that are on the device into their
     * places in the whole tensors, and then lets every rank have all shards. Takes the description
     * of the shards before it returns. */
    mover_ticket (*gather)(struct device *device, const struct device_gather *gather,
                           const struct mover_after *after);
    /* Queues a move within the arena, in the compute queue. The ranges may overlap. */
    mover_ticket (*move)(struct device *device, uint64_t to, uint64_t from, uint64_t bytes,
                         const struct mover_after *after);
    /* Queues, in the compute queue, a copy of the caller's bytes to the arena. It takes the bytes
     * before it returns. */
    mover_ticket (*send)(struct device *device, uint64_t to, uint64_t bytes, const void *from,
                         const struct mover_after *after);
    /* Runs an operator on the arena, in the compute queue. Its scalar results lie in memory of
     * `scalars`, and are valid when the ticket is complete. */
    mover_ticket (*compute)(struct device *device, const struct operation *operation,
                            const struct mover_after *after);
    /* Runs a reduction (MODEL_REDUCE) on the arena, in the network's queue. Copies the operation.
     */
    mover_ticket (*reduce)(struct device *device, const struct operation *operation,
                           const struct mover_after *after);
    /* Runs an operator on the host pool, in the host's queue. Copies the operation. */
    mover_ticket (*compute_on_host)(struct device *device, const struct operation *operation,
                                    const struct mover_after *after);
    /* Queues, in the compute queue, adamw_clip of the sum of squares[count], in order. *scale is
     * valid when the ticket is complete, and for updates on the device that are queued later. All
     * three are memory of `scalars`. */
    mover_ticket (*clip)(struct device *device, const double *squares, uint32_t count, double clip,
                         double *scale, const struct mover_after *after);
    /* Returns a ticket of the host's queue that is complete when `after` is. */
    mover_ticket (*join_on_host)(struct device *device, const struct mover_after *after);
    /* Returns when the work is complete. */
    void (*wait)(struct device *device, const struct mover_after *after);
    /* Returns when all work is complete. */
    void (*drain)(struct device *device);

    /* Returns `count` numbers for the results of operators, 0 at first. The device owns them until
     * it is closed. */
    double *(*scalars)(struct device *device, uint32_t count);
    /* Fails with DEVICE_ERROR_WORK if work that was waited for has failed. */
    bool (*check)(struct device *device, GError **error);

    /* Returns the seconds since the device was opened in which the compute queue, or the caller of
     * wait, waited for other queues. Counts waits that are over, and does not wait itself. */
    double (*stall_seconds)(struct device *device);
    /* Call only while nothing is queued. */
    struct device_traffic (*traffic)(const struct device *device);
    /* Returns the operations a second of a large matrix product, which is the best that the device
     * can do, or 0 if that cannot be measured. Takes a fraction of a second. */
    double (*peak_flops)(struct device *device, enum model_precision precision);

    /* Direct access, for loading and saving. Queued work on these bytes must be complete. */
    void (*read)(struct device *device, enum device_memory memory, uint64_t address, uint64_t bytes,
                 void *to);
    void (*write)(struct device *device, enum device_memory memory, uint64_t address,
                  uint64_t bytes, const void *from);
};

extern const struct device_ops device_cpu;

#endif
