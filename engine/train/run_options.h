/* The options of pstar-run, as given on the command line. */
#ifndef PSTAR_ENGINE_TRAIN_RUN_OPTIONS_H
#define PSTAR_ENGINE_TRAIN_RUN_OPTIONS_H

#include "chunks/chunk_sizes.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define RUN_UNLIMITED UINT64_MAX

struct run_options {
    char *model, *data, *eval;
    char *plan, *emit_plan, *policy, *layout;
    char *log, *save, *resume;
    char *recompute; /* "all", "none", or layers: "0,2,5-7" */
    char *offload;   /* the same */
    const struct device_ops *device;
    uint64_t device_budget, host_budget; /* bytes; RUN_UNLIMITED where not given */
    struct chunk_sizes chunk_sizes;
    bool sized;                /* chunk sizes are given; otherwise they are chosen for the model */
    double h2d_rate, d2h_rate; /* bytes a second; 0: as fast as memory */
    uint64_t steps, schedule_steps, warm_up_steps, eval_every, save_every;
    uint64_t seed;
    uint32_t batch, sequence, micro_batches, bytes_per_parameter; /* 0: not given */
    uint32_t look_ahead, threads, sample;
    uint8_t precision;  /* enum model_precision */
    uint8_t data_order; /* enum data_order */
    double learning_rate, least_learning_rate, weight_decay, beta1, beta2, epsilon, clip, held_out;
    bool host_embedding, host_update;
    char *output; /* of the probe; NULL: machine.json */
    bool dry_run, json, version, probe;
};

/* Parses and checks. Errors are G_OPTION_ERROR, SIZE_ERROR or LAYOUT_ERROR. Prints and exits for
 * --help alone, as GOption does. Clear the result in either case. */
bool run_options_parse(struct run_options *options, int *argc, char ***argv, GError **error);
void run_options_clear(struct run_options *options);

#endif
