/* The cheapest copies of the largest chunks within forward and backward. */
#ifndef PSTAR_PLANNER_PROOF_JOINT_COPIES_H
#define PSTAR_PLANNER_PROOF_JOINT_COPIES_H

#include "planner/proof/bound.h"
#include "planner/proof/joint_model.h"

/* More than any cost. */
#define JOINT_IMPOSSIBLE ((scaled_ns)1 << 120)

/* Sets *cost to the least cost of the copies, if `kept` bytes are not to be had; JOINT_IMPOSSIBLE
 * if the chunks of an operator do not fit then. Returns false if that takes too many sets. */
bool joint_copies_cost(const struct joint_model *model, const struct certificate_joint *prices,
                       uint64_t kept, scaled_ns *cost);

#endif
