/* The proof that goes with a plan: lower bounds, and the prices that anybody can recompute them
 * from, by dynamic programming in integers alone. docs/planner.md has the argument. */
#ifndef PSTAR_PLANNER_PROOF_CERTIFICATE_H
#define PSTAR_PLANNER_PROOF_CERTIFICATE_H

#include "chunks/plan.h"
#include "sim/costs.h"

/* What a certificate is about, to stand in it: strings may be NULL. */
struct certificate_source {
    const char *trace_sha256;   /* of the trace's file */
    const char *platform;       /* contents of the platform's file that times were predicted for */
    const char *link;           /* the link, as --link says */
    const struct trace *traced; /* with updates where they were traced */
};

/* Finds prices, with GLPK, and gives the plan a certificate in the place of any that it had. `plan`
 * has passed plan_check against `trace`, which has updates where the plan has them, and its figures
 * are predicted. Fails where platform or link do not read. */
bool certificate_make(struct plan *plan, const struct trace *trace,
                      const struct certificate_source *source, GError **error);

/* The platform that the certificate holds, which is not NULL. The caller frees it. */
struct platform *certificate_platform(const struct certificate *certificate, GError **error);
/* What copies cost, as the certificate says. The caller frees it with costs_free. */
struct costs *certificate_costs(const struct certificate *certificate, GError **error);

/* Recomputes the bounds of the plan's certificate from its prices, without a solver, and compares
 * them and what is achieved with what it says. `plan` has passed plan_check, and its figures are
 * those of a replay. PLAN_ERROR_INVALID names what differs. */
bool certificate_check(const struct plan *plan, const struct trace *trace,
                       const struct trace *traced, GError **error);

/* The part of a certificate that is about time. */

/* What the times of a plan are about. */
struct time_proof_job {
    const struct plan *plan;
    const struct trace *trace;       /* with updates where the plan has them */
    const struct trace *traced;      /* with updates where they were traced */
    const struct platform *platform; /* NULL: none */
    const struct costs *costs;
};

/* [tensor_count] of each tensor, the share of its update that is on the host in the mix of ways
 * that the bound of the plan's layout comes from, roughly; NULL where updates cannot be placed. The
 * caller frees it. `bound_ns` receives that bound. */
double *time_proof_mix(const struct time_proof_job *job, uint64_t *bound_ns);

#endif
