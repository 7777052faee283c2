/* Runs pstar-run: a training run from its options to its end. */
#ifndef PSTAR_ENGINE_TRAIN_TRAINER_H
#define PSTAR_ENGINE_TRAIN_TRAINER_H

#include "engine/engine.h"
#include "engine/train/data.h"
#include "engine/train/run_options.h"

/* Where a run is. */
struct trainer_progress {
    uint64_t step, steps; /* the steps done, and how many there are */
    double loss;          /* of the last step */
    double tokens_per_second;
    double peak_share; /* of the device's peak, in [0, 1]; 0 if the peak is unknown */
    double seconds_left;
    uint32_t evaluated, evaluations; /* micro-batches, while it evaluates; otherwise 0 */
};

/* The callbacks through which a program watches a run. */
struct trainer_watch {
    /* Called once before the run makes threads. */
    void (*begin)(void *data);
    /* Called after each step, and after each micro-batch of an evaluation. */
    void (*show)(void *data, const struct trainer_progress *progress);
    /* Returns true if the run shall stop as soon as it can. */
    bool (*is_stopped)(void *data);
    /* Receives what went wrong without ending the run. */
    void (*warn)(void *data, const char *message);
    /* Called after the last step, before anything is printed. */
    void (*end)(void *data);
    /* Returns the exit status for an error. */
    int (*status_of)(const GError *error);
    void *data;
};

/* How a run ended. */
struct trainer_end {
    uint64_t first;       /* steps that a checkpoint had done */
    uint64_t step, steps; /* done, and asked for */
    bool interrupted;     /* stopped before all was done */
    bool saved;           /* a checkpoint has the last step */
    int elsewhere;        /* the exit status if another rank reports an error; else 0 */
};

/* Prepares the run and refuses impossible options. Then takes memory and trains, or, with
 * --dry-run, only prints how much memory it would take. Prints results to standard output. A run
 * that is stopped finishes its step, and saves if it may. With several ranks, one of them prints,
 * and one reports an error; the others return false without an error and set end->elsewhere. An
 * error is marked (base/failure.h) if it came while training, or if a memory is too small. */
bool trainer_run(const struct run_options *options, const struct trainer_watch *watch,
                 struct trainer_end *end, GError **error);

/* Returns the tokens (uint32_t) of --prompt, or without it the first of the data. A prompt is bytes
 * if the data are; otherwise numbers, or a text for the tokenizer in the model's folder. Returns
 * NULL on error. The caller frees them with g_array_unref. */
GArray *trainer_read_prompt(const struct run_options *options, const struct data *data,
                            const struct model_iteration *iteration, GError **error);

/* Appends `count` tokens (uint32_t) to `text`, which holds at least one to begin with; fewer if the
 * run is stopped. With several ranks all must write as many: `watch` is then NULL. The random draws
 * depend only on `seed`. */
bool trainer_continue_text(struct engine *engine, const struct model_iteration *iteration,
                           uint64_t seed, uint32_t count, const struct trainer_watch *watch,
                           GArray *text, GError **error);

/* Returns the text of a sample as a terminal can show it; free with g_free. `bytes`: tokens are the
 * bytes of a text. Otherwise the tokenizer in the folder of `model` reads them; returns NULL if
 * there is none that models/tokenizer.h reads, or if a token is unknown to it. */
char *trainer_sample_text(const GArray *sample, bool bytes, const char *model);

#endif
