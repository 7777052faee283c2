/* Runs pstar-run: a training run from its options to its end. */
#ifndef PSTAR_ENGINE_TRAIN_TRAINER_H
#define PSTAR_ENGINE_TRAIN_TRAINER_H

#include "engine/train/run_options.h"

/* A step that is done. */
struct trainer_step {
    uint64_t step, steps; /* its number, from 1, and how many there are */
    double seconds, loss, tokens_per_second;
    double flops;      /* of any step */
    double peak_flops; /* a second, which the device reaches; 0 if unknown */
};

/* The callbacks through which a program watches a run. */
struct trainer_watch {
    bool shown; /* whether the steps are shown; the device's peak is then measured */
    /* Called once before the run makes threads. */
    void (*begin)(void *data);
    /* Called after each step. Returns false to make it the last one. */
    bool (*step)(void *data, const struct trainer_step *step);
    /* Called after the last step, before anything is printed. */
    void (*end)(void *data);
    void *data;
};

/* Prepares the run and refuses impossible options. Then takes memory and trains, or, with
 * --dry-run, only prints how much memory it would take. Prints results to standard output. An error
 * is marked (traces/failure.h) if it came while training, or if a memory is too small. */
bool trainer_run(const struct run_options *options, const struct trainer_watch *watch,
                 GError **error);

#endif
