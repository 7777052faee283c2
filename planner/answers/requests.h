/* Makes, verifies and explains plans for pstar-plan. Results go to standard output. */
#ifndef PSTAR_PLANNER_ANSWERS_REQUESTS_H
#define PSTAR_PLANNER_ANSWERS_REQUESTS_H

#include "planner/search/variants.h"

/* The paths of a plan's inputs and by-products. A path that is not given is NULL. */
struct plan_paths {
    const char *plan, *trace;
    const char *platform, *link; /* of a plan that is read: default, its certificate's */
    const char *timeline, *json; /* to write; `json` has the result of a search */
    uint32_t top;                /* how many runners-up of a search to print */
    const char *emit;            /* the other system whose settings to write beside the plan */
    uint64_t nvme_bytes;         /* that a plan's states may take in NVMe; 0: none */
};

/* Prints the plan for a person; with its trace, more. */
bool request_explain(const struct plan_paths *paths, GError **error);

/* Checks the plan against its trace: that it can be executed, that it moves what it predicts, and
 * that its certificate holds. */
bool request_verify(const struct plan_paths *paths, GError **error);

/* Searches, and calls request_write with the best plan. Errors of writing are marked
 * (base/failure.h).
 *
 * With NVMe, writes the plan of tiers_search if the best plan without NVMe does not fit, or takes
 * longer. The prices of its certificate's bounds are of a host with room for everything. Prints
 * what NVMe costs, and whether it pays. */
bool request_plan(const struct plan_paths *paths, const struct trace *trace,
                  const struct search_options *options, unsigned scope, GError **error);

/* Returns the seconds of a step of the best plan if operators take so many times as long on the
 * device. */
double request_scaled_step(const struct search_result *best, const struct costs *costs,
                           double times);

/* Proves how good the result's plan is, verifies it against the recorded trace as request_verify
 * will, and writes it with its by-products. Writes nothing if it does not verify. */
bool request_write(const struct plan_paths *paths, const struct trace *recorded,
                   const struct search_options *options, struct variants_result *result,
                   GError **error);

/* Replaces the message of *error, with which a search in `scope` (variants_search) found that
 * nothing fits, by one for people: the least device memory with which the search would find a plan
 * and the choices that this takes, what the step needs as traced, and which options may lower it.
 * Sizes are in MiB, rounded up, so that they can be given back. Other errors stay as they are. */
void least_explain(const struct trace *trace, const struct search_options *options, unsigned scope,
                   GError **error);

/* Adds to the message of *error, that nothing fits with the trace's own choices, with how much less
 * device memory other choices would fit, if they would. Other errors stay as they are. */
void least_name_choices(const struct trace *trace, const struct search_options *options,
                        GError **error);

/* Returns the least device memory with which a search in this scope finds a plan, or UINT64_MAX if
 * host memory lacks. */
uint64_t least_device_bytes(const struct trace *trace, const struct search_options *options,
                            unsigned scope);

/* Returns whether the device's budget is enough for that. */
bool least_fits(const struct trace *trace, const struct search_options *options, unsigned scope);

#endif
