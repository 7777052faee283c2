/* Low-rank adapters in a folder as PEFT has them: adapter_config.json, and
 * adapter_model.safetensors with A and B of every linear layer in fp32. */
#ifndef PSTAR_ENGINE_ADAPTERS_H
#define PSTAR_ENGINE_ADAPTERS_H

#include "engine/weights.h"

/* Opens a folder's adapters and checks them against the model's: each must be there, with its
 * shape, and no other. Nothing is written to the store. */
struct safetensors *adapters_open(const char *folder, const struct model_config *config,
                                  const struct trace *trace, GError **error);

/* Copies the adapters of an open file to the store. */
bool adapters_load(const struct safetensors *file, const struct model_config *config,
                   const struct trace *trace, const struct weights_store *store, GError **error);

/* Writes both files. `model` is the path of the model that the adapters belong to. */
bool adapters_save(const char *folder, const struct model_config *config, const struct trace *trace,
                   const struct weights_store *store, const char *model, struct weights_writer of,
                   GError **error);

/* Returns whether a file of this name may be one that adapters_save wrote. */
bool adapters_is_file(const char *name);

/* Writes the model with its adapters merged, as transformers' save_pretrained does: config.json and
 * weights W + alpha/rank B A, or its transpose, where the family has it. Creates the folder. */
bool adapters_merge(const char *folder, const struct model_config *config,
                    const struct trace *trace, const struct weights_store *store,
                    const struct weights_form *form, GError **error);

#endif
