/* The clock of a pipeline's passes: when each stage runs which micro-batch, and how long a step
 * takes. With one rank a stage and everything on the device, it is what the simulator says
 * (sim/stage_replay.h). With several that reduce each micro-batch's gradients, the simulator says
 * as much or more: it knows where activations lie, and lets those wait that lie where a gradient
 * was until this is reduced. */
#ifndef PSTAR_PLANNER_PIPELINES_PASS_CLOCK_H
#define PSTAR_PLANNER_PIPELINES_PASS_CLOCK_H

#include "planner/pipelines/stage_costs.h"

/* Returns the nanoseconds of a step, when steps repeat. `costs` are those of all stages. With
 * `instant`, messages and reductions take no time. */
double pass_clock_step(const struct pipeline_job *job, const struct stage_cost *costs,
                       bool instant);

#endif
