/* Chooses one address for each residency interval in advance, so that no chunk moves within the
 * device. */
#ifndef PSTAR_PLANNER_SCHEDULE_OFFSETS_H
#define PSTAR_PLANNER_SCHEDULE_OFFSETS_H

#include "chunks/place.h"
#include "planner/schedule/intervals.h"

struct offsets;

/* Places every interval below the non-model data of all its moments. Chunks that never leave lie at
 * the bottom. An interval that finds no room for its whole prefetch is fetched later, and its
 * `enter` changes. Returns NULL if no such addresses are found, although there may be some. The
 * arguments outlive the result; free it with offsets_free. */
struct offsets *offsets_find(const struct intervals *intervals, const struct homes *homes,
                             const struct accesses *accesses, uint64_t device_budget);
void offsets_free(struct offsets *offsets);

/* Returns the schedule with these addresses. `decisions` are made from the intervals after
 * offsets_find. Peaks are left 0. */
struct addresses *offsets_addresses(const struct offsets *offsets,
                                    const struct decisions *decisions);

#endif
