/* Describes GPT-2's iteration: tensors, forward, backward, updates. */
#ifndef PSTAR_MODELS_GPT2_H
#define PSTAR_MODELS_GPT2_H

#include "models/iteration_builder.h"

/* The buffers of one layer's forward pass that its backward reads. */
struct gpt2_layer {
    uint32_t input;       /* [N,H] residual stream before the layer */
    uint32_t norm1;       /* [N,H] */
    uint32_t norm1_stats; /* fp32 [2,N] */
    uint32_t qkv;         /* [N,3H] */
    uint32_t attention;   /* [N,H] */
    uint32_t lse;         /* fp32 [B,A,T] */
    uint32_t middle;      /* [N,H] residual stream after the attention */
    uint32_t norm2;       /* [N,H] */
    uint32_t norm2_stats; /* fp32 [2,N] */
    uint32_t pre;         /* [N,F] before GELU */
    uint32_t inner;       /* [N,F] after it */
};

struct gpt2_activations {
    uint32_t micro_batch;
    uint32_t tokens;           /* 32-bit integers [2,N] */
    struct gpt2_layer *layers; /* [layers] */
    uint32_t output;           /* [N,H] residual stream after the last layer */
    uint32_t norm;             /* [N,H] the final norm's */
    uint32_t norm_stats;       /* fp32 [2,N] */
    uint32_t logits;           /* [N,V], rows apart; after the loss, their gradient */
};

/* Dropout's sites: the embedding's is 0. */
enum { GPT2_DROPOUT_ATTENTION = 1, GPT2_DROPOUT_ATTN_C_PROJ, GPT2_DROPOUT_MLP_C_PROJ };

/* Returns the workspace of an unfused attention (its scores before and after a pass over them), or
 * NO_INDEX if attention is fused. */
uint32_t gpt2_scores_workspace(struct iteration_builder *builder);

/* Returns the counter's key of a layer's dropout, or NO_INDEX if its probability is 0. */
uint32_t gpt2_dropout_site(const struct iteration_builder *builder, uint32_t layer, uint32_t which);

/* Appends the forward pass of a micro-batch, the loss included, and fills `activations`, whose
 * layers the caller provides. */
void gpt2_forward(struct iteration_builder *builder, struct gpt2_activations *activations);

/* Appends a layer's forward again, up to what its backward reads, or whole if unfused. The fields
 * of `layer`, except its input, then name the new buffers. The operators' names begin with `verb`.
 */
void gpt2_recompute(struct iteration_builder *builder, const char *verb, uint32_t micro_batch,
                    uint32_t index, struct gpt2_layer *layer);

/* Appends the backward pass of a micro-batch. If gradients are in buffers, it appends the updates
 * that consume them, too; with a second backward it passes through the layers twice. */
void gpt2_backward(struct iteration_builder *builder, const struct gpt2_activations *activations);

/* Appends the update of a tensor, or those of its blocks. */
void gpt2_update_tensor(struct iteration_builder *builder, tensor_id tensor);
/* Appends the updates of all tensors: the host's first, then the device's. */
void gpt2_update(struct iteration_builder *builder);

enum { GPT2_WTE, GPT2_WPE, GPT2_FIRST_LAYER };

/* Places of the tensors within a layer; each weight is followed by its bias. */
enum {
    GPT2_LN_1 = 0,
    GPT2_C_ATTN = 2,
    GPT2_ATTN_C_PROJ = 4,
    GPT2_LN_2 = 6,
    GPT2_C_FC = 8,
    GPT2_MLP_C_PROJ = 10,
    GPT2_LAYER_TENSORS = 12
};

/* Return the indices of tensors. */
uint32_t gpt2_layer_tensor(uint32_t layer, uint32_t which);
uint32_t gpt2_final_norm(const struct model_config *config);
uint32_t gpt2_classifier(const struct model_config *config); /* wte if tied */
/* Returns the name of the classifier's module. */
const char *gpt2_head(const struct model_config *config);

/* Appends all tensors. */
void gpt2_tensors(struct iteration_builder *builder);

#endif
