/* The state of training as a checkpoint has it, in trainer.json, and whether a run may go on from
 * it. */
#ifndef PSTAR_ENGINE_TRAIN_CHECKPOINT_STATE_H
#define PSTAR_ENGINE_TRAIN_CHECKPOINT_STATE_H

#include "engine/train/schedule.h"
#include "models/config.h"

#include <glib.h>

#define CHECKPOINT_STATE_FILE "trainer.json"

/* The greatest version whose checkpoints have no checksums. */
#define CHECKPOINT_WITHOUT_MANIFEST 1

/* The state of training: everything besides weights and moments that the next step depends on. */
struct checkpoint_state {
    uint32_t version; /* of the format, when read */
    uint64_t step;    /* steps done */
    uint64_t seed;
    char *precision; /* "fp32", "bf16" */
    uint32_t batch, sequence, micro_batches;
    struct schedule schedule;
    double beta1, beta2, epsilon, weight_decay;
    double clip;       /* greatest norm of the gradient; 0 for no clipping */
    char *data_order;  /* "random", "sequential" */
    char *data_digest; /* data_digest of the tokens */
    double held_out;
    uint32_t delay; /* 1: the next step reads the weights before the last update, which are saved,
                       too; earlier versions did not save it */

    char *train;       /* as --train names it; "all" if unknown */
    double lora_alpha; /* 0 without adapters */
    char *base_digest; /* weights_digest of the model beside which adapters are trained; NULL if
                          there are none, if its weights are drawn, and in earlier versions */

    /* What was asked for; earlier versions did not save it. */
    uint64_t steps; /* of training; 0 if unknown */
    char *data;     /* path; NULL if unknown */
    char *tokens;   /* "auto", "bytes", "uint16", "uint32"; NULL if unknown */
    char *model;    /* path of the model that was given; NULL if unknown */

    /* How it was trained, which changes no bit of what follows; earlier versions did not save it.
     */
    char *plan;         /* digest of what the plan does; NULL if unknown */
    char *plan_made_by; /* the policy, strategy or planner; NULL if unknown */
};
/* Returns a copy, to be cleared like any other. */
struct checkpoint_state checkpoint_state_copy(const struct checkpoint_state *state);
void checkpoint_state_clear(struct checkpoint_state *state); /* frees its strings */

enum checkpoint_error {
    CHECKPOINT_ERROR_IO,
    CHECKPOINT_ERROR_INVALID,  /* damaged, or not a checkpoint */
    CHECKPOINT_ERROR_OTHER_RUN /* this run does not continue the saved one */
};
#define CHECKPOINT_ERROR checkpoint_error_quark()
GQuark checkpoint_error_quark(void);

/* Writes trainer.json. */
bool checkpoint_state_write(const char *folder, const struct checkpoint_state *state,
                            GError **error);
/* Reads the trainer.json of a folder. Overwrites `state`. */
bool checkpoint_state_read(const char *folder, struct checkpoint_state *state, GError **error);

/* Fails if `run` cannot continue `saved`, naming all differences and their values. A run may have
 * another precision, learning rate and optimizer; other batches too if the data is read in random
 * order. The numbers of steps done are not compared. */
bool checkpoint_match(const char *folder, const struct checkpoint_state *saved,
                      const struct checkpoint_state *run, GError **error);

/* Returns the differences that checkpoint_match allows, or NULL if there are none. Free with
 * g_free. */
char *checkpoint_changes(const struct checkpoint_state *saved, const struct checkpoint_state *run);

/* Fails if the model of the checkpoint is another one than the run's, naming all differences. */
bool checkpoint_match_config(const char *folder, const struct model_config *saved,
                             const struct model_config *run, GError **error);

#endif
