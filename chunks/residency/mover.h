/* The interface through which the residency manager moves data. The engine implements it with
 * copies, the simulator with a virtual clock.
 *
 * Work goes into queues, each in order. A ticket stands for the completion of one piece of work in
 * its queue: a sequence number in the engine, a time in the simulator. The residency manager only
 * passes tickets on and takes the larger of two tickets of a queue; it never asks whether a ticket
 * is complete. */
#ifndef PSTAR_CHUNKS_RESIDENCY_MOVER_H
#define PSTAR_CHUNKS_RESIDENCY_MOVER_H

#include "traces/ids.h"

#include <stdbool.h>

enum mover_queue {
    MOVER_COMPUTE,
    MOVER_H2D,
    MOVER_D2H,
    MOVER_HOST,
    MOVER_NETWORK, /* what several ranks exchange */
    MOVER_NVME_READ,
    MOVER_NVME_WRITE,
    MOVER_QUEUES
};

typedef uint64_t mover_ticket; /* 0 means that there is nothing to wait for */

/* Work that must be complete before other work begins: one ticket per queue. */
struct mover_after {
    mover_ticket queue[MOVER_QUEUES];
};

struct mover_copy {
    chunk_id chunk;
    uint64_t device_address; /* of the chunk: bytes from the start of the arena */
    uint64_t host_address;   /* of the chunk: bytes from the start of the host pool */
    uint64_t nvme_address;   /* bytes from the start of the file; NO_ADDRESS if not at home there */
    uint64_t slot_bytes;     /* what the chunk occupies on the device */
    uint64_t offset;         /* in the chunk, of what is copied */
    uint64_t copy_bytes;     /* what is copied: the chunk's copy_bytes, or a part of them */
    uint32_t part;           /* which of its parts that is; 0 if it is copied as a whole */
};

/* A tensor of a gathered chunk. */
struct mover_shard {
    tensor_id tensor;
    uint64_t whole_address; /* of the whole tensor, on the device */
    bool on_device;         /* the rank's shard is there, and else on the host */
    uint64_t shard_address; /* from the start of the arena, or of the host pool */
};

struct mover_gather {
    struct mover_copy to; /* without a host address */
    const struct mover_shard *shards;
    uint32_t shard_count;
};

struct mover_ops {
    /* Copies host to device. From its first part on, the chunk occupies the device address. */
    mover_ticket (*fetch)(void *self, const struct mover_copy *copy,
                          const struct mover_after *after);
    /* Gathers a chunk from the shards of all ranks, in the network's queue. Shards on the host
     * cross the link first. From now on the chunk occupies the device address. NULL if there is
     * only one rank. */
    mover_ticket (*gather)(void *self, const struct mover_gather *gather,
                           const struct mover_after *after);
    /* Copies device to host. If `leaves`, which is said with the last part, the chunk is no longer
     * counted as occupying the device. */
    mover_ticket (*write_back)(void *self, const struct mover_copy *copy, bool leaves,
                               const struct mover_after *after);
    /* Occupies the device address without a copy. */
    void (*allocate)(void *self, const struct mover_copy *copy);
    /* Leaves without a copy. */
    void (*drop)(void *self, chunk_id chunk);
    /* Copies a chunk that is at home in NVMe to its slot in the host pool, plan_nvme_slot bytes, in
     * the queue that reads. NULL, as the next one, if the mover takes no plans with such chunks. */
    mover_ticket (*load)(void *self, const struct mover_copy *copy,
                         const struct mover_after *after);
    /* Copies it back to NVMe, in the queue that writes. */
    mover_ticket (*store)(void *self, const struct mover_copy *copy,
                          const struct mover_after *after);
    /* Moves within the device, in the compute queue. `from` and `to` may overlap. */
    mover_ticket (*move)(void *self, const struct mover_copy *to, uint64_t from,
                         const struct mover_after *after);
    /* Runs the operator of a moment: in the host's queue if it is placed there, in the network's if
     * it is a reduction (trace_operator_reduces), else in the compute queue. An operator on the
     * host includes the copies of its activations. If it receives activations, *received becomes
     * the ticket of their copy, after which their room on the device is free. Otherwise *received
     * is unchanged. */
    mover_ticket (*run)(void *self, moment_id moment, const struct mover_after *after,
                        mover_ticket *received);
};

#endif
