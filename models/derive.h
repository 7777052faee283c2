/* Finds the model of a run from its trace, and makes the traces of the same run with other choices.
 */
#ifndef PSTAR_MODELS_DERIVE_H
#define PSTAR_MODELS_DERIVE_H

#include "models/iteration.h"
#include "platforms/platform.h"

struct recognised {
    struct model_config *config; /* its shapes are the trace's; dropout is 0 or 0.1, and epsilon and
                                    the initializer range are defaults */
    struct model_iteration
        *iteration; /* its trace equals the given one, except strings and durations */
};

/* Finds the model and the job that a trace belongs to. Shapes come from the sizes of tensors, the
 * number of heads from attention's operations, dropout from its buffers. The result is checked: its
 * iteration has every operator, access, count and buffer of the trace. Fails (TRACE_ERROR_INVALID)
 * if it has not, since the trace is then of another program. The caller frees the result with
 * recognised_free. */
struct recognised *recognise(const struct trace *trace, GError **error);
void recognised_free(struct recognised *recognised); /* NULL is allowed */

/* Sets the choice of one or two backwards, for a run derived from one that made the choices
 * `traced`. A second backward needs split masters. One backward leaves masters as they were traced,
 * or whole if the traced run had two: a trace does not say whether its run clips gradients, and
 * with split masters and one backward a run cannot. */
void model_choose_backward(struct run_choices *choices, const struct run_choices *traced,
                           bool second_backward);

/* Describes the run anew with other choices; `recognised` belongs to `trace`. Updates stay where
 * they were traced, and choices->host_update and update_after are ignored; model_place_updates
 * moves them.
 *
 * Tensors, operators, accesses, counts and buffers are exactly those of a run with these choices.
 *
 * With the traced micro-batches, operators of both runs keep their durations. An operator that
 * recomputes what the trace kept takes the time of its forward. An operator of a second backward
 * takes its time in the first. If state blocks are other than traced, the update of a block takes
 * its elements' share of the time of the whole tensor's. An embedding that changes sides takes the
 * time of a synthesis for the platform, or keeps its time if `platform` is NULL. If masters are
 * laid out differently, some operators move other bytes; measured durations stay nevertheless.
 * Durations that were synthesised for the platform are synthesised again. If any duration is not
 * the trace's own, the result is marked as estimated.
 *
 * Other micro-batches must divide the same step. There are no measurements of their operators, so
 * they need a trace with the durations of a synthesis for `platform`, and all durations are
 * synthesised again.
 *
 * Fails (TRACE_ERROR_INVALID) if the model has no such step (an embedding on the host with
 * gradients in buffers; two backwards in fp32 or with several micro-batches; masters that
 * model_choose_backward does not give) or if the durations cannot be known. The caller frees the
 * result with trace_free. */
struct trace *model_derive(const struct recognised *recognised, const struct trace *trace,
                           const struct run_choices *choices, const struct platform *platform,
                           GError **error);

/* Returns the trace of one of `ranks` ranks, each of which computes as many micro-batches as a
 * traced rank did. `together` says how they train; stages 0 and 1 need fast sums, and stage 0 is
 * DDP.
 *
 * Durations that were computed for `platform` are computed again. Measured operators keep theirs,
 * except that updates take as much less as their shards have fewer bytes; operators that the trace
 * does not have are computed for the platform, and have no duration if it is NULL. The result is
 * then marked as estimated. Fails (TRACE_ERROR_INVALID) if the model cannot be trained so. The
 * caller frees the result with trace_free. */
struct trace *model_derive_ranks(const struct recognised *recognised, const struct trace *trace,
                                 uint32_t ranks, struct run_stage together,
                                 const struct platform *platform, GError **error);

/* Does the same for a trace of any number of ranks. The result is a copy if the trace is of such a
 * rank already, unless its durations were computed for `platform`: the ranks of a node share its
 * host, so they are computed again for the platform's nodes. */
struct trace *model_trace_of_rank(const struct trace *trace, uint32_t ranks,
                                  struct run_stage together, const struct platform *platform,
                                  GError **error);

/* Describes the run anew for a job that differs from the recognised one in its ranks, its
 * micro-batches and what ranks share. Durations are those of model_derive_ranks; micro-batches that
 * the trace does not have take as long as its last one. Fails (MODEL_ERROR_CONFIG) if there is no
 * such job. The caller frees the result with model_iteration_free. */
struct model_iteration *model_derive_iteration(const struct recognised *recognised,
                                               const struct trace *trace,
                                               const struct model_job *job,
                                               const struct platform *platform, GError **error);
/* Returns the trace of such an iteration. */
struct trace *model_derive_job(const struct recognised *recognised, const struct trace *trace,
                               const struct model_job *job, const struct platform *platform,
                               GError **error);

/* Returns whether the trace's durations are those of a synthesis for the platform. */
bool model_is_synthesised(const struct recognised *recognised, const struct trace *trace,
                          const struct platform *platform);

/* Returns the trace of the same iteration with the optimizer elsewhere. A tensor is updated on the
 * host if on_host[tensor] is 1, and on the device if it is 0. A tensor that was traced with updates
 * on both sides keeps them there if on_host[tensor] is 1, which is what run_choices_of says of it.
 *
 * An update that stays keeps its duration. An update that moves to the host follows the platform's
 * curve host_update by its elements; one that moves to the device takes the time of its bytes in
 * device memory. If `platform` is NULL, it takes as long an element as the trace's own updates on
 * that side, or as long as before if there are none. An unknown duration stays unknown. If any
 * update moved, the result is marked as estimated.
 *
 * If no update moves, the result is a copy, in which updates keep the order of the trace. If any
 * moves, updates on the host come first, then the device's, each in the order of the tensors, as in
 * a run (models/iteration.h); the host begins with the tensor with which it does in the trace. That
 * needs that nothing depends on their order: each tensor has one update, updates use no buffers,
 * and nothing follows them. Otherwise they stay in the order of the trace. So the result depends on
 * the trace and the sides alone, and whoever reads a plan makes the trace that the plan was made
 * for.
 *
 * Fails (TRACE_ERROR_INVALID) if one operator updates tensors of both kinds. The caller frees the
 * result with trace_free. */
struct trace *model_place_updates(const struct trace *trace, const uint8_t *on_host,
                                  const struct platform *platform, GError **error);

/* As model_place_updates, but the host begins with the update of tensor `first`, goes on in the
 * order of the tensors, and ends with those before `first`. If it begins otherwise in the trace,
 * updates are put in order even if none moves. */
struct trace *model_place_updates_from(const struct trace *trace, const uint8_t *on_host,
                                       tensor_id first, const struct platform *platform,
                                       GError **error);

/* As model_place_updates, with updates within backward. after[tensor] is the tensor behind whose
 * last use in forward and backward this tensor's update comes, but not before its own last use;
 * NO_INDEX: behind all of backward. The host then begins with the first tensor of the model.
 * `after` may be NULL, if no update is within backward, for what model_place_updates does. */
struct trace *model_place_updates_after(const struct trace *trace, const uint8_t *on_host,
                                        const tensor_id *after, const struct platform *platform,
                                        GError **error);

/* Returns the trace with its updates where the choices have them, which may be NULL. This is a copy
 * if they say nothing about updates, or belong to another model. Fails as
 * model_place_updates_after does. The caller frees the result with trace_free. */
struct trace *model_place_chosen(const struct trace *trace, const struct run_choices *choices,
                                 const struct platform *platform, GError **error);

/* Takes a trace and returns it, if no update is within backward, or one in which all of them follow
 * backward, unless something depends on their order. The planner, which places updates, begins with
 * such a trace. `trace` may be NULL. */
struct trace *model_updates_last(struct trace *trace);

/* Returns the durations of all operators in nanoseconds, if every update runs on this side:
 * [operator_count], in the order of the trace. They are those of model_place_updates. The caller
 * frees the result with g_free. */
uint64_t *model_update_times(const struct trace *trace, enum trace_place place,
                             const struct platform *platform);

#endif
