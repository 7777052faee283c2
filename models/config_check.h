/* Which models we know how to train, and which values make sense. */
#ifndef PSTAR_MODELS_CONFIG_CHECK_H
#define PSTAR_MODELS_CONFIG_CHECK_H

#include "models/config.h"
#include <jansson.h>

/* Refuses what GPT-2's config.json may ask for and we do not compute (MODEL_ERROR_UNSUPPORTED):
 * another model_type, architecture, activation, attention scale, ... `origin` begins the message.
 */
bool model_config_supported(const json_t *root, const char *origin, GError **error);

/* Refuses values that contradict each other or that no machine could hold (MODEL_ERROR_CONFIG). */
bool model_config_check(const struct model_config *config, const char *origin, GError **error);

#endif
