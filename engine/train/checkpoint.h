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
 * which have indexes. A run keeps its last checkpoints in one folder (checkpoint_folder.h), in
 * which each appears whole or not at all. The functions that read take that folder, and then its
 * newest checkpoint, or the folder of one checkpoint. */
#ifndef PSTAR_ENGINE_TRAIN_CHECKPOINT_H
#define PSTAR_ENGINE_TRAIN_CHECKPOINT_H

#include "engine/train/checkpoint_folder.h"
#include "engine/train/checkpoint_state.h"
#include "engine/weights.h"

/* ---- saving ---- */

/* Returns whether checkpoint_save would accept the folder: it is missing, empty, or has
 * checkpoints. Finishes a replacement that an earlier version began. */
bool checkpoint_may_save(const char *folder, GError **error);

enum { CHECKPOINT_LISTS = 4 };

/* Sets the lists of a tensor that a checkpoint holds, and returns their number. */
size_t checkpoint_lists(const struct trace *trace, tensor_id tensor, bool delay,
                        enum trace_list lists[CHECKPOINT_LISTS]);

/* Returns the bytes of the values that a checkpoint of the trace's tensors holds, in fp32. */
uint64_t checkpoint_bytes(const struct trace *trace, bool delay);

/* Fails if checkpoints of the trace's tensors cannot be saved to the folder: if checkpoint_save
 * would not accept it, if nothing can be written there, if there is too little room, or if a file
 * may not be as large (RLIMIT_FSIZE) as that of one of `writers`, at most. `saves` of them follow
 * each other, of which the last `keep` stay, and one more while the oldest is there. */
bool checkpoint_try(const char *folder, const struct trace *trace, bool delay, uint32_t writers,
                    uint64_t saves, uint32_t keep, GError **error);

/* Does the same without writing to the folder, in which another run may be saving, so it does not
 * find what only an attempt shows. */
bool checkpoint_look(const char *folder, const struct trace *trace, bool delay, uint32_t writers,
                     uint64_t saves, uint32_t keep, GError **error);

/* What a checkpoint holds, and in which form. The numbers of `state` must be finite and below
 * 2^63. */
struct checkpoint_content {
    const struct checkpoint_state *state;
    const struct model_config *config;
    const struct trace *trace;
    const struct weights_store *store;
    const struct weights_form *form;
};

/* Adds a checkpoint to the folder, which is created if it is missing, and removes all but the last
 * `keep`, at least 1. The folder may be a symbolic link or a mount point. Every file is synced
 * before a checkpoint is given up. */
bool checkpoint_save(const char *path, const struct checkpoint_content *content, uint32_t keep,
                     GError **error);

/* The steps of checkpoint_save, if several processes save together: after checkpoint_folder_begin
 * all write their files, and the first one the files that are there once. When all have written,
 * one process makes a checkpoint of them. */
bool checkpoint_write(const char *partial, const struct checkpoint_content *content,
                      struct weights_writer writer, GError **error);
bool checkpoint_complete(struct checkpoint_folder *folder, const struct checkpoint_content *content,
                         uint32_t writers, uint32_t keep, GError **error);

/* ---- resuming ---- */

/* Returns the folder of the newest checkpoint in `path`, or `path` if it is one by itself.
 * Finishes a replacement that an earlier version began. Free with g_free. */
char *checkpoint_find(const char *path, GError **error);

/* Reads only trainer.json, which a run that goes on from here must match. Overwrites `state`. */
bool checkpoint_read_state(const char *folder, struct checkpoint_state *state, GError **error);

/* Copies weights, moments and with a delay the version before to the store, and sets the form of
 * the weights' files. config.json and the other files are checked against the model first; if one
 * of them is of another model, nothing is written. */
bool checkpoint_load(const char *path, const struct model_config *config, const struct trace *trace,
                     bool delay, const struct weights_store *store, struct weights_form *form,
                     GError **error);

#endif
