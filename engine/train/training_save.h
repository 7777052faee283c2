/* How a training run saves checkpoints: behind the training if there is room for a snapshot.
 *
 * Between two steps the run copies what it saves (snapshot.h); a thread then writes the copy, while
 * the next steps change the original. One checkpoint is written at a time. Several ranks write
 * their parts so, each with a thread that exchanges nothing; after each step the ranks tell each
 * other whether theirs have ended, and when all have, the first rank's thread makes a checkpoint of
 * the parts. All ranks must call these functions at the same steps. */
#ifndef PSTAR_ENGINE_TRAIN_TRAINING_SAVE_H
#define PSTAR_ENGINE_TRAIN_TRAINING_SAVE_H

#include "engine/train/training.h"

/* Opens the folder of --save, if that is given, and takes the memory of a snapshot, if the run plan
 * has one. Each rank that sees the first rank's folder will write its part of every checkpoint. If
 * a rank has no memory for it, training will wait while checkpoints are written, and *waits becomes
 * the reason, to be freed with g_free; else NULL. */
bool training_save_open(struct training *training, char **waits, GError **error);
/* Waits for the thread. */
void training_save_close(struct training *training);

/* Writes a checkpoint, after the one that is being written, if any: call training_save_settle
 * before. All ranks get the error of the one that cannot write. */
bool training_save(struct training *training, GError **error);

/* Returns whether training_save_begin may be called: there is a snapshot. */
bool training_save_is_behind(const struct training *training);

/* Begins a checkpoint and returns as soon as the run may go on. Returns false if the one before is
 * still being written. */
bool training_save_begin(struct training *training);

enum save_news { SAVE_NO_NEWS, SAVE_SUCCEEDED, SAVE_FAILED };

/* Returns whether the checkpoint that was begun has ended since the last call, without waiting.
 * Sets *step to its step, and the error if it failed. */
enum save_news training_save_poll(struct training *training, uint64_t *step, GError **error);
/* Waits for the end of the one that was begun, if any. */
enum save_news training_save_settle(struct training *training, uint64_t *step, GError **error);

#endif
