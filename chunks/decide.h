/* Decides which chunks come, go and stay. An eviction policy runs over one iteration's accesses,
 * and sees places in the trace and bytes alone. Addresses come afterwards (chunks/place.h). */
#ifndef PSTAR_CHUNKS_DECIDE_H
#define PSTAR_CHUNKS_DECIDE_H

#include "chunks/homes.h"
#include "chunks/plan.h"
#include "policies/policy.h"

/* The inputs of the steps from decisions to a plan. They must outlive everything that is made from
 * them. */
struct plan_inputs {
    const struct trace *trace;
    const struct layout *layout;
    const struct accesses *accesses; /* made of the trace and the layout */
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
    uint8_t *initial; /* [chunk_count] nonzero if the chunk is on the device at the start of every
                         iteration */
    uint32_t *first;  /* [moment_count + 2] into actions, as in a plan */
    GArray *actions;  /* struct plan_action, without addresses (NO_ADDRESS) and without moves */
    uint32_t *over;   /* [actions->len] of a departure or a fetch, the moment by which its copy is
                         over, moment_count and more in the next iteration; NULL if unknown */
    char *fault;      /* says which answer of the policy broke its contract; NULL if none did */
};

/* Returns the least device budget with which decide() works: every operator finds its chunks there,
 * beside its non-model data, the chunks at home on the device and those without a home. *moment
 * becomes the operator that needs it. */
uint64_t decide_least_bytes(const struct plan_inputs *inputs, uint32_t *moment);

/* Runs the policy. The device's budget must be at least decide_least_bytes. The policy runs through
 * two iterations to settle. The third one is recorded, and ends with the chunks that it began with.
 * The caller frees the result. */
struct decisions *decide(const struct plan_inputs *inputs, const struct decide_options *options);

/* Makes each departure a write-back if the chunk is dirty and a drop if it is not, and removes
 * flushes of clean chunks. */
void decisions_settle(struct decisions *decisions, const struct accesses *accesses);

/* Returns decisions without any action, and with no chunk on the device. */
struct decisions *decisions_new(const struct accesses *accesses);
void decisions_free(struct decisions *decisions);

#endif
