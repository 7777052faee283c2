/* The way of the data, from a trace to bytes that move. Every line is one function; mover_ops is a
 * table of nine, and plan_check makes nothing:
 *
 *   layout_pack      layout.h      trace -> layout: which chunk holds each tensor, and where
 *   slots_round      slots.h       layout -> the same chunks in slots of few sizes, optional
 *   non_model_place  non_model.h   trace -> where activations and workspaces lie
 *   accesses_new     accesses.h    trace, layout -> which chunks each operator reads and writes
 *   homes_choose     homes.h       accesses -> which chunks live on the host or on the device
 *   decide           decide.h      accesses, policy -> decisions: who comes and goes, and when
 *   place_decisions  place.h       decisions -> addresses on the device
 *   plan_make        plan.h        addresses -> plan
 *   nvme_homes_give  nvme_homes.h  plan -> the same plan with states in NVMe, optional
 *   plan_check       plan.h        refuses a plan that is unsound, or made for another trace
 *   residency_new    residency/residency.h   plan -> the manager that executes it
 *   residency_step   residency/residency.h   a moment's actions -> calls of the mover
 *   mover_ops        residency/mover.h       copies bytes, or advances a virtual clock
 *
 * dry_run, below, goes from a trace and a layout to a plan. Other makers of plans replace decide:
 * strategies by rules (strategies/preset.h), the planner by a search (planner/schedule/), which may
 * also find the addresses itself. The simulator (sim/replay.c), the engine (engine/engine.c) and
 * the public interface (api/execute.c) take the last steps, with the same manager and different
 * movers. */
#ifndef PSTAR_CHUNKS_DRY_RUN_H
#define PSTAR_CHUNKS_DRY_RUN_H

#include "chunks/decide.h"
#include "chunks/plan.h"
#include "policies/policy.h"

struct dry_run_options {
    uint64_t device_budget; /* for chunks and non-model data together */
    uint64_t host_budget;   /* UINT64_MAX means unlimited. If it cannot hold every chunk,
                              those used most often stay on the device for good */
    uint64_t spare_bytes;   /* kept free on the device at moments whose operators can do without
                               them, so that a fetch need not wait for the write-back that empties
                               its slot. Plans with rounded slots keep at least the largest slot
                               free, or a 64th of the budget if that is less */
    const struct pstar_policy_ops *policy;
    uint32_t look_ahead; /* moments ahead that chunks are fetched, where they fit beside the
                            non-model data until then; 0 means on demand only */

    /* Returns whether decisions are worth addresses and a plan. May be NULL, for all are. */
    bool (*is_worth)(void *data, const struct layout *layout, const struct decisions *decisions);
    void *is_worth_data;
};

/* Makes a plan by running the policy over the trace's accesses. Its predicted stall and time are 0,
 * for they take a clock. Fails with PLAN_ERROR_DOES_NOT_FIT, whose message says which memory is too
 * small, at which moment, by how many bytes, and what would fit; and with PLAN_ERROR_INVALID if the
 * policy, which may be a plug-in, breaks its contract. Returns NULL without an error if the
 * decisions are not worth a plan. */
struct plan *dry_run(const struct trace *trace, const struct layout *layout,
                     const struct dry_run_options *options, GError **error);

/* Does the same with accesses that the caller made, for those who plan for one layout many times.
 * `slots` is the layout with rounded slots (chunks/slots.h), or NULL. The plan has them if the
 * device cannot hold everything, unless rounding is what makes it not fit. */
struct plan *dry_run_accesses(const struct trace *trace, const struct layout *layout,
                              const struct layout *slots, const struct accesses *accesses,
                              const struct dry_run_options *options, GError **error);

#endif
