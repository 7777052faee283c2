/* What the link of a stage makes of its passes, if chunks come and go.
 *
 * When a pass begins, at most the device's memory is there of what the pass needs, less what is
 * saved of micro-batches in flight. The rest is fetched before the pass ends, so the pass takes at
 * least as long as this. All times are lower bounds (docs/pipelines.md proves them). */
#ifndef PSTAR_PLANNER_PIPELINES_STAGE_LINKS_H
#define PSTAR_PLANNER_PIPELINES_STAGE_LINKS_H

#include "planner/pipelines/stage_costs.h"

struct stage_link_times {
    double work_ns;  /* all passes of a step */
    double first_ns; /* those, all forward, until each part has had its first one */
    double rest_ns;  /* the others */
    /* Without its first micro-batch, and the forward passes before that one's backward; and without
     * its last micro-batch, and the backward passes behind that one's forward. Of one part. */
    double behind_first_ns, before_last_ns;
};

/* Computes the times of a stage whose passes take what `cost` says, but save of a micro-batch what
 * `saves` does, which is the same stage with as many layers recomputed, or more. */
struct stage_link_times stage_link_times(const struct pipeline_job *job,
                                         const struct stage_cost *cost,
                                         const struct stage_cost *saves);

/* Returns the least time from the first update of a step until each part of the stage has had its
 * first forward pass of the next step, which take forward_ns, for a stage with this number of
 * parameters that are trained. It is convex in these and increases. */
double stage_begin_ns(const struct pipeline_job *job, double trained, double forward_ns);

/* Returns how many times as long the passes of a stage take together as the link lets them. */
double stage_link_stretch(const struct pipeline_job *job, const struct stage_cost *cost);

/* As stage_cost, but recomputes as many layers as make the passes of a stage of one part shortest,
 * unless it was asked which are recomputed. */
bool stage_link_cost(const struct pipeline_job *job, uint32_t stage, uint32_t first, uint32_t end,
                     struct stage_cost *cost);

#endif
