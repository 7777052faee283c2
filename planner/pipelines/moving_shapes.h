/* Shapes of pipelines whose chunks come and go. */
#ifndef PSTAR_PLANNER_PIPELINES_MOVING_SHAPES_H
#define PSTAR_PLANNER_PIPELINES_MOVING_SHAPES_H

#include "planner/pipelines/stage_costs.h"

/* A job with a cut and with layers that are recomputed. */
struct moving_shape {
    const struct pipeline_job *job;
    uint8_t *recompute; /* [layers] */
    uint32_t *layers;   /* [stages] of each stage; NULL if they have several parts */
    double estimate;    /* seconds of a step by the clock of passes */
    double bound;       /* seconds; no shape of the job takes less */
};

/* Bounds the step of a job, whatever is recomputed and wherever it is cut. Returns false if its
 * activations alone do not fit. */
bool moving_shapes_bound(const struct pipeline_job *job, double *seconds);

/* Adds the job's shapes to `shapes` (struct moving_shape): activations take at most certain shares
 * of the device, and each stage recomputes as many layers as make its passes shortest, or those
 * that were asked for. The cut is balanced first, and layers then go to neighbours as long as that
 * helps. */
void moving_shapes_add(GArray *shapes, const struct pipeline_job *job, double bound);

/* Returns an array of struct moving_shape, which owns what is in them. */
GArray *moving_shapes_new(void);

/* Returns a copy of the shape; moving_shape_clear frees what is in it. */
struct moving_shape moving_shape_copy(const struct moving_shape *shape);
void moving_shape_clear(void *shape);

/* Returns the shapes beside this one, as moving_shapes_new does: a layer goes to a neighbour, which
 * recomputes it if it was recomputed, or many layers more; or a stage recomputes a few layers more
 * or less. Where it was asked which layers are recomputed, that stays as it was asked. */
GArray *moving_shapes_beside(const struct moving_shape *shape);

/* Returns whether a stage has the same layers in two shapes of one job, and recomputes the same of
 * them. */
bool moving_shape_same_stage(const struct moving_shape *a, const struct moving_shape *b,
                             uint32_t stage);

#endif
