/* A stage's iteration while it is cut from the whole: what pipeline_cut.c, which copies the whole's
 * operators, and pipeline_added.c, which adds others, have in common. */
#ifndef PSTAR_MODELS_PIPELINE_CUTTING_H
#define PSTAR_MODELS_PIPELINE_CUTTING_H

#include "models/pipeline.h"

/* The moments of a pass in the whole iteration. */
struct range {
    uint32_t first, end;
};

struct cutting {
    const struct model_iteration *whole;
    struct pipeline_cut *cut;
    uint32_t pieces;                            /* of the model: parts of all stages */
    uint32_t *of_layer;                         /* [layers] their pieces */
    struct range *forward, *backward, *weights; /* [micro_batches]; the last are empty unless
                                                   backward is split */
    uint32_t *buffer_here;                      /* [the whole's buffer_count]; NO_INDEX */
    uint32_t *kept; /* [buffers of a micro-batch] 1 + the place among the kept; 0 */
    uint32_t each;  /* buffers of a micro-batch in the whole, if any is kept */
    uint8_t *held;  /* [the whole's buffer_count] a chunk holds it; may be NULL */
    tensor_id tied; /* of the whole: tied weights; NO_INDEX if there are none */
    uint32_t copy;  /* the last stage's buffer with a copy of them */
    uint32_t reduced[MODEL_TENSORS + 1]; /* buffers here of the last reduction, while it may be
                                            under way: its gradients, and the classifier's */
    uint32_t *newest; /* [the whole's tensor_count, by the stage's index] the buffer with the
                         newest parameter; NO_INDEX */
    GArray *tensors, *buffers, *accesses, *traced, *operators; /* of the stage */
};

/* ---- pipeline_cut.c: what every operator needs ---- */

/* Appends a buffer, whose name is taken. It lives from the operator that is about to be appended.
 */
uint32_t cutting_add_buffer(struct cutting *cutting, const struct trace_buffer *buffer);
/* Stretches a buffer's life to the operator that is about to be appended. */
void cutting_stretch(struct cutting *cutting, uint32_t here, enum trace_phase phase);
/* Stretches the life of the whole's buffer in this stage, and returns its index here. */
uint32_t cutting_use_buffer(struct cutting *cutting, uint32_t buffer, enum trace_phase phase);
void cutting_add_access(struct cutting *cutting, uint32_t tensor, enum trace_list list,
                        enum trace_mode mode);
/* Appends an operator whose accesses begin at traced->first_access. */
void cutting_append_operator(struct cutting *cutting, struct trace_operator *traced,
                             const struct model_operator *op);
/* Returns the number of the pass's micro-batch, those of the next step after this one's. */
uint32_t cutting_number_of(const struct cutting *cutting, const struct pipeline_pass *pass);

/* ---- pipeline_added.c: what a stage does besides the whole's operators ---- */

/* Appends the operator that sends the residual stream, or its gradient, from a piece to the next
 * one in the pass's direction, or receives it. `buffer` is the whole's. */
void cutting_pass_on(struct cutting *cutting, enum model_kind kind,
                     const struct pipeline_pass *pass, uint32_t buffer, uint32_t to);

/* Tied weights are in the first stage, where the embedding is. A step begins with sending a copy to
 * the last stage, and each micro-batch's backward there sends the classifier's gradient back, which
 * is added right before the embedding's, as in one process. */
void cutting_pass_tied(struct cutting *cutting);
/* Lets the classifier of the last stage use the copy, and leave its gradient in a buffer. */
void cutting_use_copy(struct cutting *cutting, enum trace_phase phase, struct model_operator *op);
void cutting_send_tied_gradient(struct cutting *cutting, const struct model_operator *classifier);
/* With several ranks, the reduction of the embedding's gradient takes the classifier's, too. */
void cutting_receive_tied_gradient(struct cutting *cutting, const struct model_operator *reduction);
void cutting_add_tied_gradient(struct cutting *cutting, uint32_t micro_batch);

/* The next step's micro-batches read the newest weights. In fp32 with one rank these are the
 * masters. Else buffers get them in the parameters' precision, whole, from the first pass of the
 * next step to the last one. With several ranks they live until the update, which makes them the
 * parameters, so that no rank sends its shard again. Where ranks share parameters, no rank has room
 * for all of them: each pass makes the buffers again, and they end with their operator. */
bool cutting_has_newest(const struct cutting *cutting);
/* Lets an operator of the next step read the newest parameters from buffers, which are made right
 * before the first one. */
void cutting_use_newest(struct cutting *cutting, const struct pipeline_pass *pass,
                        struct model_operator *op);
/* Lets a pass of the next step begin: where ranks share parameters, it makes buffers of its own. */
void cutting_begin_newest(struct cutting *cutting);
/* Lets an update take the parameter from its buffer, if there is one that lives so long. */
void cutting_end_newest(struct cutting *cutting, struct model_operator *update);

#endif
