/* The files beside a model's weights that training does not change and other programs read with
 * them: the tokenizer's and those of generation. What a run saves has copies of them. */
#ifndef PSTAR_ENGINE_TRAIN_MODEL_FILES_H
#define PSTAR_ENGINE_TRAIN_MODEL_FILES_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

/* Returns how many files model_files_copy copies. */
uint32_t model_files_count(const char *model, const char *instead);

/* Copies the files to `folder`. `model` is the model's folder, or its config.json in that folder;
 * NULL if it is unknown. A file that it does not have is taken from the folder `instead` (may be
 * NULL), such as that of an earlier checkpoint. Fails with a G_FILE_ERROR that names the file. */
bool model_files_copy(const char *model, const char *instead, const char *folder, GError **error);

#endif
