/* Describes a decoder's iteration from its parts: tensors, forward, backward, updates. */
#ifndef PSTAR_MODELS_DECODER_H
#define PSTAR_MODELS_DECODER_H

#include "models/family.h"
#include "models/iteration_builder.h"

/* The buffers of one layer's forward pass that its backward reads. NO_INDEX stands for those that
 * the model's parts do not need. A columns are those of all queries, K those of all keys. */
struct decoder_layer {
    uint32_t input;                            /* [N,H] residual stream before the layer */
    uint32_t norm1;                            /* [N,H]; the input if attention has no norm */
    uint32_t norm1_stats;                      /* fp32 [2,N], or [N] of an RMS norm */
    uint32_t qkv;                              /* [N,A+2K], if one product makes them */
    uint32_t query, key, value;                /* [N,A], [N,K], [N,K], if three products do */
    uint32_t query_norm, key_norm;             /* [N,A], [N,K], if they are normalised */
    uint32_t query_norm_stats, key_norm_stats; /* fp32, for each row, or each row and head */
    uint32_t attention;                        /* [N,A] */
    uint32_t lse;                              /* fp32 [B,heads,T] */
    uint32_t output, output_stats; /* [N,H] before a norm behind attention, or behind its
                                      sum with the stream; its stats */
    uint32_t middle;               /* [N,H] residual stream after the attention */
    uint32_t norm2;                /* [N,H]; `middle` if the MLP has no norm */
    uint32_t norm2_stats;          /* as norm1_stats */
    uint32_t gate;  /* [N,F] before the activation, if a product of its own makes it */
    uint32_t pre;   /* [N,F] before the activation, or what the gate is multiplied with; [N,2F] with
                       a joined gate */
    uint32_t inner; /* [N,F] after it */
    uint32_t adapted[MODULES]; /* [N,rank] what the adapters' A made of what the modules read */
    uint32_t down, down_stats; /* as output and output_stats, of the MLP */
    /* Of experts, S to a row: these, and `pre`, `inner` and `down` with [N*S,...] rows. */
    uint32_t probabilities, routes, dispatched; /* fp32 [N,E]; routes; [N*S,H] */
};

struct decoder_activations {
    uint32_t micro_batch;
    uint32_t tokens;              /* 32-bit integers [2,N], or [3,N] with types */
    uint32_t embeddings;          /* [N,H] sum of the tables' rows */
    uint32_t embedding_stats;     /* of its norm, if it has one; as in layers */
    struct decoder_layer *layers; /* [layers] */
    uint32_t output;              /* [N,H] residual stream after the last layer */
    uint32_t transform_pre; /* [N,H] the head's product before its activation, if it has one */
    uint32_t transformed;   /* [N,H] what the final norm reads */
    uint32_t norm;          /* [N,H] the final norm's */
    uint32_t norm_stats;    /* as in layers */
    uint32_t logits;        /* [N,V], rows apart; after the loss, their gradient */
};

/* Backward runs once, or twice: first for the norm, then for the updates. */
enum decoder_turn { ONLY_TURN, FIRST_TURN, SECOND_TURN };

/* Dropout's sites: the embedding's is 0. */
enum { DECODER_DROPOUT_ATTENTION = 1, DECODER_DROPOUT_OUTPUT, DECODER_DROPOUT_DOWN };

/* Returns the workspace of an unfused attention (its scores before and after a pass over them), or
 * NO_INDEX if attention is fused. */
uint32_t decoder_scores_workspace(struct iteration_builder *builder);

/* Returns the counter's key of a layer's dropout, or NO_INDEX if its probability is 0. */
uint32_t decoder_dropout_site(const struct iteration_builder *builder, uint32_t layer,
                              uint32_t which);

/* Returns the name of a part of a layer: "h.0.attn.c_attn". The caller frees it with g_free. */
char *decoder_part(const struct iteration_builder *builder, uint32_t layer, const char *part);
char *decoder_module(const struct iteration_builder *builder, uint32_t layer,
                     enum model_module module);

/* Sets the operator's tensors to those of a module, with the columns of its input and output. */
void decoder_set_module(const struct iteration_builder *builder, enum model_module module,
                        struct model_operator *op);

/* A pass through a layer's experts. */
struct decoder_experts {
    struct iteration_builder *builder;
    uint32_t micro_batch;
    uint32_t layer;
    /* Forward: */
    const char *verb; /* "forward", "recompute" or "recompute again" */
    enum trace_phase phase;
    bool held; /* chunks hold the buffers that are as large as the layer's input */
    /* Backward: */
    enum decoder_turn turn;
};

/* Append the router, the dispatch of rows and the experts, which read layer->norm2; and what adds
 * their results to the residual stream. */
void decoder_experts_forward(const struct decoder_experts *experts, struct decoder_layer *layer);
void decoder_experts_combine(const struct decoder_experts *experts,
                             const struct decoder_layer *layer, uint32_t output);
/* Appends their backward. `stream` is the gradient of the residual stream. Returns the gradient of
 * what they read, if it is wanted. */
uint32_t decoder_experts_backward(const struct decoder_experts *experts,
                                  const struct decoder_layer *layer, uint32_t stream);

/* Returns a backward operator with so many of the tensors from `tensor` on. A frozen weight is
 * read if the gradient of the input is wanted, and other frozen tensors are left out. */
struct model_operator decoder_backward_operator(struct iteration_builder *builder,
                                                enum decoder_turn turn, enum model_kind kind,
                                                int32_t layer, uint32_t micro_batch,
                                                uint32_t tensor, uint32_t tensors);
/* Lets a tensor be the operator's t[i], which has none so far. */
void decoder_backward_tensor(struct iteration_builder *builder, enum decoder_turn turn,
                             uint32_t tensor, int i, struct model_operator *op);
/* Appends a buffer of [N, columns] for a gradient. `name` is copied. */
uint32_t decoder_gradient_buffer(struct iteration_builder *builder, const char *name,
                                 uint64_t columns);
/* Gives the gradient of a frozen t[i] scratch, because the kernel computes it with another one. */
void decoder_discard(struct iteration_builder *builder, struct model_operator *op, int i,
                     uint64_t elements);
void decoder_discard_of_norm(struct iteration_builder *builder, struct model_operator *op);
/* Returns the workspace of a backward operator with a weight, or NO_INDEX. */
uint32_t decoder_weight_workspace(struct iteration_builder *builder,
                                  const struct model_operator *op);
/* Appends a backward operator. */
void decoder_append(struct iteration_builder *builder, enum decoder_turn turn, const char *name,
                    const struct model_operator *op);
/* Appends a backward operator, and what becomes of its gradients. */
void decoder_append_backward(struct iteration_builder *builder, enum decoder_turn turn,
                             const char *name, const struct model_operator *op);

/* Appends the forward pass of a micro-batch, the loss included, and fills `activations`, whose
 * layers the caller provides. */
void decoder_forward(struct iteration_builder *builder, struct decoder_activations *activations);

/* Appends a layer's forward again, without its last product, or whole if unfused or if the layer
 * ends in a norm. The fields of `layer`, except its input, then name the new buffers. The
 * operators' names begin with `verb`.
 */
void decoder_recompute(struct iteration_builder *builder, const char *verb, uint32_t micro_batch,
                       uint32_t index, struct decoder_layer *layer);

/* Appends the backward pass of a micro-batch. If gradients are in buffers, it appends the updates
 * that consume them, too; with a second backward it passes through the layers twice. */
void decoder_backward(struct iteration_builder *builder,
                      const struct decoder_activations *activations);

/* Appends the classifier's backward. Returns the gradient of what the final norm made, if it is
 * wanted. The classifier and the embedding have one backward; if the layers have two, the updates
 * of both follow the first. */
uint32_t decoder_classifier_backward(struct iteration_builder *builder,
                                     const struct decoder_activations *activations);
/* Appends backward of the final norm, and of the product before it if the head has one. Returns the
 * gradient of the residual stream, if it is wanted. */
uint32_t decoder_head_backward(struct iteration_builder *builder,
                               const struct decoder_activations *activations,
                               enum decoder_turn turn, uint32_t dnorm);
/* Appends the embedding's backward. `stream` is the gradient of the first layer's input. */
void decoder_embedding_backward(struct iteration_builder *builder,
                                const struct decoder_activations *activations, uint32_t stream);
/* Appends the updates of the classifier and the embedding. */
void decoder_update_ends(struct iteration_builder *builder);

/* Returns whether a backward operator computes the last part of a tensor's gradient; tied weights
 * wait for the embedding. */
bool decoder_completes(const struct iteration_builder *builder, enum model_kind kind,
                       tensor_id tensor, uint32_t micro_batch);

/* Returns whether the backward operator computes the gradient of one of its tensors. */
static inline bool decoder_trains(const struct model_operator *op)
{
    return (op->t[0] != NO_INDEX && !op->frozen[0]) || op->t[1] != NO_INDEX || op->t[2] != NO_INDEX;
}

/* Appends what follows a backward operator of a module that trains: gradients in buffers are
 * consumed as they are finished, or dropped when they have been measured. Those of several ranks
 * are reduced. */
void decoder_consume_gradients(struct iteration_builder *builder, const struct model_operator *op,
                               const char *module);

/* The same for all of the operator's tensors but t[0], its weight. */
void decoder_consume_biases(struct iteration_builder *builder, const struct model_operator *op,
                            const char *module);

/* Appends the reduction of the bucket that a backward pass leaves, if there is any. */
void decoder_end_bucket(struct iteration_builder *builder, uint32_t micro_batch);

/* Appends the reduction of the gradients of a backward operator that are trained. `of_classifier`
 * is the buffer of the classifier's gradient of tied weights, or NO_INDEX. */
void decoder_reduce(struct iteration_builder *builder, const struct model_operator *op,
                    const char *module, uint32_t of_classifier);

/* Appends the update of a tensor, or those of its blocks. */
void decoder_update_tensor(struct iteration_builder *builder, tensor_id tensor);
/* Appends the updates of all tensors: the host's first, then the device's. */
void decoder_update(struct iteration_builder *builder);

/* Sets the operator's tensors to the adapters of a module, with the columns of the module's input
 * and output. Returns false if it has none. */
bool decoder_set_adapter(const struct iteration_builder *builder, enum model_module module,
                         struct model_operator *op);

/* Appends all tensors. */
void decoder_tensors(struct iteration_builder *builder);

#endif
