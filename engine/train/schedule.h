/* The learning rate of each step. */
#ifndef PSTAR_ENGINE_TRAIN_SCHEDULE_H
#define PSTAR_ENGINE_TRAIN_SCHEDULE_H

#include <stdint.h>

struct schedule {
    double peak;      /* learning rate after the warm-up; > 0 */
    double floor;     /* learning rate at the end and after it; in [0, peak] */
    uint64_t warm_up; /* steps; 0 for no warm-up */
    uint64_t steps;   /* the step at which the floor is reached; >= warm_up */
};

/* Returns the learning rate of `step`, which counts from 0. During the warm-up it is
 * peak * (step + 1) / warm_up, so that no step is wasted at zero. Then it follows half a cosine
 * from the peak, at step warm_up, to the floor, at step `steps`. */
double schedule_learning_rate(const struct schedule *schedule, uint64_t step);

#endif
