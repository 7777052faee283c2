/* Where the gradients of several ranks are summed: the host's memory, or a GPU's. Kernels include
 * this header, so it is C++ too. */
#ifndef PSTAR_ENGINE_REDUCTION_PLACE_H
#define PSTAR_ENGINE_REDUCTION_PLACE_H

#include "traces/shard.h"

#include <stdbool.h>
#include <stdint.h>

/* Gradients whose norms are taken at once, and the blocks of their squares. */
enum { REDUCTION_TENSORS = 16, REDUCTION_BLOCKS = REDUCTION_TENSORS * SHARD_BLOCKS };

/* Elements of every rank's gradient that are added at once. */
struct reduction_piece {
    const void *received[2]; /* [ranks, elements], by rank: the parts. The second may be NULL */
    uint32_t ranks;
    uint64_t elements;
    bool accumulate, rows, narrow; /* as in struct reduction_sum (engine/reduction.h) */
    void *sum;                     /* [elements] */
};

/* Where gradients are summed: the host's memory, or a device's. Functions may queue their work, in
 * the order of the ranks' transfers. */
struct reduction_place {
    const void *context; /* of the functions */
    uint32_t piece;      /* elements that a rank receives from each other rank at once */
    float *received;     /* [2, ranks, piece]; NULL if nothing is summed */
    double *blocks;      /* [REDUCTION_BLOCKS] */
    void (*add)(const void *context, const struct reduction_piece *piece);
    /* Fills an fp32 gradient with -0, which changes no number that it is added to. */
    void (*clear)(const void *context, uint64_t elements, float *gradient);
};

/* Adds a piece as reduction_add does, on the calling thread. */
void reduction_add_on_host(const void *context, const struct reduction_piece *piece);
/* Fills with -0 on the calling thread. */
void reduction_clear_on_host(const void *context, uint64_t elements, float *gradient);

#endif
