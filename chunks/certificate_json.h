/* A certificate's form in plan.json; for plan_read.c and plan_write.c. */
#ifndef PSTAR_CHUNKS_CERTIFICATE_JSON_H
#define PSTAR_CHUNKS_CERTIFICATE_JSON_H

#include "chunks/certificate.h"

#include <jansson.h>

/* With a seal of zeros as its last key. */
json_t *certificate_to_json(const struct certificate *certificate);

/* Reads the certificate of a plan for a model of `layer_count` layers. Returns NULL if the object
 * is not a certificate, with what is wrong in *reason. Figures are checked to be in range; nothing
 * is recomputed. */
struct certificate *certificate_from_json(const json_t *object, uint32_t layer_count,
                                          const char **reason);

#endif
