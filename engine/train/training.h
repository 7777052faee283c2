/* What a training run holds while it trains. */
#ifndef PSTAR_ENGINE_TRAIN_TRAINING_H
#define PSTAR_ENGINE_TRAIN_TRAINING_H

#include "engine/engine.h"
#include "engine/train/checkpoint.h"
#include "engine/train/data.h"
#include "engine/train/run_options.h"
#include "engine/train/run_plan.h"

struct training {
    const struct run_options *options;
    const struct run_plan *run;
    struct data *data, *eval; /* eval: NULL without --eval */
    struct annotate *annotate;
    struct engine *engine;
    struct checkpoint_state state; /* state.step: steps done */
    uint32_t *tokens;              /* [micro_batches][2, N] */
};

/* Opens the data, checks a checkpoint or a weight file against the run, takes all memory, and fills
 * it. Clear the result in either case. */
bool training_open(struct training *training, const struct run_options *options,
                   const struct run_plan *run, GError **error);
void training_clear(struct training *training);

enum training_error { TRAINING_ERROR_DIVERGED };
#define TRAINING_ERROR training_error_quark()
GQuark training_error_quark(void);

/* One step on the data that is its turn, at the schedule's rate. TRAINING_ERROR_DIVERGED, with the
 * first operator that left such, where the loss or the gradient is no number any more: nothing that
 * such a run saves is of use. */
bool training_step(struct training *training, struct engine_result *result, GError **error);

/* Whether the run has anything to evaluate on; and the mean loss over it, of at most 64
 * micro-batches. */
bool training_can_evaluate(const struct training *training);
bool training_evaluate(struct training *training, double *loss, GError **error);

/* The first tokens of the data and --sample more (uint32_t) that the model goes on with; NULL on
 * error. Free with g_array_unref. */
GArray *training_sample(struct training *training, GError **error);

/* Writes the checkpoint to --save. */
bool training_save(struct training *training, GError **error);

#endif
