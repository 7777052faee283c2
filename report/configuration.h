/* What two results must share before one may be set beside the other. */
#ifndef PSTAR_REPORT_CONFIGURATION_H
#define PSTAR_REPORT_CONFIGURATION_H

#include "chunks/plan.h"

#include <jansson.h>

struct configuration {
    char *maker;            /* who decides what moves: "policy opt", "planner"; NULL: not said */
    char *digest;           /* of the trace; NULL: not said */
    uint64_t chunk_bytes;   /* of the parameter list; 0: not said */
    uint64_t device_budget; /* the budget; UINT64_MAX: unlimited */
    int64_t look_ahead;     /* moments; -1: not said */
};

/* Both copy what they need; configuration_clear frees it. A JSON object (a sweep's entry, the
 * header of a run log) says policy, strategy, made_by, digest, chunk_bytes, device_memory_bytes and
 * look_ahead, or some of them; without device_memory_bytes it is unlimited. */
struct configuration configuration_of_plan(const struct plan *plan);
struct configuration configuration_of_json(const json_t *object);
void configuration_clear(struct configuration *configuration);

/* Whether both say maker, chunk size and budget, and contradict each other in nothing. */
bool configuration_same(const struct configuration *a, const struct configuration *b);

/* "policy opt, 4 MiB chunks, 512 MiB device memory"; the short form leaves the budget out. Free
 * with g_free. */
char *configuration_label(const struct configuration *configuration);
char *configuration_short_label(const struct configuration *configuration);

#endif
