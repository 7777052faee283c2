/* A training run from its options to its end: what pstar-run does. */
#ifndef PSTAR_ENGINE_TRAIN_TRAINER_H
#define PSTAR_ENGINE_TRAIN_TRAINER_H

#include "engine/train/run_options.h"

/* A step that is done. */
struct trainer_step {
    uint64_t step, steps; /* its number, from 1, and how many there are */
    double seconds, loss, tokens_per_second;
    double flops;      /* of any step */
    double peak_flops; /* a second, which the device reaches; 0: unknown */
};

/* Who watches a run. */
struct trainer_watch {
    bool shown; /* somebody sees the steps: the device's peak is measured for them */
    /* Called once before the run makes threads. */
    void (*begin)(void *data);
    /* Called after each step. Returns false to make it the last one. */
    bool (*step)(void *data, const struct trainer_step *step);
    /* Called after the last step, before anything is printed. */
    void (*end)(void *data);
    void *data;
};

/* Prepares the run and refuses what cannot be; then takes memory and trains, or, with --dry-run,
 * only prints what would be taken. Prints results to standard output. An error is marked
 * (traces/failure.h) if it came while training, or if a memory is too small. */
bool trainer_run(const struct run_options *options, const struct trainer_watch *watch,
                 GError **error);

#endif
