/* Runs the operators of an iteration on a device. It resolves their tensors through the residency
 * manager and their buffers through the activations, and keeps what operators pass on outside of
 * both: losses, the gradient's norm and the step's constants. */
#ifndef PSTAR_ENGINE_EXECUTOR_H
#define PSTAR_ENGINE_EXECUTOR_H

#include "chunks/homes.h"
#include "chunks/residency/residency.h"
#include "engine/activations.h"
#include "engine/annotate.h"
#include "engine/chunk_mover.h"
#include "engine/ranks.h"
#include "engine/tensor_use.h"

/* The inputs of an iteration or a forward pass besides the model. */
struct executor_step {
    const uint32_t *tokens; /* [micro_batches, and those ahead][2, N]: inputs, then targets */
    uint64_t seed;          /* of dropout */
    uint32_t first_pass;    /* micro-batches since the start of training */
    bool training;          /* if false, only forward runs, without dropout */
    bool stop;              /* this rank wants to stop after the step */
    struct adamw_options
        adamw;             /* its gradient_scale is 1, because clipping has a factor of its own */
    uint64_t update;       /* AdamW's steps, this one included */
    uint64_t version;      /* of the weights that the micro-batches read; the rule says which */
    uint64_t next_version; /* that those of the next step read */
    uint32_t filling; /* a pipeline that never drains is filled with this micro-batch, which runs
                         the first forward pass in its place; else NO_INDEX */
    double divisor;   /* of the losses: the step's targets that count, or an evaluation's, but at
                         least 1 */
    double clip;      /* greatest norm of the gradient; 0 for no clipping */
};

struct executor {
    struct ranks *ranks;  /* NULL with one */
    struct ranks *stages; /* of a pipeline; NULL with one */
    const struct model_iteration *iteration;
    const struct plan *plan;
    struct staging staging; /* from the plan's staging_address */
    const struct residency *residency;
    struct chunk_mover *mover;
    struct activations *activations;
    struct tensor_use *use;
    uint64_t *versions; /* [the rank's micro-batches, and those ahead] of the weights that each has
                           read */
    struct annotate *annotate; /* may be NULL */
    GPtrArray *resolved;       /* what operators of the step point to: tensors of buckets */

    struct executor_step step;
    double *norms; /* [the whole model's tensor_count] sums of squares of finished gradients; stages
                      share them before the first update; the device owns them */
    double *losses; /* [micro_batches] of all ranks and stages, which share them before the first
                       update; the device owns them */
    bool stop;      /* a rank or a stage wants to stop after the step */
    struct adamw_step adamw;
    double *gradient_scale;      /* of clipping; the device owns it */
    mover_ticket clipped;        /* when it is complete, gradient_scale is this step's */
    bool updating;               /* adamw is this step's, and gradient_scale is or will be */
    struct mover_after computed; /* the last operators of forward and backward; of the host, any
                                    operator if it is annotated */
    GError *error;               /* the first error; later operators do nothing */
};

/* Implements chunk_mover.run; `executor` is a struct executor. */
mover_ticket executor_run(void *executor, moment_id moment, const struct mover_after *after,
                          mover_ticket *received);

/* Returns the number in the step of one of the rank's micro-batches. */
uint32_t executor_micro_batch(const struct executor *executor, uint32_t of_rank);

/* Returns the norm of the whole gradient, summed over tensors in the model's order. Every operator
 * that finishes a gradient must have been waited for. */
double executor_gradient_norm(const struct executor *executor);

/* Waits until the losses and the activations of all operators so far are complete. */
void executor_wait(const struct executor *executor);

#endif
