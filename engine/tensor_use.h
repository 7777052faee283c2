/* The states of a tensor's use, as in PatrickStar, checked at every operator.
 *
 *   FREE            it has no values yet
 *   HOLD            its parameter is valid
 *   COMPUTE         an operator is using it
 *   HOLD_AFTER_FWD  used by this micro-batch's forward; HOLD again when that ends
 *   HOLD_AFTER_BWD  its gradient is complete: only its updates may use it now, one or one a block
 *
 * A parameter also has a version: the number of updates that made it. With a delay that is one less
 * than those that its master has seen.
 *
 * Where the tensor's chunk is does not matter here: see chunks/residency/residency.h. */
#ifndef PSTAR_ENGINE_TENSOR_USE_H
#define PSTAR_ENGINE_TENSOR_USE_H

#include "models/iteration.h"

enum tensor_use_state {
    TENSOR_FREE,
    TENSOR_COMPUTE,
    TENSOR_HOLD,
    TENSOR_HOLD_AFTER_FWD,
    TENSOR_HOLD_AFTER_BWD,
    TENSOR_USE_STATES
};

struct tensor_use;

struct tensor_use *tensor_use_new(uint32_t tensor_count);
void tensor_use_free(struct tensor_use *use);

/* Notes that the tensor's values have been written: FREE, or any state at rest, becomes HOLD. */
void tensor_use_fill(struct tensor_use *use, tensor_id tensor);

/* Takes the operator's tensors. If one of them may not be used so, takes none, returns false and
 * sets *why, which the caller frees with g_free. `why` may be NULL. */
bool tensor_use_begin(struct tensor_use *use, const struct model_operator *op, char **why);
/* Gives the operator's tensors back. */
void tensor_use_end(struct tensor_use *use, const struct model_operator *op);

/* Ends a micro-batch's forward pass: HOLD_AFTER_FWD becomes HOLD. */
void tensor_use_end_forward(struct tensor_use *use);

/* Set and return the versions of a tensor's parameter and of its newest weights; 0 at first. */
void tensor_use_set_version(struct tensor_use *use, tensor_id tensor, uint64_t version,
                            uint64_t newest);
uint64_t tensor_use_version(const struct tensor_use *use, tensor_id tensor);
uint64_t tensor_use_newest(const struct tensor_use *use, tensor_id tensor);

enum tensor_use_state tensor_use_state(const struct tensor_use *use, tensor_id tensor);
const char *tensor_use_name(enum tensor_use_state state); /* "HOLD_AFTER_FWD" */

#endif
