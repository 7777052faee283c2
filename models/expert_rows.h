/* How the rows of a micro-batch spread over the experts of a layer. Each of N rows goes through
 * `experts_per_token` different experts, so that experts have N * experts_per_token rows together,
 * and each has N at the most, however they spread. */
#ifndef PSTAR_MODELS_EXPERT_ROWS_H
#define PSTAR_MODELS_EXPERT_ROWS_H

#include "models/config.h"

/* Sets rows[experts] to those of a layer, of N rows. They are the loads' shares, rounded so that
 * nothing is lost, and at most N. Without loads each expert has as many rows as the others, or one
 * more. */
void expert_rows(const struct model_config *config, uint32_t layer, uint64_t n, uint64_t *rows);

/* Returns whether the layer's expert is used at all. Without loads every expert is, because nothing
 * says which would not be. */
bool expert_is_used(const struct model_config *config, const uint64_t *rows, uint32_t expert);

/* Returns how many experts of all layers together are used, of n rows. */
uint32_t expert_count_used(const struct model_config *config, uint64_t n);

/* Sets the config's loads from a text: "balanced" or NULL for none; numbers for the experts of
 * every layer, "4,2,1,1"; or the path of a JSON file with a list of numbers, or a list of them for
 * each layer. Only their ratios matter. Fails (MODEL_ERROR_CONFIG) if the model has no experts, or
 * if numbers are missing, negative or not whole, or fewer than experts_per_token are above 0. */
bool expert_loads_choose(struct model_config *config, const char *text, GError **error);

#endif
