/* Collects the tensors, buffers and operators of an iteration while it is described. */
#ifndef PSTAR_MODELS_ITERATION_BUILDER_H
#define PSTAR_MODELS_ITERATION_BUILDER_H

#include "models/family.h"
#include "models/iteration.h"

#define BUFFER_ALIGNMENT 256 /* bytes */

/* What has been described of a tensor's gradient. */
enum builder_progress { BUILDER_OPEN, BUILDER_COMPLETE, BUILDER_UPDATED };

/* An operator that comes later, and the module that its name ends in. */
struct builder_later {
    struct model_operator op;
    char *module;
};

struct iteration_builder {
    const struct model_config *config;
    const struct model_job *job;
    struct model_layout layout;
    enum model_gradient gradient;
    uint64_t rows;           /* N: tokens of a micro-batch */
    uint64_t element;        /* bytes of an activation's element */
    GArray *tensors;         /* struct trace_tensor */
    GArray *buffers;         /* struct trace_buffer */
    GArray *held;            /* uint8_t, a buffer: a chunk holds it */
    GArray *accesses;        /* struct trace_access */
    GArray *operators;       /* struct trace_operator */
    GArray *model_operators; /* struct model_operator, beside operators */
    GArray *gradients;       /* uint32_t: the buffer of each tensor's gradient, or NO_INDEX */
    tensor_id lowest;        /* the first tensor that is trained: backward ends there */
    uint8_t *progress;       /* [choices.tensor_count] enum builder_progress */
    bool *leads;             /* [choices.tensor_count] updates follow its gradient's completion */
    enum model_sums sums;
    GArray *bucket;        /* tensor_id: of gradients that are complete and not reduced yet */
    uint64_t bucket_bytes; /* of these gradients */
    GPtrArray *buckets;    /* arrays of operators, which the iteration keeps */
    uint32_t balance;      /* buffer with what the micro-batch's routers sum up; NO_INDEX */
    uint64_t *routed;      /* [layers * experts] rows of each expert */
    GArray *later;         /* struct builder_later: of the second half of a backward */
    /* Buffers of the last reduction of this backward pass, or NO_INDEX: its gradients, and the
     * classifier's. */
    uint32_t reduced[MODEL_TENSORS + 1];
};

void iteration_builder_init(struct iteration_builder *builder, const struct model_config *config,
                            const struct model_job *job);

/* Frees what iteration_builder_finish has not taken. */
void iteration_builder_clear(struct iteration_builder *builder);

/* Appends a tensor and returns its index. `name` is taken. */
uint32_t iteration_builder_tensor(struct iteration_builder *builder, char *name, uint64_t elements);

/* Returns whether an update only rounds or copies the parameter from its master: with a whole
 * master and a gradient list. */
static inline bool iteration_builder_rounds(const struct iteration_builder *builder)
{
    return model_has_masters(builder->job) && !builder->job->choices.split_masters &&
           builder->gradient == MODEL_GRADIENT_LIST;
}

/* Returns whether the tensor is not trained. */
static inline bool iteration_builder_freezes(const struct iteration_builder *builder,
                                             tensor_id tensor)
{
    return builder->job->choices.frozen[tensor];
}

/* Returns into how many state blocks a tensor is cut; 1 if it is not. */
uint32_t iteration_builder_blocks(const struct iteration_builder *builder, tensor_id tensor);
/* Returns the elements of an update's tensor or, if that is cut, of its block. */
uint64_t iteration_builder_updated(const struct iteration_builder *builder,
                                   const struct model_operator *op);

/* Appends a buffer that nothing uses yet; its bytes are rounded up to 256. `name` is copied. */
uint32_t iteration_builder_buffer(struct iteration_builder *builder, const char *name,
                                  uint64_t bytes);

/* Returns whether each micro-batch's gradients are buffers, which ranks exchange and add. */
static inline bool iteration_builder_reduces(const struct iteration_builder *builder)
{
    return model_ranks(builder->job) > 1 && builder->sums != MODEL_SUMS_BUCKETS;
}

/* Takes the tensors of the bucket, which becomes empty, and returns them for an operator. */
const tensor_id *iteration_builder_take_bucket(struct iteration_builder *builder, uint32_t *count);

/* Returns the buffer of a tensor's gradient, appending it the first time, or NO_INDEX if gradients
 * are not in buffers. */
uint32_t iteration_builder_gradient(struct iteration_builder *builder, tensor_id tensor);

/* Ends the use of the buffer of a tensor's gradient: the next gradient gets another buffer. */
void iteration_builder_drop_gradient(struct iteration_builder *builder, tensor_id tensor);

/* Returns whether backward reaches the layer: it or something before it is trained. */
bool iteration_builder_goes_back(const struct iteration_builder *builder, uint32_t layer);

/* Lets a chunk hold the buffer, so that operators that name it access it. Must precede the first of
 * them. */
void iteration_builder_hold(struct iteration_builder *builder, uint32_t buffer);

/* Returns an operator of the kind with no tensor, buffer or dropout yet. */
struct model_operator model_operator_of(enum model_kind kind, int32_t layer, uint32_t micro_batch);

/* Appends the operator: derives its accesses, operations and bytes, and stretches the lives of its
 * buffers to it. `name` is taken. */
void iteration_builder_operator(struct iteration_builder *builder, char *name,
                                enum trace_phase phase, const struct model_operator *op);

/* Returns the rows that a norm normalises, which are heads if it has parts. */
static inline uint64_t iteration_builder_norm_rows(const struct iteration_builder *builder,
                                                   const struct model_operator *op)
{
    return builder->rows * (op->parts ? op->parts : 1);
}

/* Returns the rows that an operator works on: those of its expert, if it has one. */
static inline uint64_t iteration_builder_rows(const struct iteration_builder *builder,
                                              const struct model_operator *op)
{
    return op->expert == NO_INDEX ? builder->rows : op->routed;
}

/* Returns the number of attention scores of a micro-batch in one layer, B * A * T * T. */
uint64_t iteration_builder_scores(const struct iteration_builder *builder);

/* Moves what was gathered into `trace` and returns the model's operators. */
struct model_operator *iteration_builder_finish(struct iteration_builder *builder,
                                                struct trace *trace);

/* Returns whether the operator belongs to a forward pass, recomputed or not. */
static inline bool model_operator_is_forward(const struct model_operator *op)
{
    return op->kind <= MODEL_CLASSIFIER_FORWARD;
}

#endif
