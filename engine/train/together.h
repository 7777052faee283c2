/* What a training run of several ranks does beside training: it joins them, shares what their hosts
 * have, and makes sure that all of them do the same. With one rank all of this is nothing. */
#ifndef PSTAR_ENGINE_TRAIN_TOGETHER_H
#define PSTAR_ENGINE_TRAIN_TOGETHER_H

#include "engine/engine.h"
#include "engine/ranks.h"
#include "engine/train/checkpoint.h"
#include "engine/train/run_plan.h"

/* Joins the ranks that were started with this process (options->ranks) and gives this one its part
 * of the host's cores. Then completes the options, rank 0 first, because that may finish an
 * interrupted save. Each rank gets an equal part of --host-memory. Returns whether all ranks fare
 * well; otherwise as ranks_agree. */
bool together_begin(struct run_options *options, ranks_status_of *status_of, int *elsewhere,
                    GError **error);

/* Leaves the other ranks. */
void together_end(struct run_options *options);

/* Finds out whether the plans of all ranks fit their memory, and nothing else is wrong; as
 * ranks_agree. If a budget is too small, the rank that needs the most of it reports, and what its
 * message says would fit is for the option and fits all ranks, unless they lack another memory,
 * too. */
bool together_agree_that_fits(const struct run_options *options, ranks_status_of *status_of,
                              int *elsewhere, GError **error);

/* With several ranks, whose files in NVMe may share a disk: fails with PLAN_ERROR_DOES_NOT_FIT if
 * the disk of this rank's file has no room for those of all of its host's ranks. Every rank must
 * call it. */
bool together_check_disk(const struct run_options *options, const struct run_plan *run,
                         GError **error);

/* A store that notes what is written through it to another store. */
struct weights_hash {
    struct weights_store store; /* the other */
    uint64_t hash;              /* of everything written; begins with 0 */
};
struct weights_store together_hash(struct weights_hash *hash);

/* Lets the iteration's trace say what this rank exchanges, not what the first does. */
void together_trace(const struct run_options *options, struct model_iteration *iteration);

/* Returns a digest of what the plan does. Free with g_free. */
char *together_plan_digest(const struct plan *plan);

/* Describes what all ranks must have alike: program, model, and the state of training with its data
 * and weights; and options that explain digests (RANKS_EXPLAINS). `eval_digest`, which may be
 * NULL, is data_digest of the data to evaluate on. Free with g_free. */
char *together_describe(const struct run_options *options, const struct run_plan *run,
                        const struct checkpoint_state *state, const char *eval_digest,
                        const struct weights_hash *weights);
/* Does the same for the plan, which the ranks of a stage must have alike. */
char *together_describe_plan(const struct run_options *options, const struct run_plan *run);

#endif
