/* Plans of all stages of a shape, and the step that they make together.
 *
 * The search plans each stage as if messages were there at once. What a step takes is
 * what the simulator says of all stages together (sim/stage_replay.h). */
#ifndef PSTAR_PLANNER_PIPELINES_STAGE_PLANS_H
#define PSTAR_PLANNER_PIPELINES_STAGE_PLANS_H

#include "chunks/plan.h"
#include "planner/pipelines/early_end.h"
#include "planner/pipelines/moving_shapes.h"
#include "planner/pipelines/pipeline_question.h"
#include "sim/stage_replay.h"

struct stage_plans {
    uint32_t stages;
    struct trace **traces;        /* [stages], with updates where the plans have them */
    struct plan **plans;          /* [stages] */
    bool *borrowed;               /* [stages] trace and plan belong to others */
    struct stage_result *results; /* [stages] */
    double seconds;               /* of a step */
};

/* How stages are planned. */
struct stage_planning {
    const struct pipeline_question *question;
    bool briefly; /* by search_briefly, not by search_plan */
    double most;  /* seconds: plans whose step takes as long are of no use; INFINITY if all are */
    uint32_t threads; /* 0 is one for each processor */

    struct early_end *end; /* ends the searches, too */

    /* Plans of another shape of the job, to be borrowed for the stages that are the same in it;
     * NULL if there are none. */
    const struct stage_plans *known;
    const struct moving_shape *known_shape;

    /* Is called before each stage is planned. Returns false if plans are of no use any more. */
    bool (*begin)(void *data, uint32_t stage);
    /* As in struct search_options. */
    bool (*progress)(void *data, uint32_t done, uint32_t total);
    void *progress_data; /* for both */
};

/* Plans the stages by a search. Returns NULL without an error if that is of no use, and fails with
 * PLAN_ERROR_DOES_NOT_FIT. The caller frees the result with stage_plans_free, before what it
 * borrows. */
struct stage_plans *stage_plans_search(const struct stage_planning *planning,
                                       const struct moving_shape *shape, GError **error);

/* Plans the stages by a policy, with all updates on the device. Otherwise as stage_plans_search. */
struct stage_plans *stage_plans_by_policy(const struct pipeline_question *question,
                                          const struct moving_shape *shape, GError **error);

/* Makes `plans` the owner of what it has borrowed from `owner`, which then has to be freed. */
void stage_plans_adopt(struct stage_plans *plans, struct stage_plans *owner);
void stage_plans_free(struct stage_plans *plans); /* NULL is allowed */

#endif
