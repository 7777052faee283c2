/* A certificate's form in plan.json; for plan_read.c and plan_write.c. */
#ifndef PSTAR_CHUNKS_CERTIFICATE_JSON_H
#define PSTAR_CHUNKS_CERTIFICATE_JSON_H

#include "chunks/certificate.h"

#include <jansson.h>

/* With a seal of zeros as its last key. */
json_t *certificate_to_json(const struct certificate *certificate);

/* NULL, and what is wrong in *reason, where the object is no certificate. Figures are in range, but
 * nothing is recomputed. */
struct certificate *certificate_from_json(const json_t *object, const char **reason);

#endif
