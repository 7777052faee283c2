/* A training run from its options to its end: what pstar-run does. */
#ifndef PSTAR_ENGINE_TRAIN_TRAINER_H
#define PSTAR_ENGINE_TRAIN_TRAINER_H

#include "engine/train/run_options.h"

/* Prepares, refuses what cannot be, and then takes memory and trains; or, with --dry-run, only
 * shows what would be taken. Results go to standard output, progress to standard error where that
 * is a terminal. Returns the status with which the program ends: 0 done; with an error 1 failed
 * while running, 2 bad usage or input, 3 does not fit. */
int trainer_run(const struct run_options *options, GError **error);

#endif
