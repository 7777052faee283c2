/* Which chunks come, go and stay: an eviction policy over one iteration's accesses, by place in the
 * trace and by bytes alone. Addresses come afterwards (chunks/place.h). */
#ifndef PSTAR_CHUNKS_DECIDE_H
#define PSTAR_CHUNKS_DECIDE_H

#include "chunks/homes.h"
#include "chunks/plan.h"
#include "policies/policy.h"

/* What is planned for. All of it outlives what is made from it. */
struct plan_inputs {
    const struct trace *trace;
    const struct layout *layout;
    const struct accesses *accesses; /* of the trace, through the layout */
    const struct homes *homes;
    uint64_t device_budget; /* bytes, for chunks and non-model data together */
    uint64_t host_budget;   /* bytes; UINT64_MAX means unlimited */
};

struct decide_options {
    const struct pstar_policy_ops *policy;
    uint32_t look_ahead;  /* moments ahead that chunks are fetched; 0 means on demand only */
    uint64_t spare_bytes; /* kept free on the device at moments that can do without them */
};

struct decisions {
    uint32_t moment_count;
    uint8_t *initial; /* [chunk_count] nonzero: on the device at the start of every iteration */
    uint32_t *first;  /* [moment_count + 2] into actions, as in a plan */
    GArray *actions;  /* struct plan_action, addresses NO_ADDRESS; no moves */
    char *fault;      /* an answer of the policy that broke its contract; NULL: none did */
};

/* Returns the least device budget with which decide() works: every operator finds its chunks there,
 * beside its non-model data and the chunks at home on the device. *moment becomes the operator that
 * needs it. */
uint64_t decide_least_bytes(const struct plan_inputs *inputs, uint32_t *moment);

/* The device's budget must be at least decide_least_bytes. The policy runs through two iterations
 * to settle; the third is recorded, and closed: it ends with the chunks it began with. */
struct decisions *decide(const struct plan_inputs *inputs, const struct decide_options *options);

/* Gives each departure of the schedule its kind, a write-back of what is dirty and a drop of what
 * is not, and takes out flushes of clean chunks. */
void decisions_settle(struct decisions *decisions, const struct accesses *accesses);

/* Of nothing: no chunk on the device, no action. */
struct decisions *decisions_new(const struct accesses *accesses);
void decisions_free(struct decisions *decisions);

#endif
