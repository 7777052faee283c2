/* Compares checkpoints tensor by tensor, however many files they have. */
#ifndef PSTAR_TESTS_ENGINE_RUN_SAVED_H
#define PSTAR_TESTS_ENGINE_RUN_SAVED_H

#include "run_folder.h"

#include <stdint.h>

/* Fails the test unless the checkpoint has the weights and the moments of the other. */
void saved_must_be_same(const struct run_folder *folder, const char *a, const char *b);

/* The same of one kind of files alone: "model", "adapter_model", "optimizer". */
void saved_files_must_be_same(const struct run_folder *folder, const char *a, const char *b,
                              const char *stem);

/* Returns how many files with tensors the checkpoint has whose names begin with `stem`. */
uint32_t saved_count_files(const struct run_folder *folder, const char *name, const char *stem);

#endif
