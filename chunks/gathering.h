/* Gathered chunks: whole parameters, of which each rank has a shard in the list of parameters. A
 * fetch of such a chunk gathers it: each rank copies its own shards to their places in the chunk,
 * over the link or within the device, and sends them to all others. */
#ifndef PSTAR_CHUNKS_GATHERING_H
#define PSTAR_CHUNKS_GATHERING_H

#include "chunks/layout.h"

/* One tensor of a gathered chunk. */
struct gathering_part {
    tensor_id tensor;
    uint64_t offset;       /* of the whole tensor in the chunk, in bytes */
    chunk_id source;       /* the chunk of parameters that has the rank's shard */
    uint64_t shard_offset; /* of the shard in the source */
};

struct gathering {
    uint32_t *first;              /* [chunk_count + 1] into parts */
    struct gathering_part *parts; /* by chunk; none for chunks of other lists */
};

/* Returns NULL if the layout has no gathered chunks. */
struct gathering *gathering_new(const struct layout *layout);
void gathering_free(struct gathering *gathering); /* NULL is allowed */

/* What a rank copies and exchanges in order to gather. */
struct gathering_traffic {
    uint64_t link_bytes; /* of its own shards, from the host */
    struct trace_exchange exchange;
};

/* Adds one tensor. `on_device`: the rank's shard is there. */
void gathering_count(struct gathering_traffic *traffic, const struct trace *trace, tensor_id tensor,
                     uint32_t rank, bool on_device);

#endif
