/* The engine: executes a plan's iterations for real, on one device.
 *
 *   engine_open     takes all memory that the run will ever use
 *   engine_store    write every weight (engine/train/weights.h, engine/train/checkpoint.h)
 *   engine_start    the plan's initial residency
 *   engine_step     one iteration, again and again; between them
 *   engine_forward  and the like: forward passes that train nothing
 *   engine_flush    before reading weights back through the store
 */
#ifndef PSTAR_ENGINE_ENGINE_H
#define PSTAR_ENGINE_ENGINE_H

#include "models/iteration.h"

#include "chunks/plan.h"
#include "engine/device.h"
#include "engine/train/annotate.h"
#include "engine/train/weights.h"

struct engine_options {
    const struct model_iteration *iteration;
    const struct plan *plan; /* has passed plan_check against the iteration's trace */
    const struct device_ops *device;
    double h2d_rate, d2h_rate; /* bytes a second; 0: as fast as memory */
    uint32_t threads;          /* for operators on the device; 0: all there are for them */
    struct annotate *annotate; /* NULL: nobody listens */
};

struct engine;

/* The options' pointers outlive the engine. Fails where the machine has not the memory. */
struct engine *engine_open(const struct engine_options *options, GError **error);
void engine_close(struct engine *engine); /* NULL is allowed */

/* Weights and moments, in chunks wherever these lie. Writing is allowed until engine_start;
 * reading after engine_flush until the next step. `self` is the engine. */
struct weights_store engine_store(struct engine *engine);

/* Brings the plan's initial residency to the device. */
void engine_start(struct engine *engine);

struct engine_step {
    uint64_t step;          /* from 0 */
    const uint32_t *tokens; /* [micro_batches][2, N]: inputs, then targets */
    uint64_t seed;          /* of dropout */
    double learning_rate, beta1, beta2, epsilon, weight_decay;
    double clip; /* greatest norm of the gradient; 0: none. Must be 0 where gradients are buffers
                    (MODEL_GRADIENT_BUFFER) and backward runs once */
};

/* `figures` are what this iteration really did: traffic counted at each copy's hand-over, peaks at
 * each operator's start, and nothing of evaluation, loading or saving. Its iteration_seconds runs
 * from the call to its return; stall_seconds is the part of it in which the device's operators
 * waited. */
struct engine_result {
    double loss;          /* mean over the micro-batches */
    double gradient_norm; /* before clipping */
    struct plan_figures figures;
};

/* USAGE_ERROR_BUDGET (engine/usage.h) where memory runs out; the engine is of no use then. */
bool engine_step(struct engine *engine, const struct engine_step *step,
                 struct engine_result *result, GError **error);

/* Where the last step's loss or gradient stopped being finite (engine/divergence.h); free with
 * g_free. */
char *engine_divergence(const struct engine *engine);

/* The loss of one micro-batch, without dropout: tokens [2, N]. Nothing is trained. */
bool engine_forward(struct engine *engine, const uint32_t *tokens, double *loss, GError **error);
/* The same; logits [rows, V] of the rows [first_row, first_row + rows) as fp32. */
bool engine_logits(struct engine *engine, const uint32_t *tokens, uint32_t first_row, uint32_t rows,
                   float *logits, GError **error);

/* Brings everything that is newer on the device to where the store reads. */
void engine_flush(struct engine *engine);

/* The engine's device, for its name and peak_flops. */
struct device *engine_device(const struct engine *engine);

/* What moved outside of iterations, and whether the device's own counts agree with the figures'. */
struct plan_figures engine_outside(const struct engine *engine);
bool engine_counts_agree(const struct engine *engine);

/* The beginnings of tensors, of chunks and of what lies behind each chunk: uint64_t addresses in
 * ascending order, none twice. Free with g_array_unref. */
GArray *pool_cuts(const struct plan *plan);

/* The first operator of the step that left a loss, or a whole gradient, which is infinite or not a
 * number; in words, with the micro-batch or the gradient's tensor. Losses are [micro_batches],
 * `norms` [tensor_count] the sums of squares of the gradients, before clipping. A gradient comes
 * from the end of the model to its beginning, so the first that is not finite is that of the
 * operator where it began, or of the one before. NULL where all are finite; free with g_free. */
char *divergence_describe(const struct model_iteration *iteration, const double *losses,
                          const double *norms);

#endif
