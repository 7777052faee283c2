/* What a tensor is being used for: PatrickStar's states, checked at every operator.
 *
 *   FREE            nothing in it yet
 *   HOLD            its parameter is valid
 *   COMPUTE         an operator is using it
 *   HOLD_AFTER_FWD  used by this micro-batch's forward; HOLD again when that ends
 *   HOLD_AFTER_BWD  its gradient is complete: only its update may use it now
 *
 * Whether the chunk that it lies in is on the device is another matter:
 * chunks/residency/residency.h. */
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

/* The tensor's values have been written: FREE, or any state at rest, becomes HOLD. */
void tensor_use_fill(struct tensor_use *use, uint32_t tensor);

/* An operator takes its tensors. False, and nothing taken, where one of them may not be used so:
 * *why (may be NULL) is what is wrong, to be freed with g_free. */
bool tensor_use_begin(struct tensor_use *use, const struct model_operator *op, char **why);
/* And gives them back. */
void tensor_use_end(struct tensor_use *use, const struct model_operator *op);

/* A micro-batch's forward pass is over: HOLD_AFTER_FWD becomes HOLD. */
void tensor_use_end_forward(struct tensor_use *use);

enum tensor_use_state tensor_use_state(const struct tensor_use *use, uint32_t tensor);
const char *tensor_use_name(enum tensor_use_state state); /* "HOLD_AFTER_FWD" */

#endif
