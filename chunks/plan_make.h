/* The last step of making a plan, whoever decided what moves. */
#ifndef PSTAR_CHUNKS_PLAN_MAKE_H
#define PSTAR_CHUNKS_PLAN_MAKE_H

#include "chunks/place.h"

/* Makes a plan of addresses, which it frees: what the plan is for, its layout (copied), its homes
 * and its schedule, with the traffic and the peaks that these predict. The caller adds who made it.
 */
struct plan *plan_make(const struct plan_inputs *inputs, struct addresses *addresses);

#endif
