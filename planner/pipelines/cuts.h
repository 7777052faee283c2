/* Where to cut a model into stages, and how fast any cut can be. */
#ifndef PSTAR_PLANNER_PIPELINES_CUTS_H
#define PSTAR_PLANNER_PIPELINES_CUTS_H

#include "planner/pipelines/stage_costs.h"

/* Finds the cut whose slowest chain is shortest, by dynamic programming over layers and stages.
 * Sets ends [stages] to the layer behind each stage, and *bound_ns to a time that no cut beats
 * whose stages fit their devices. Returns false if no cut fits.
 *
 * A chain is work that is done one after the other, whatever the cut. One is what a stage does in a
 * step: its updates, all its passes, its share of the sums of gradients; where the pipeline drains,
 * the first micro-batch passes all earlier stages before, and the last one behind. Another is a
 * micro-batch's way through all stages and back, beside which a stage runs the others. A third are
 * the ways from a stage on and back that follow each other because it has only so many
 * micro-batches in flight. What all
 * stages together take of a micro-batch does not depend on the cut, so chains depend on one stage's
 * layers alone. Layers that have to be recomputed are counted in this stage, but not in those that
 * are passed, nor at all if layers differ. */
bool cuts_find(const struct pipeline_job *job, uint32_t *ends, uint64_t *bound_ns);

/* Finds the cut whose stages' passes take most alike, in the same way. */
bool cuts_balance(const struct pipeline_job *job, uint32_t *ends);

/* Moves layers from stages to their neighbours as long as the step becomes shorter by the clock
 * (pass_clock.h), but looks at no more than `most` cuts, and at none once *stop (atomic; may be
 * NULL) is not 0. `costs` [stages] are those of the best cut so far, and *step_ns its step. */
void cuts_improve(const struct pipeline_job *job, struct stage_cost *costs, double *step_ns,
                  uint32_t most, const gint *stop);

/* Computes the costs of a cut; returns whether all stages fit. */
bool cuts_cost(const struct pipeline_job *job, const uint32_t *ends, struct stage_cost *costs);

/* Returns the cut that lacks least device memory, and by how much its neediest stage exceeds the
 * device: 0 if it fits. */
uint64_t cuts_shortage(const struct pipeline_job *job, uint32_t *ends);

#endif
