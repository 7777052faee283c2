/* The parts of engine/train/checkpoint.h that hold no tensors: what checkpoint.c needs of them. */
#ifndef PSTAR_ENGINE_TRAIN_CHECKPOINT_STATE_H
#define PSTAR_ENGINE_TRAIN_CHECKPOINT_STATE_H

#include "engine/train/checkpoint.h"

#define CHECKPOINT_STATE_FILE "trainer.json"

/* Writes trainer.json. */
bool checkpoint_write_state(const char *folder, const struct checkpoint_state *state,
                            GError **error);

/* Fails unless both configs describe one model, naming what differs and both values. */
bool checkpoint_match_config(const char *folder, const struct model_config *saved,
                             const struct model_config *run, GError **error);

#endif
