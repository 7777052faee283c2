/* Saves and resumes training runs.
 *
 * A checkpoint is a folder of four files: config.json and model.safetensors, or several files of
 * weights and their index, which transformers loads; optimizer.safetensors, the moments, each
 * tensor's name followed by ".exp_avg" or ".exp_avg_sq", if the weights' files are in bf16 the
 * weights in fp32, ".master", and with a delay the version of the weights that the next step reads,
 * ".param"; and trainer.json, the state of training. Frozen tensors have no moments and no master
 * there. If adapters are trained, adapter_config.json and adapter_model.safetensors (adapters.h)
 * are in the place of config.json and the weights, and the model stays where it is. If several
 * processes save together, each writes files with weights and moments of its part of the model,
 * which have indexes. A checkpoint appears whole or not at all: a save that is interrupted leaves
 * the checkpoint before it, or the new one (checkpoint_folder.h). */
#ifndef PSTAR_ENGINE_TRAIN_CHECKPOINT_H
#define PSTAR_ENGINE_TRAIN_CHECKPOINT_H

#include "engine/train/schedule.h"
#include "engine/weights.h"

/* The state of training: everything besides weights and moments that the next step depends on. */
struct checkpoint_state {
    uint64_t step; /* steps done */
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

    /* What was asked for; earlier versions did not save it. */
    uint64_t steps; /* of training; 0 if unknown */
    char *data;     /* path; NULL if unknown */
    char *tokens;   /* "auto", "bytes", "uint16", "uint32"; NULL if unknown */
    char *model;    /* path of the model that was given; NULL if unknown */
};
void checkpoint_state_clear(struct checkpoint_state *state); /* frees its strings */

enum checkpoint_error {
    CHECKPOINT_ERROR_IO,
    CHECKPOINT_ERROR_INVALID,  /* damaged, or not a checkpoint */
    CHECKPOINT_ERROR_OTHER_RUN /* this run does not continue the saved one */
};
#define CHECKPOINT_ERROR checkpoint_error_quark()
GQuark checkpoint_error_quark(void);

/* Returns whether checkpoint_save would accept the folder: it is missing, empty or a checkpoint.
 * Finishes a replacement that was interrupted. */
bool checkpoint_may_save(const char *folder, GError **error);

/* Fails if a checkpoint of the trace's tensors cannot be saved to the folder: if checkpoint_save
 * would not accept it, if nothing can be written there, or if there is too little room. If
 * `several` checkpoints follow each other, the second is written while the first is there. */
bool checkpoint_try(const char *folder, const struct trace *trace, bool delay, bool several,
                    GError **error);

/* What a checkpoint holds, and in which form. The numbers of `state` must be finite and below
 * 2^63. */
struct checkpoint_content {
    const struct checkpoint_state *state;
    const struct model_config *config;
    const struct trace *trace;
    const struct weights_store *store;
    const struct weights_form *form;
};

/* Creates the folder, or replaces the checkpoint in it; other files in it stay. The folder may be a
 * symbolic link or a mount point. Every file is synced before the old checkpoint is given up. */
bool checkpoint_save(const char *folder, const struct checkpoint_content *content, GError **error);

/* The steps of checkpoint_save, if several processes save together. One process begins; it returns
 * the path of an empty folder for the new files, to be freed with g_free. Then all write their
 * files into it, and the first one the files that are there once. When all have written, the
 * process that began ends: with `well` it replaces the old checkpoint, otherwise, or if that does
 * not work, it removes the new files and leaves the old checkpoint. */
char *checkpoint_begin(const char *folder, GError **error);
bool checkpoint_write(const char *fresh, const struct checkpoint_content *content,
                      struct weights_writer writer, GError **error);
bool checkpoint_end(const char *folder, const struct checkpoint_content *content, uint32_t writers,
                    bool well, GError **error);

/* Finishes a save that was interrupted while it replaced files, then reads only trainer.json, which
 * a run that goes on from here must match. Overwrites `state`. */
bool checkpoint_read_state(const char *folder, struct checkpoint_state *state, GError **error);

/* Fails if `run` cannot continue `saved`, naming all differences and their values. A run may have
 * another precision, learning rate and optimizer; other batches too if the data is read in random
 * order. The numbers of steps done are not compared. */
bool checkpoint_match(const char *folder, const struct checkpoint_state *saved,
                      const struct checkpoint_state *run, GError **error);

/* Returns the differences that checkpoint_match allows, or NULL if there are none. Free with
 * g_free. */
char *checkpoint_changes(const struct checkpoint_state *saved, const struct checkpoint_state *run);

/* Copies weights, moments and with a delay the version before to the store, and sets the form of
 * the weights' files. config.json and the other files are checked against the model first; if one
 * of them is of another model, nothing is written. */
bool checkpoint_load(const char *folder, const struct model_config *config,
                     const struct trace *trace, bool delay, const struct weights_store *store,
                     struct weights_form *form, GError **error);

#endif
