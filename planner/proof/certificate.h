/* The certificate of a plan: lower bounds, and the prices from which anybody can recompute them by
 * dynamic programming in integers. docs/bounds.md has the definition and the proofs. */
#ifndef PSTAR_PLANNER_PROOF_CERTIFICATE_H
#define PSTAR_PLANNER_PROOF_CERTIFICATE_H

#include "chunks/plan.h"
#include "planner/proof/cases.h"
#include "sim/costs.h"

/* The inputs that a certificate records. Strings may be NULL. */
struct certificate_source {
    const char *objective;         /* of the search; see struct certificate */
    const char *trace_sha256;      /* hash of the trace file */
    const char *platform;          /* contents of the platform file that times were predicted for */
    const char *link;              /* the value of --link */
    const struct trace *traced;    /* with updates where they were traced */
    struct platform_spread spread; /* of the ranks over the platform; 0 if there is none */
    struct run_stage began;        /* how ranks train together in the trace that the search began
                                      with */
    const struct proof_watch *watch; /* may be NULL */
};

/* Finds prices with GLPK and gives the plan a new certificate. `plan` has passed plan_check against
 * `trace`, which has updates where the plan has them, and its figures are predicted. Fails if the
 * platform or the link cannot be parsed. */
bool certificate_make(struct plan *plan, const struct trace *trace,
                      const struct certificate_source *source, GError **error);

/* Returns the platform in the certificate, which must have one, with its ranks spread. The caller
 * frees it. */
struct platform *certificate_platform(const struct certificate *certificate, GError **error);
/* Returns the copy costs that the certificate names. Free the result with costs_free. */
struct costs *certificate_costs(const struct certificate *certificate, GError **error);

/* Recomputes the bounds of the plan's certificate from its prices, without a solver, and compares
 * bounds and achieved figures with the stated ones. `plan` has passed plan_check, and its figures
 * come from a replay. PLAN_ERROR_INVALID names the first difference. */
bool certificate_check(const struct plan *plan, const struct trace *trace,
                       const struct trace *traced, GError **error);

/* The inputs of the time bound of a plan. */
struct time_proof_job {
    const struct plan *plan;
    const struct trace *trace;       /* with updates where the plan has them */
    const struct trace *traced;      /* with updates where they were traced */
    const struct platform *platform; /* may be NULL */
    const struct costs *costs;
    const struct proof_watch *watch; /* of the prices of the plan's certificate; may be NULL */
};

/* Writes mixes: for each tensor roughly the share of its update that runs on the host in the mix of
 * routes behind the bound of the plan's layout. If the host's memory is scarce, the second is the
 * mix whatever the host's memory. Returns how many there are, 0 if updates cannot be placed. The
 * caller frees them. `bound_ns` receives that bound. */
enum { TIME_PROOF_MIXES = 2 };
uint32_t time_proof_mixes(const struct time_proof_job *job, uint64_t *bound_ns,
                          double *mixes[TIME_PROOF_MIXES]);

/* Writes such mixes of the cases that decide the bound where a few large groups do. In these,
 * hardly a group is divided. Returns how many there are. The caller frees them. */
uint32_t time_proof_case_mixes(const struct time_proof_job *job, double *mixes[CASES_MIXES]);

#endif
