/* A training run's steps, from the kernels alone. */
#ifndef PSTAR_TRACES_ACTIVITY_ACTIVITY_STEPS_H
#define PSTAR_TRACES_ACTIVITY_ACTIVITY_STEPS_H

#include "traces/activity/period.h"
#include "traces/records.h"

/* What repeats among the kernels of the device's busiest stream; *step_ns is the median time from a
 * step's first kernel to the next one's, 0 where nothing repeats. Where an optimizer's kernels are
 * named so a step ends with them; its `count` may be 1 where the recording begins within one. */
struct period activity_steps(const struct activity *activity, const struct records *records,
                             uint32_t device, uint64_t *step_ns);

/* The kernel at a place of the sequence in which the steps were found. */
const struct kernel_record *activity_steps_kernel(const struct activity *activity, uint32_t device,
                                                  uint32_t place);

#endif
