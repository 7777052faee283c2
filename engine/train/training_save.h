/* How a training run saves checkpoints. */
#ifndef PSTAR_ENGINE_TRAIN_TRAINING_SAVE_H
#define PSTAR_ENGINE_TRAIN_TRAINING_SAVE_H

#include "engine/train/training.h"

/* Opens the folder of --save, if that is given. Each rank that sees the first rank's folder will
 * write its part of every checkpoint. All ranks must call it, after training_open. */
bool training_save_open(struct training *training, GError **error);
void training_save_close(struct training *training);

/* Writes a checkpoint to --save. All ranks get the error of the one that cannot write. */
bool training_save(struct training *training, GError **error);

#endif
