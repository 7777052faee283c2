/* The engine: executes a plan's iterations for real, on one device.
 *
 *   engine_open     takes all memory that the run will ever use
 *   engine_store    writes every weight (engine/weights.h, engine/train/checkpoint.h)
 *   engine_start    brings the plan's initial residency to the device
 *   engine_step     runs one iteration, again and again
 *   engine_forward  runs a forward pass between iterations, which trains nothing
 *   engine_flush    must precede reading weights back through the store
 */
#ifndef PSTAR_ENGINE_ENGINE_H
#define PSTAR_ENGINE_ENGINE_H

#include "models/iteration.h"

#include "chunks/plan.h"
#include "engine/annotate.h"
#include "engine/device.h"
#include "engine/weights.h"

struct engine_options {
    struct ranks *ranks;  /* that share the micro-batches; NULL with one; outlive the engine */
    struct ranks *stages; /* of a pipeline, one rank of each, if the iteration is a stage's; else
                             NULL. With several ranks, too, both are parts of all ranks */
    const struct model_iteration *iteration;
    const struct non_model *places; /* of the iteration's trace */
    const struct plan *plan;        /* has passed plan_check against the iteration's trace */
    const struct device_ops *device;
    double h2d_rate, d2h_rate; /* bytes a second; 0 for the speed of memory */
    uint32_t threads;          /* for operators on the device; 0 for all that may be used */
    const char *nvme;          /* folder for chunks at home in NVMe; NULL if there are none */
    uint64_t nvme_block_bytes; /* of the file there: as in struct device_storage */
    uint32_t nvme_depth;
    struct annotate *annotate; /* may be NULL */
};

struct engine;

/* Takes all memory. The options' pointers must outlive the engine. Fails if the machine has too
 * little memory. */
struct engine *engine_open(const struct engine_options *options, GError **error);
/* With several ranks: connects their devices. Every rank must call it once, when all have opened
 * their engine and before the first step. Fails with DEVICE_ERROR_WORK. */
bool engine_join(struct engine *engine, GError **error);
void engine_close(struct engine *engine); /* NULL is allowed */

/* Returns access to weights and moments in their chunks. Writing is allowed until engine_start,
 * reading after engine_flush until the next step. `self` is the engine. Tensors have the indices of
 * the whole model: a stage ignores what is written to the tensors of others. */
struct weights_store engine_store(struct engine *engine);

/* Brings the plan's initial residency to the device. */
void engine_start(struct engine *engine);

struct engine_step {
    uint64_t step;          /* from 0 */
    const uint32_t *tokens; /* [the rank's micro-batches][2, N]: inputs, then targets; the same on
                               all stages; then those of the next step's first micro-batches, if the
                               iteration runs any (pipeline_ahead_of). A target may be
                               KERNEL_NO_TARGET (engine/kernels.h), which does not count */
    uint64_t targets;       /* that count in the micro-batches of this step, of all ranks */
    uint64_t seed;          /* of dropout */
    bool stop;              /* this rank wants to stop after the step */
    double learning_rate, beta1, beta2, epsilon, weight_decay;
    double clip; /* greatest norm of the gradient; 0 for no clipping. Must be 0 if updates are
                    within backward, unless a first backward finds the norm. With clipping, a step
                    whose norm is infinite or not a number leaves weights and moments as they are */
};

/* `figures` are measured: traffic is counted when a copy is handed to the device, peaks at each
 * operator's start, and what this rank exchanges where it is sent and received. Evaluation, loading
 * and saving are not part of them. iteration_seconds runs from the call to its return;
 * stall_seconds is the part of it in which the device's operators waited. */
struct engine_result {
    double loss;          /* mean over the targets that count; 0 if there are none */
    double gradient_norm; /* before clipping */
    uint64_t version; /* of the weights that all micro-batches read: how many updates made them */
    struct plan_figures figures;
    bool stop; /* several ranks: one of them wants to stop */
};

/* Runs one iteration. Fails with USAGE_ERROR_BUDGET (engine/usage.h) if memory runs out; the engine
 * can then only be closed. */
bool engine_step(struct engine *engine, const struct engine_step *step,
                 struct engine_result *result, GError **error);

/* Returns where the last step's loss or gradient stopped being finite, as divergence_describe
 * does. */
char *engine_divergence(const struct engine *engine);

/* Computes the sum of the losses of one micro-batch, tokens [2, N], over its targets that count, of
 * which there are so many, without dropout. A loss of the experts' imbalance counts once for each
 * of them, or once if there are none. Nothing is trained. */
bool engine_forward(struct engine *engine, const uint32_t *tokens, uint64_t targets, double *loss,
                    GError **error);
/* Computes the logits [rows, V] of the rows [first_row, first_row + rows) in fp32, without dropout.
 * Nothing is trained. */
bool engine_logits(struct engine *engine, const uint32_t *tokens, uint32_t first_row, uint32_t rows,
                   float *logits, GError **error);

/* Writes back all chunks that are newer on the device than on the host, where the store reads. */
void engine_flush(struct engine *engine);

/* With several ranks or stages, reading what others hold through the store needs all of them. After
 * engine_flush each calls engine_share_begin, reads what it needs, and calls engine_share_end,
 * which returns when all have ended. It fails with DEVICE_ERROR_WORK if this process could not read
 * what the others asked for. Alone, they do nothing. */
void engine_share_begin(struct engine *engine);
bool engine_share_end(struct engine *engine, GError **error);

/* Returns the engine's device, for its name and peak_flops. */
struct device *engine_device(const struct engine *engine);

/* Return what moved outside of iterations, and whether the device's own counts agree with the
 * figures. */
struct plan_figures engine_outside(const struct engine *engine);
bool engine_counts_agree(const struct engine *engine);

/* Returns where tensors and chunks begin and chunks end in a plan's host pool: uint64_t addresses
 * in ascending order, each once. The caller frees them with g_array_unref. */
GArray *pool_cuts(const struct plan *plan);

/* Names the first operator of the step that left a loss, or a complete gradient, that is infinite
 * or not a number, with the micro-batch or the gradient's tensor. Losses are [micro_batches] of all
 * ranks;
 * `norms` [tensor_count] are the sums of squares of the gradients before clipping. Backward goes
 * from the end of the model to its beginning, so the fault began at this operator or at the one
 * before. Returns NULL if all are finite. The caller frees the text with g_free. */
char *divergence_describe(const struct model_iteration *iteration, const double *losses,
                          const double *norms);

#endif
