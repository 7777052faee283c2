/* What annotated operators take of a device, from the activity that was recorded of it. */
#ifndef PSTAR_TRACES_ACTIVITY_DEVICE_TIMES_H
#define PSTAR_TRACES_ACTIVITY_DEVICE_TIMES_H

#include "traces/database.h"

/* Puts the device's times in place of the host's in durations_ns [operator_count]: for operators
 * whose ranges asked a device for work, the median over the ranges of what that took.
 *
 * That is the time in which any of a range's kernels, memsets and copies within the device ran, and
 * for each of them the gap that the device leaves between two that wait in its queue (the median of
 * those in the file). A range in which the host waited for the device took longer, by the way to
 * the device and back, which no operator has that is queued behind another; of a range without a
 * wait the host's time stays where it is longer. So it does where work ran in the range's time of
 * which nobody knows who asked for it. False: the file cannot be read. */
bool device_times_take(const struct database *database, uint64_t *durations_ns,
                       uint32_t operator_count, GError **error);

#endif
