/* Cuts an iteration into the stages of a pipeline.
 *
 * A stage is one more place: it has a run of the model's layers, the first also the embedding and
 * the last also the classifier, and it runs their operators of every micro-batch. A schedule says
 * in which order a stage takes its passes. A pass is a forward or a backward of one micro-batch.
 * Passes of one direction are always in the order of the micro-batches, so gradients are summed as
 * one stage sums them, whatever the schedule.
 *
 * Between two stages go the residual stream, forward, and its gradient, backward: [N,H] each. Tied
 * weights are the first stage's; it sends a copy to the last stage when a step begins, and gets the
 * classifier's gradient of each micro-batch from there. */
#ifndef PSTAR_MODELS_PIPELINE_H
#define PSTAR_MODELS_PIPELINE_H

#include "models/iteration.h"

enum pipeline_schedule {
    PIPELINE_1F1B,  /* PipeDream-Flush (Narayanan et al., "Memory-Efficient Pipeline-Parallel DNN
                       Training", section 3): a stage runs ahead by at most as many forward passes as
                       stages follow it, and then alternates */
    PIPELINE_GPIPE, /* Huang et al., "GPipe": all forward passes, then all backward passes */
    PIPELINE_SCHEDULES
};

/* Return the name, "1f1b" or "gpipe"; convert one. The latter returns false and leaves *schedule
 * unchanged if the name is unknown. */
const char *pipeline_schedule_name(enum pipeline_schedule schedule);
bool pipeline_schedule_parse(const char *name, enum pipeline_schedule *schedule);

struct pipeline_pass {
    uint32_t micro_batch;
    bool backward;
};

/* Returns the 2 * micro_batches passes of a stage in their order. Free with g_free. */
struct pipeline_pass *pipeline_passes(enum pipeline_schedule schedule, uint32_t stages,
                                      uint32_t stage, uint32_t micro_batches);

/* Returns a stage's first layer; for stage == stages, the number of layers. Stages differ by at
 * most one layer. */
uint32_t pipeline_first_layer(uint32_t layers, uint32_t stages, uint32_t stage);

/* What a message between two stages is. Messages of one kind arrive in the order in which they were
 * sent. */
enum pipeline_channel { PIPELINE_STREAM, PIPELINE_WEIGHT, PIPELINE_GRADIENT };

/* What a stage's iteration knows of the whole. */
struct pipeline_cut {
    const struct model_iteration *whole; /* of all stages */
    uint32_t stages, stage;
    uint32_t *stage_of; /* [the whole's tensor_count] */
    uint32_t *here;     /* [the whole's tensor_count] the tensor's index in this stage; NO_INDEX */
    uint32_t *in_whole; /* [the stage's tensor_count] the tensor's index in the whole */
};
void pipeline_cut_free(struct pipeline_cut *cut); /* NULL is allowed */

/* Checks that a job can be cut: as many layers and as many micro-batches as stages at least,
 * gradients in lists, updates at the end. Fails with MODEL_ERROR_CONFIG. */
bool pipeline_check(const struct model_config *config, const struct model_job *job, uint32_t stages,
                    GError **error);

/* Returns the iteration of one of several stages; pipeline_check has passed. Its trace has the
 * stage's tensors, operators and buffers, with operators that send and receive, and says what the
 * stage exchanges. `whole` must outlive the result; model_iteration_free frees it. */
struct model_iteration *pipeline_stage(const struct model_iteration *whole, uint32_t stages,
                                       uint32_t stage, enum pipeline_schedule schedule);

/* Returns the numbers that each stage shows all others before the first update: the micro-batches'
 * losses, a wish to stop, and the squares of the gradients' norms. */
uint32_t pipeline_shared_numbers(const struct model_iteration *whole);

/* Returns the iteration of all stages: `iteration` itself, unless it is a stage's. */
const struct model_iteration *pipeline_whole(const struct model_iteration *iteration);

/* Returns the index that a tensor of the iteration has in the whole. */
tensor_id pipeline_tensor_in_whole(const struct model_iteration *iteration, tensor_id tensor);

#endif
