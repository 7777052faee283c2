/* Models that differ in size only, from the smallest to the largest. */
#ifndef PSTAR_PLANNER_ANSWERS_FAMILY_H
#define PSTAR_PLANNER_ANSWERS_FAMILY_H

#include "models/config.h"

struct family_member {
    char *name; /* of the file without ".json", or "40 layers" */
    char
        *path; /* of the file; NULL: there is none, only the base's with another number of layers */
    struct model_config *config;
};

struct family {
    GPtrArray *members;        /* struct family_member, by parameters; NULL where depth varies */
    struct model_config *base; /* NULL, or the model whose layers vary */
};

/* `what`: a config.json, or a folder that holds one, whose number of layers varies; otherwise the
 * beginning of the paths of several configs, as models/configs/patrickstar. MODEL_ERROR_CONFIG
 * where there are none. The caller frees it with family_free. */
struct family *family_read(const char *what, GError **error);
void family_free(struct family *family);

/* How many members there are; where depth varies, the most layers that a model may have. */
uint32_t family_count(const struct family *family);

/* Member `index`, from 0. The caller frees it with family_member_free. */
struct family_member *family_take(const struct family *family, uint32_t index);
void family_member_free(struct family_member *member);

#endif
