/* The dry run: an eviction policy over a model's accesses yields a plan. */
#ifndef PSTAR_CHUNKS_PIPELINE_H
#define PSTAR_CHUNKS_PIPELINE_H

#include "chunks/plan.h"
#include "policies/policy.h"

struct dry_run_options {
    uint64_t device_budget; /* budget for chunks and non-model data together */
    uint64_t host_budget; /* budget; UINT64_MAX: unlimited. Where it cannot hold every chunk, those
                            used most often on the device stay there for good */
    uint64_t spare_bytes; /* of the device, which stay free at moments whose operators can do
                             without: a fetch then need not wait for a write-back that empties
                             its slot, and chunks seldom move. Plans in slots of few sizes have
                             at least room for the largest, or a 64th of the budget */
    const struct policy_ops *policy;
    uint32_t look_ahead; /* fetch what the next so many moments need, where it fits beside their
                            non-model data; 0: on demand only */
};

/* Decides, places, and counts. Fails with PLAN_ERROR_DOES_NOT_FIT: the message says which memory,
 * at which moment, by how many bytes, and what would fit; and with PLAN_ERROR_INVALID where the
 * policy, a plug-in, breaks its contract. The plan's stall and time are left 0. */
struct plan *dry_run(const struct trace *trace, const struct layout *layout,
                     const struct dry_run_options *options, GError **error);

/* The same with what a sweep computes once a layout. `slots`: the layout in slots of few sizes
 * (chunks/slots.h), which the plan has where the device cannot hold everything, but is not so small
 * that what slots waste is missed; NULL: slots are what chunks hold. */
struct plan *dry_run_accesses(const struct trace *trace, const struct layout *layout,
                              const struct layout *slots, const struct accesses *accesses,
                              const struct dry_run_options *options, GError **error);

#endif
