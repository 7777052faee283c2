/* GPT-2's tensors: their order, which is that of its modules, and their names in its files. */
#ifndef PSTAR_MODELS_GPT2_TENSORS_H
#define PSTAR_MODELS_GPT2_TENSORS_H

#include "models/iteration_builder.h"

enum { GPT2_WTE, GPT2_WPE, GPT2_FIRST_LAYER };

/* Of a layer; each weight is followed by its bias. */
enum {
    GPT2_LN_1 = 0,
    GPT2_C_ATTN = 2,
    GPT2_ATTN_C_PROJ = 4,
    GPT2_LN_2 = 6,
    GPT2_C_FC = 8,
    GPT2_MLP_C_PROJ = 10,
    GPT2_LAYER_TENSORS = 12
};

/* The tensors' indices. */
uint32_t gpt2_layer_tensor(uint32_t layer, uint32_t which);
uint32_t gpt2_final_norm(const struct model_config *config);
uint32_t gpt2_classifier(const struct model_config *config); /* wte where tied */

/* Appends all of them. */
void gpt2_tensors(struct iteration_builder *builder);

#endif
