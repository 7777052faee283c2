/* Sums of the gradients that several ranks have of the same tensors. */
#ifndef PSTAR_ENGINE_REDUCTION_H
#define PSTAR_ENGINE_REDUCTION_H

#include "engine/ranks.h"
#include "engine/reduction_place.h"

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

/* Receives the elements of this rank's shards from all ranks, those of `count` tensors in the same
 * pieces, and adds them: ranks in order, and a rank's parts in order. Within the caller's turn
 * (engine/ranks.h). */
void reduction_add(struct reduction *reduction, const struct reduction_sum *sums, uint32_t count);

/* Fills a gradient with -0, which changes no number that it is added to; a narrow one with zeros of
 * either sign, and up to an element behind it. */
void reduction_clear(struct reduction *reduction, uint64_t elements, bool narrow, void *gradient);

/* Returns the place's [SHARD_BLOCKS] for the sums of squares of a gradient, of which there are
 * REDUCTION_TENSORS. */
double *reduction_blocks(const struct reduction *reduction, uint32_t index);
/* Gives every rank the sums of all blocks, of which each has its shard's: those of the first
 * `count` gradients, of elements[count]. Within the caller's turn. */
void reduction_gather_blocks(struct reduction *reduction, const uint64_t *elements, uint32_t count);

struct ranks *reduction_ranks(const struct reduction *reduction);

#endif
