/* What ranks do with their shards: make tensors whole, and read the shards of others. */
#ifndef PSTAR_ENGINE_SHARDS_H
#define PSTAR_ENGINE_SHARDS_H

#include "engine/ranks.h"
#include "traces/shard.h"
#include "traces/trace.h"

/* ---- making tensors whole ---- */

/* A tensor, of which each rank has its shard in place. */
struct shard_whole {
    uint64_t elements;
    void *data; /* [elements] */
};

/* Gives every rank the whole tensors, in one transfer. Within the caller's turn. */
void shards_gather(struct ranks *ranks, const struct shard_whole *wholes, uint32_t count,
                   uint32_t element_bytes);

/* ---- reading what all ranks hold ---- */

/* Elements [first, first + count) of a tensor in a list. */
struct shard_request {
    tensor_id tensor;
    uint32_t list; /* enum trace_list */
    uint64_t first, count;
};

/* Returns the part of a request that is in a rank's shard; count 0 if none is. */
struct shard_request shard_request_of(const struct trace *trace,
                                      const struct shard_request *request, uint32_t rank);

/* What ranks hold together. */
struct shard_store {
    struct ranks *ranks;
    const uint8_t *element_bytes; /* [TRACE_LISTS] */
    /* Returns the part of a request that a rank holds; count 0 if it holds none. */
    struct shard_request (*part_of)(void *self, const struct shard_request *request, uint32_t rank);
    /* Copies elements that this rank holds. */
    void (*read_own)(void *self, const struct shard_request *request, void *to);
    void *self;
};

/* Reads the elements from the ranks that hold them, while every other rank also reads what it likes
 * or waits in shard_store_end. Ranks answer each other in rounds, in which each asks for a piece,
 * so what a rank holds for others takes little memory. */
void shard_store_read(const struct shard_store *store, const struct shard_request *request,
                      void *to);
/* Answers the other ranks until all of them have ended, too. */
void shard_store_end(const struct shard_store *store);

#endif
