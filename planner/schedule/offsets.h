/* Addresses for stays that are known beforehand, so that nothing ever moves within the device. */
#ifndef PSTAR_PLANNER_SCHEDULE_OFFSETS_H
#define PSTAR_PLANNER_SCHEDULE_OFFSETS_H

#include "chunks/place.h"
#include "planner/schedule/intervals.h"

struct offsets;

/* One address for every stay, below the non-model data of all its moments; those that never leave
 * lie at the bottom. A stay that finds no room for all the time that it was to be fetched ahead is
 * fetched later: its `enter` changes. Returns NULL where it finds no such addresses, which says
 * nothing of whether there are any. Arguments outlive the result, which offsets_free takes. */
struct offsets *offsets_find(const struct intervals *intervals, const struct homes *homes,
                             const struct accesses *accesses, uint64_t device_budget);
void offsets_free(struct offsets *offsets);

/* The schedule with these addresses. `decisions` are made from the stays after offsets_find. Peaks
 * are left 0. */
struct addresses *offsets_addresses(const struct offsets *offsets,
                                    const struct decisions *decisions);

#endif
