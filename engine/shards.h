/* What ranks do with their shards: sum gradients of several ranks, make tensors whole, and read the
 * shards of others. */
#ifndef PSTAR_ENGINE_SHARDS_H
#define PSTAR_ENGINE_SHARDS_H

#include "engine/ranks.h"
#include "engine/reduction_place.h"
#include "traces/shard.h"
#include "traces/trace.h"

/* ---- gradients and parameters ---- */

struct reduction;

/* Sums gradients in a place, whose memory is the caller's, or in the host's memory if `place` is
 * NULL. `ranks` must outlive the result. */
struct reduction *reduction_new(struct ranks *ranks, const struct reduction_place *place);
void reduction_free(struct reduction *reduction); /* NULL is allowed */

/* The gradients of one tensor, of one micro-batch of each rank. */
struct reduction_sum {
    uint64_t elements;        /* of the tensor */
    const void *gradients[2]; /* this rank's, [elements]: parts that are added one after the other.
                                 The second may be NULL */
    bool accumulate;          /* adds to `sum` instead of overwriting it */
    bool rows;   /* rows that the micro-batch does not touch are -0 (reduction_clear) */
    bool narrow; /* gradients and sum are in bf16: the sum, in fp32, is rounded once. Then nothing
                    is accumulated */
    void *sum;   /* this rank's shard; it may be that of the first gradient */
};

/* Receives the shard's elements of all ranks, in pieces, and adds them: ranks in order, and a
 * rank's parts in order. Within the caller's turn (engine/ranks.h). */
void reduction_add(struct reduction *reduction, const struct reduction_sum *sum);

/* Fills a gradient with -0, which changes no number that it is added to; a narrow one with zeros of
 * either sign, and up to an element behind it. */
void reduction_clear(struct reduction *reduction, uint64_t elements, bool narrow, void *gradient);

/* A tensor, of which each rank has its shard in place. */
struct shard_whole {
    uint64_t elements;
    void *data; /* [elements] */
};

/* Gives every rank the whole tensors, in one transfer. Within the caller's turn. */
void shards_gather(struct ranks *ranks, const struct shard_whole *wholes, uint32_t count,
                   uint32_t element_bytes);

/* Returns the place's blocks, for the sums of squares of a gradient. */
double *reduction_blocks(const struct reduction *reduction);
/* Gives every rank the sums of all blocks, of which each has its shard's. */
void reduction_gather_blocks(struct reduction *reduction, uint64_t elements);

struct ranks *reduction_ranks(const struct reduction *reduction);

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
