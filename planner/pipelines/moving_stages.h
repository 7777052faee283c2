/* Pipelines whose stages are larger than their devices, so that chunks of each stage come and go.
 *
 * Each stage has a plan of its own, which all of its ranks execute. Looks at shapes give their
 * stages plans of a short search; shapes beside the best one are looked at as long as one is
 * better. The best shape's stages then have their plans from the whole search (search.h). An early
 * end that is wanted keeps the best plans so far, or the first ones. */
#ifndef PSTAR_PLANNER_PIPELINES_MOVING_STAGES_H
#define PSTAR_PLANNER_PIPELINES_MOVING_STAGES_H

#include "planner/pipelines/early_end.h"
#include "planner/pipelines/stage_costs.h"
#include "sim/stage_replay.h"

struct moving_stages {
    uint32_t stages, width, parts;
    uint32_t micro_batch, micro_batches; /* sequences; of a step, on each rank */
    enum pipeline_schedule schedule;
    uint8_t *recompute;           /* [layers] */
    uint32_t *layers;             /* [stages] of each stage; NULL if they have several parts */
    struct trace **traces;        /* [stages], with updates where the plans have them */
    struct plan **plans;          /* [stages] */
    struct stage_result *results; /* [stages] */
    double step_seconds;
    double bound_seconds;   /* of all shapes; 0 if the search ended before it knew all */
    uint32_t shapes, looks; /* how many there are, and how many were looked at */
    bool stopped;           /* before the search's end */
};

/* Returns whether stages of the job have plans: several stages, whose ranks, if each has several,
 * reduce each micro-batch's gradients. */
bool moving_stages_can_plan(const struct pipeline_job *job);

/* Returns a plan for each stage of the job with this cut, `layers` [stages] or NULL if
 * stages have several parts, and with these layers recomputed. Without bound_seconds and what is
 * below. Fails with PLAN_ERROR_DOES_NOT_FIT. The caller frees the result with moving_stages_free.
 */
struct moving_stages *moving_stages_plan(struct early_end *end, const struct pipeline_job *job,
                                         const uint32_t *layers, const uint8_t *recompute,
                                         GError **error);

/* Looks at the jobs whose stages have plans, each with so many recomputed layers that activations
 * take at most certain shares of the device and passes are shortest, or with those that were asked
 * for. Jobs with a backward that is split are looked at only if the question asks for their
 * schedule: the second half of a backward fetches and stores all gradients apart from the first,
 * which fetches the parameters, so such stages copy more. Returns NULL, without an error, if there
 * is no such job; with one (PLAN_ERROR_DOES_NOT_FIT) if no shape fits that was looked at, which
 * says what a stage lacks. The caller frees the result with moving_stages_free.
 *
 * The bound of a job is that of cuts_find, in which the passes and the updates of each stage take
 * as long as its link needs for what has no room on the device (stage_links.h). */
struct moving_stages *moving_stages_search(struct early_end *end, const struct pipeline_job *jobs,
                                           uint32_t count, GError **error);
void moving_stages_free(struct moving_stages *moving); /* NULL is allowed */

#endif
