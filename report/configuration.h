/* The properties that two results must share before they may be compared. */
#ifndef PSTAR_REPORT_CONFIGURATION_H
#define PSTAR_REPORT_CONFIGURATION_H

#include "chunks/chunk_spread.h"
#include "chunks/plan.h"

#include <jansson.h>

struct configuration {
    char *maker;                /* who decides what moves, "policy opt" or "planner"; may be NULL */
    char *digest;               /* of the trace; may be NULL */
    uint64_t chunk_bytes;       /* as asked for, of the parameter list; 0 if unknown */
    struct chunk_spread chunks; /* of the parameter list; the range of a sweep's entry is unknown */
    uint64_t device_budget;     /* UINT64_MAX if unlimited */
    uint64_t host_budget;       /* UINT64_MAX if unlimited; 0 if unknown */
    uint64_t nvme_budget;       /* 0 if there is none */
    int64_t look_ahead;         /* in moments; -1 if unknown */
    uint32_t ranks;             /* that share the step; 0 if unknown */
    uint32_t nodes, stage;      /* of these ranks; 0 if unknown, or with one rank */
    bool fast;                  /* they sum fast; stage 0 is then known, too */
};

/* Return copies; configuration_clear frees them. A JSON object (an entry of a sweep, the header of
 * a run log) may state policy, strategy, made_by, digest, chunk_bytes, device_memory_bytes,
 * look_ahead, ranks, nodes and stage. Without device_memory_bytes the memory is unlimited.
 * host_memory_bytes is null where it is unlimited, and unknown if it is missing. The budget of NVMe
 * (nvme_memory_bytes) is of a plan one that has room for others, too (plan_ample_nvme). */
struct configuration configuration_of_plan(const struct plan *plan);
struct configuration configuration_of_json(const json_t *object);
void configuration_clear(struct configuration *configuration);

/* Takes the budgets of host memory and NVMe, ranks, nodes and stage of a JSON object, such as a
 * sweep, for one of its entries. */
void configuration_add_machine(struct configuration *configuration, const json_t *object);

/* Returns "link" of a JSON object: "" if it is null, NULL if it is missing. Free with g_free. */
char *configuration_link(const json_t *object);

/* Returns whether both state the same maker, chunk size and budget, and differ in nothing else that
 * both state. */
bool configuration_same(const struct configuration *a, const struct configuration *b);

/* Returns "policy opt, 4 MiB chunks, 512 MiB device memory", or "planner, 768 B to 9 MiB chunks" if
 * no one size says how large chunks are. The short form omits the memory. Free with g_free. */
char *configuration_label(const struct configuration *configuration);
char *configuration_short_label(const struct configuration *configuration);

#endif
