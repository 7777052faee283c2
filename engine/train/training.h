/* What a training run holds: data, engine, and how far it has come. The loop over its steps is
 * trainer.c's. */
#ifndef PSTAR_ENGINE_TRAIN_TRAINING_H
#define PSTAR_ENGINE_TRAIN_TRAINING_H

#include "engine/engine.h"
#include "engine/train/checkpoint.h"
#include "engine/train/data.h"
#include "engine/train/run_options.h"
#include "engine/train/run_plan.h"
#include "engine/train/together.h"

/* So many skipped steps that follow each other end a run. */
enum { TRAINING_MOST_SKIPPED = 3 };

enum training_error { TRAINING_ERROR_DIVERGED };
#define TRAINING_ERROR training_error_quark()
GQuark training_error_quark(void);

struct trainer_watch;
struct training_saver;

/* The micro-batches of a step. */
struct training_batches {
    uint32_t *tokens; /* [the rank's or the stage's micro-batches][2, N] */
    uint64_t targets; /* that count, of all ranks */
};

/* The state of a training run while it trains. */
struct training {
    const struct run_options *options;
    const struct run_plan *run;
    struct data *data, *eval; /* eval: NULL without --eval */
    struct annotate *annotate;
    struct engine *engine;
    struct checkpoint_state state;       /* state.step: steps done */
    bool trained;                        /* this run has done a step that was not skipped */
    uint32_t skipped;                    /* steps that were skipped since then */
    struct weights_form form;            /* of the weights' files: saved as they were loaded */
    struct weights_hash weights;         /* several ranks: of weights and moments at the start */
    struct training_saver *saver;        /* training_save.c's; NULL without --save */
    struct training_batches next, ahead; /* of the next step, and what has been read for later */
    GArray *text; /* uint32_t: the prompt, which the sample continues; or NULL */
};

/* Opens the data, checks a checkpoint or a weight file against the run, takes all memory, and fills
 * it. A dry run does the same checks, but takes no memory and writes nothing; it may have no
 * data. The caller clears the result in either case (training_clear). */
bool training_open(struct training *training, const struct run_options *options,
                   const struct run_plan *run, const struct trainer_watch *watch, GError **error);
void training_clear(struct training *training);

/* Brings the plan's initial residency to the device. Ranks exchange parameters here, so all of them
 * must have opened theirs. */
void training_start(struct training *training);

/* Ends all ranks, of which the others wait for what this one cannot give them any more. Returns
 * false if the run has one rank only. */
bool training_end_ranks(const struct training *training, const GError *error);

/* Reads the micro-batches of the step that is `later` steps after the next one, and counts the
 * targets of those that other ranks read. data_check then says whether they are whole. */
void training_read(struct training *training, uint64_t later);
/* Makes what has been read last the micro-batches of the next step. */
void training_turn(struct training *training);

/* Runs the next step on its micro-batches, with the schedule's learning rate. If the loss or
 * the gradient is not finite, weights saved after the update would be useless. With clipping, the
 * norm is known before the update. Then a gradient that is not finite skips the step: nothing but
 * state.step changes, and *skipped becomes a text that names the first operator that left it, freed
 * with g_free. Otherwise *skipped is NULL. Fails with TRAINING_ERROR_DIVERGED, naming the operator,
 * without clipping, at the TRAINING_MOST_SKIPPED-th skipped step in a row, and if the run would
 * skip all of its steps. */
bool training_step(struct training *training, bool stop, struct engine_result *result,
                   char **skipped, GError **error);

/* Returns whether there is text to evaluate on. */
bool training_can_evaluate(const struct training *training);

/* Writes the model with its adapters merged to --merge, if that is given. */
bool training_merge(struct training *training, GError **error);

/* Returns the trace of the whole model, whose tensors weights and checkpoints have. */
const struct trace *training_trace(const struct training *training);
const struct model_job *training_job(const struct training *training);
/* Returns the rows of a micro-batch: batch x sequence. */
size_t training_rows(const struct training *training);
/* Returns whether this rank prints and writes: the first of several, or the only one. */
bool training_is_first(const struct run_options *options);

#endif
