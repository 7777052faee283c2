/* The cases of a certificate's time bound. The bound for any placement of the optimizer lets parts
 * of a group run on either side. Where a few large groups decide, cases that have each of them on
 * one side have larger bounds, and the least of these holds: branch and bound (Land and Doig 1960),
 * whose leaves the certificate keeps. docs/bounds.md says why each bound holds. */
#ifndef PSTAR_PLANNER_PROOF_CASES_H
#define PSTAR_PLANNER_PROOF_CASES_H

#include "chunks/certificate.h"
#include "planner/proof/prices.h"

/* Chooses windows, and finds cases and prices: fills all of *time but `achieved` and `either_side`,
 * which are set: without the latter there is one case. Returns false, with a bound of 0, if nothing
 * ever runs on the device. Changes the branches of *sides. */
bool cases_prove(struct time_job *sides, const struct reuses *reuses,
                 struct certificate_time *time);

/* Finds the mixes of the cases with the least bounds, for a plan that takes so long: of each, the
 * shares of the groups that the host has, in its first entries. Returns how many there are; none if
 * the iteration has many operators, or if there is only one case. The caller frees each. Changes
 * the branches of *sides. */
enum { CASES_MIXES = 6 };
uint32_t cases_find_mixes(struct time_job *sides, const struct reuses *reuses, uint64_t achieved_ns,
                          double *mixes[CASES_MIXES]);

/* Sets *bound to what follows from a case's prices in nanoseconds. Returns what is wrong with them,
 * or NULL. Changes the branches of *sides. */
const char *cases_recompute(struct time_job *sides, const struct reuses *reuses,
                            const struct certificate_case *of_case, uint64_t *bound);

#endif
