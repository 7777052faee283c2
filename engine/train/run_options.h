/* The options of a training run. */
#ifndef PSTAR_ENGINE_TRAIN_RUN_OPTIONS_H
#define PSTAR_ENGINE_TRAIN_RUN_OPTIONS_H

#include "chunks/chunk_sizes.h"

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

#define RUN_UNLIMITED UINT64_MAX

/* Until run_options_complete, a value that was not given is UINT64_MAX, UINT8_MAX or NaN, and 0 for
 * batch, sequence and micro_batches, which a plan may set afterwards. */
struct run_options {
    struct ranks *ranks;    /* that train together; NULL: this process trains alone */
    struct ranks *peers;    /* those that share the micro-batches: all, or those of the same stage;
                               NULL with one */
    struct ranks *pipeline; /* one rank of each stage; NULL without stages */
    const char *version;    /* of the program */
    char *model, *data, *eval;
    char *plan, *emit_plan, *policy, *layout;
    char *log, *save, *resume;
    char *prompt;    /* of the sample: text, or numbers of tokens; NULL for the data's beginning */
    char *recompute; /* "all", "none", or layers: "0,2,5-7" */
    char *offload;   /* the same */
    char *train;     /* as model_choose_trained reads it; NULL: all */
    char *adapters;  /* folder of adapters to begin with; NULL: new ones */
    char *merge;     /* folder for the model with its adapters merged; NULL: none */
    char *state_block; /* "auto" or elements; NULL: optimizer states are not cut */
    const struct device_ops *device;
    uint64_t device_budget, host_budget, nvme_budget; /* bytes; RUN_UNLIMITED if not given */
    char *nvme; /* folder of the file for chunks at home in NVMe; NULL: none */
    uint64_t
        nvme_block_bytes; /* of that file, and how many are under way; 0, 0: as the plan says, */
    uint32_t nvme_depth;  /* or what is usual */
    struct chunk_sizes chunk_sizes;
    bool sized;                /* chunk sizes are given; otherwise they are chosen for the model */
    double h2d_rate, d2h_rate; /* bytes a second; 0 for the speed of memory */
    uint64_t steps, schedule_steps, warm_up_steps, eval_every, save_every;
    uint64_t seed;
    uint32_t batch, sequence, micro_batches, bytes_per_parameter; /* 0 if not given */
    uint32_t saved_batch, saved_sequence, saved_micro_batches;    /* the checkpoint's; 0 if none */
    uint32_t look_ahead, threads, sample;
    uint32_t keep;      /* checkpoints that stay; 0 if not given */
    uint32_t stage;     /* of ZeRO: 3 shares parameters among ranks; RUN_ANY_STAGE if not given */
    uint32_t delay;     /* 1: gradients are those of the weights before the last update; UINT32_MAX
                           if not given */
    uint32_t stages;    /* of a pipeline, with equally many processes each; 0 stands for 1 */
    char *stage_layers; /* of each stage, such as "3,4,5"; NULL: as equal as can be */
    uint8_t schedule;   /* enum pipeline_schedule */
    uint32_t stage_parts; /* of each stage; 0 stands for what is usual with the schedule, until the
                             options are complete */
    uint8_t reduction;    /* enum run_reduction */
    uint8_t precision;    /* enum model_precision */
    uint8_t data_order;   /* enum data_order */
    uint8_t tokens;       /* enum data_tokens */
    double learning_rate, least_learning_rate, weight_decay, beta1, beta2, epsilon, clip, held_out,
        lora_alpha; /* 0 stands for twice the rank */
    bool host_embedding, host_update;
    bool save_wait; /* training waits while a checkpoint is written, without a snapshot */
    bool dry_run, json;
};

/* Returns whether the processes form the stages of a pipeline. */
static inline bool run_is_pipeline(const struct run_options *options)
{
    return options->stages > 1;
}

/* Returns whether adapters are trained beside a model that stays as it is. */
bool run_has_adapters(const struct run_options *options);

/* The words of enum data_order and enum data_tokens, ending with NULL. */
extern const char *const run_options_orders[], *const run_options_tokens[];

/* Returns the options of a run for which nothing is given. */
struct run_options run_options_default(void);

/* Returns how many checkpoints the run may write, at most. */
uint64_t run_saves(const struct run_options *options);
/* Returns whether training may go on while some of them are written. */
bool run_saves_behind(const struct run_options *options);

/* Fills in what is not given: what a resumed checkpoint says, what follows from other options, or
 * the default. Fails with G_OPTION_ERROR if an option is missing, or contradicts another, or if the
 * checkpoint cannot be read. The strings belong to the caller. */
bool run_options_complete(struct run_options *options, GError **error);

#endif
