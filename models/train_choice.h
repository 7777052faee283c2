/* Which tensors a run trains, as the option --train names them. */
#ifndef PSTAR_MODELS_TRAIN_CHOICE_H
#define PSTAR_MODELS_TRAIN_CHOICE_H

#include "models/config.h"

/* The greatest rank of adapters. */
enum { MODEL_MOST_LORA_RANK = 1 << 16 };

/* Sets *frozen to [model_tensor_count] marks of the tensors that are not trained, for struct
 * run_choices; NULL if all are trained. The caller frees it with g_free. `text` may be
 *
 *   NULL, "all"    all tensors are trained
 *   "lora:RANK"    every linear layer within the layers gets adapters of that rank, which become
 *                  part of `config` and are all that is trained. Their products count
 *                  `alpha` / RANK; an alpha of 0 stands for 2 * RANK
 *   a list         of patterns, such as "lm_head.*,*.norm*", in which * is any text and ? any
 *                  character: tensors are trained whose names in traces, or in files, match one
 *
 * Fails (MODEL_ERROR_CONFIG) if a pattern matches nothing, or if the rank is no number in
 * [1, MODEL_MOST_LORA_RANK]. */
bool model_choose_trained(struct model_config *config, const char *text, double alpha,
                          uint8_t **frozen, GError **error);

#endif
