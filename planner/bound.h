/* A lower bound of an iteration's traffic, for any schedule of one layout.
 *
 * Room at a moment has a price; a kept gap pays for the moments that it spans. For prices that are
 * not negative, the least that each chunk can pay for copies and room, summed, less what all the
 * room is worth, is never above what any schedule moves (Lagrangian relaxation of the room at each
 * moment): a schedule that fits pays no more for its room than all the room is worth. A chunk's
 * least is found exactly, over the states clean and dirty from gap to gap, cyclic in the iteration.
 */
#ifndef PSTAR_PLANNER_BOUND_H
#define PSTAR_PLANNER_BOUND_H

#include "chunks/plan.h"
#include "planner/gaps.h"

/* Bytes over the link, activations of host operators included. `achieved` is what some schedule
 * moves: it steers the prices, and is never exceeded by the result. `rounds` of improving prices.
 */
uint64_t bound_traffic(const struct gaps *gaps, uint64_t achieved, uint32_t rounds);

/* The bound of any schedule with the plan's layout, within its device budget, whatever chunk is at
 * home where. */
uint64_t bound_plan(const struct trace *trace, const struct plan *plan, uint32_t rounds);

#endif
