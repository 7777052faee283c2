/* The part of a certificate that is about time. */
#ifndef PSTAR_PLANNER_PROOF_TIME_PROOF_H
#define PSTAR_PLANNER_PROOF_TIME_PROOF_H

#include "chunks/plan.h"
#include "sim/costs.h"

/* What the times of a plan are about. */
struct time_proof_job {
    const struct plan *plan;
    const struct trace *trace;       /* with updates where the plan has them */
    const struct trace *traced;      /* with updates where they were traced */
    const struct platform *platform; /* NULL: none */
    const struct costs *costs;
};

/* Chooses windows, finds prices and fills *time. The bound holds wherever each group's optimizer
 * runs, if updates can be placed at all and the plan's groups are each on one side. */
void time_proof_make(const struct time_proof_job *job, struct certificate_time *time);

/* [tensor_count] of each tensor, the share of its update that is on the host in the mix of ways
 * that the bound of the plan's layout comes from, roughly; NULL where updates cannot be placed. The
 * caller frees it. `bound_ns` receives that bound. */
double *time_proof_mix(const struct time_proof_job *job, uint64_t *bound_ns);

/* Recomputes the bound from the prices in the plan's certificate, and what the plan achieves.
 * PLAN_ERROR_INVALID names what differs. */
bool time_proof_check(const struct time_proof_job *job, GError **error);

#endif
