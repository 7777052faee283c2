/* Cuts an iteration into the stages of a pipeline.
 *
 * A stage is one more place: it has a run of the model's layers, the first also the embedding and
 * the last also the classifier, and it runs their operators of every micro-batch. A schedule says
 * in which order a stage takes its passes. A pass is a forward or a backward of one micro-batch, or
 * with a backward that is split one of its halves.
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
    PIPELINE_2BW,   /* PipeDream-2BW (ibid., section 2): never drains. A step of a stage begins with
                       forward passes behind it, and ends with as many of the next step */
    PIPELINE_INTERLEAVED, /* Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
                             Clusters Using Megatron-LM", section 2.2: each stage has several parts
                             of the model, and takes as many micro-batches as there are stages
                             through each of them in turn */
    PIPELINE_ZERO_BUBBLE, /* ZB-H1 of Qi et al., "Zero Bubble Pipeline Parallelism", section 2.2: as
                             1F1B, but the weights' gradients are passes of their own, of which a
                             stage is at most as many behind as stages precede it */
    PIPELINE_SCHEDULES
};

/* Returns the name: "1f1b", "gpipe", "2bw", "interleaved" or "zb-h1". */
const char *pipeline_schedule_name(enum pipeline_schedule schedule);

struct pipeline_pass {
    uint32_t micro_batch;
    bool backward;
    bool next;     /* of the next step */
    uint32_t part; /* through which part of the stage */
    bool weights;  /* of a backward that is split, the second half: gradients of weights */
};

/* Returns the 2 * micro_batches passes of a stage of one part in their order, unless the schedule
 * splits backward passes. Free with g_free. */
struct pipeline_pass *pipeline_passes(enum pipeline_schedule schedule, uint32_t stages,
                                      uint32_t stage, uint32_t micro_batches);

/* Returns how many micro-batches of the next step a stage runs forward before a step ends. */
uint32_t pipeline_ahead(enum pipeline_schedule schedule, uint32_t stages, uint32_t stage);

/* Into how many stages a model is cut, and in which order they take their passes. */
struct pipeline_shape {
    uint32_t stages;
    enum pipeline_schedule schedule;
    const uint32_t *layers; /* [stages] of each stage; NULL: all have as many, or one more */
    uint32_t parts;         /* of each stage; more than 1 with PIPELINE_INTERLEAVED only. The model
                               is cut into stages * parts pieces: piece p is part p / stages of
                               stage p % stages */
};

/* Returns how many parts a stage has if it is not said. */
uint32_t pipeline_usual_parts(enum pipeline_schedule schedule);

/* Returns whether the schedule takes the halves of a backward apart (model_job.split). */
static inline bool pipeline_splits(enum pipeline_schedule schedule)
{
    return schedule == PIPELINE_ZERO_BUBBLE;
}

/* Returns a piece's first layer; for the number of pieces, the number of layers. */
uint32_t pipeline_first_layer(const struct pipeline_shape *shape, uint32_t layers, uint32_t piece);

/* Returns the passes of a stage in their order, and sets *count. Free with g_free. */
struct pipeline_pass *pipeline_stage_passes(const struct pipeline_shape *shape, uint32_t stage,
                                            uint32_t micro_batches, uint32_t *count);

/* Parses the numbers of layers of the stages, such as "3,4,5". Sets *stages to how many there are.
 * Fails (MODEL_ERROR_CONFIG) if the text is not such a list. The caller frees the result with
 * g_free. */
uint32_t *pipeline_parse_layers(const char *text, uint32_t *stages, GError **error);

/* What a message between two stages is. Messages of one kind arrive in the order in which they were
 * sent. Where stages have several parts, what crosses from a piece to the next has a channel of its
 * own in each direction, from PIPELINE_CROSSINGS on. */
enum pipeline_channel {
    PIPELINE_STREAM = 1,
    PIPELINE_WEIGHT,
    PIPELINE_GRADIENT,
    PIPELINE_CROSSINGS
};

/* What a stage's iteration knows of the whole. */
struct pipeline_cut {
    const struct model_iteration *whole; /* of all stages */
    uint32_t stages, stage;
    uint32_t parts;                    /* of the stage */
    uint32_t first_layer, layer_count; /* of its first part; of all */
    uint32_t *stage_of;                /* [the whole's tensor_count] */
    uint32_t *here;     /* [the whole's tensor_count] the tensor's index in this stage; NO_INDEX */
    uint32_t *in_whole; /* [the stage's tensor_count] the tensor's index in the whole */

    /* What the stage saves of micro-batches between their forward and their backward, if these may
     * be in different steps: then these buffers live all the time. */
    uint32_t ahead;      /* micro-batches of the next step that a step runs forward */
    uint32_t slots;      /* micro-batches for which there are buffers; 0 if ahead is 0 */
    uint32_t kept;       /* buffers of a micro-batch */
    uint32_t *kept_here; /* [slots][kept] the buffers' indices in this stage */
};
void pipeline_cut_free(struct pipeline_cut *cut); /* NULL is allowed */

/* Checks that the model can be cut into several stages. Fails with MODEL_ERROR_CONFIG if its loss
 * counts the experts' imbalance. */
bool pipeline_check_model(const struct model_config *config, GError **error);

/* Checks that a job can be cut: a model that can, as many layers and as many micro-batches as
 * stages at least, layers that add up to the model's, gradients in lists, updates at the end, and
 * something trained in the first piece and in every stage. PIPELINE_2BW needs a delay, and has some
 * restrictions so far; PIPELINE_ZERO_BUBBLE needs a backward that is split. Fails with
 * MODEL_ERROR_CONFIG. */
bool pipeline_check(const struct model_config *config, const struct model_job *job,
                    const struct pipeline_shape *shape, GError **error);

/* Returns the iteration of one of several stages; pipeline_check has passed. Its trace has the
 * stage's tensors, operators and buffers, with operators that send and receive, and says what the
 * stage exchanges. `whole` must outlive the result; model_iteration_free frees it. */
struct model_iteration *pipeline_stage(const struct model_iteration *whole,
                                       const struct pipeline_shape *shape, uint32_t stage);

/* Returns the slot of a micro-batch of the step, whose buffers are its own from its forward to its
 * backward. Needs slots. */
uint32_t pipeline_slot(const struct pipeline_cut *cut, uint32_t micro_batch);

/* Returns the buffer that stands for `buffer` of micro-batch `of` in micro-batch `other`: another
 * if the stage keeps it until backward, else the same. Needs slots. */
uint32_t pipeline_kept_buffer(const struct pipeline_cut *cut, uint32_t buffer, uint32_t of,
                              uint32_t other);

/* Returns the numbers that each stage shows all others before the first update: the micro-batches'
 * losses, a wish to stop, and the squares of the gradients' norms. */
uint32_t pipeline_shared_numbers(const struct model_iteration *whole);

/* Returns how many micro-batches of the next step the iteration runs forward. */
static inline uint32_t pipeline_ahead_of(const struct model_iteration *iteration)
{
    return iteration->cut ? iteration->cut->ahead : 0;
}

/* Returns the iteration of all stages: `iteration` itself, unless it is a stage's. */
const struct model_iteration *pipeline_whole(const struct model_iteration *iteration);

/* Returns the index that a tensor of the iteration has in the whole. */
tensor_id pipeline_tensor_in_whole(const struct model_iteration *iteration, tensor_id tensor);

#endif
