#include "engine/tensor_use.h"

struct tensor_use {
    uint32_t tensor_count;
    uint8_t *state;    /* [tensor_count] enum tensor_use_state */
    uint64_t *version; /* [tensor_count] of the parameter */
    uint64_t *newest;  /* [tensor_count] of the master, where there is one */
};

/* The phase of an operator's kind: what tells the states' transitions apart. */
enum use { USE_FORWARD, USE_BACKWARD, USE_UPDATE };

static enum use use_of(const struct model_operator *op)
{
    if (op->kind <= MODEL_LOSS)
        return USE_FORWARD;
    return op->kind == MODEL_UPDATE ? USE_UPDATE : USE_BACKWARD;
}

/* Recomputation is a forward operator in the backward phase: it finds HOLD and leaves
 * HOLD_AFTER_FWD, as the first forward pass does. */
static bool may_begin(enum tensor_use_state state, enum use use)
{
    if (use == USE_UPDATE)
        return state == TENSOR_HOLD_AFTER_BWD;
    return state == TENSOR_HOLD || state == TENSOR_HOLD_AFTER_FWD;
}

struct tensor_use *tensor_use_new(uint32_t tensor_count)
{
    struct tensor_use *use = g_new0(struct tensor_use, 1);
    use->tensor_count = tensor_count;
    use->state = g_new0(uint8_t, tensor_count);
    use->version = g_new0(uint64_t, tensor_count);
    use->newest = g_new0(uint64_t, tensor_count);
    return use;
}

void tensor_use_free(struct tensor_use *use)
{
    if (!use)
        return;
    g_free(use->state);
    g_free(use->version);
    g_free(use->newest);
    g_free(use);
}

void tensor_use_fill(struct tensor_use *use, tensor_id tensor)
{
    g_assert(use->state[tensor] != TENSOR_COMPUTE);
    use->state[tensor] = TENSOR_HOLD;
}

/* The tensors of an operator, or of its bucket. */
static uint32_t tensors_of(const struct model_operator *op)
{
    return op->bucket_count ? op->bucket_count : G_N_ELEMENTS(op->t);
}

static tensor_id tensor_of(const struct model_operator *op, uint32_t i)
{
    return op->bucket_count ? op->bucket[i] : op->t[i];
}

bool tensor_use_begin(struct tensor_use *use, const struct model_operator *op, char **why)
{
    static const char *const uses[] = {"forward", "backward", "update"};
    for (uint32_t i = 0; i < tensors_of(op); i++) {
        tensor_id tensor = tensor_of(op, i);
        if (tensor == NO_INDEX || may_begin(use->state[tensor], use_of(op)))
            continue;
        if (why)
            *why = g_strdup_printf("tensor %u is %s and may not be used by a %s operator", tensor,
                                   tensor_use_name(use->state[tensor]), uses[use_of(op)]);
        return false;
    }
    for (uint32_t i = 0; i < tensors_of(op); i++)
        if (tensor_of(op, i) != NO_INDEX)
            use->state[tensor_of(op, i)] = TENSOR_COMPUTE;
    return true;
}

static enum tensor_use_state state_after(const struct model_operator *op, uint32_t i)
{
    if (op->bucket_count)
        return TENSOR_HOLD_AFTER_BWD;
    switch (use_of(op)) {
    case USE_FORWARD:
        return TENSOR_HOLD_AFTER_FWD;
    case USE_BACKWARD:
        return op->finishes[i] ? TENSOR_HOLD_AFTER_BWD : TENSOR_HOLD;
    default:
        return op->more ? TENSOR_HOLD_AFTER_BWD : TENSOR_HOLD;
    }
}

void tensor_use_end(struct tensor_use *use, const struct model_operator *op)
{
    for (uint32_t i = 0; i < tensors_of(op); i++) {
        tensor_id tensor = tensor_of(op, i);
        if (tensor == NO_INDEX)
            continue;
        g_assert(use->state[tensor] == TENSOR_COMPUTE);
        use->state[tensor] = (uint8_t)state_after(op, i);
    }
}

void tensor_use_end_forward(struct tensor_use *use)
{
    for (uint32_t t = 0; t < use->tensor_count; t++)
        if (use->state[t] == TENSOR_HOLD_AFTER_FWD)
            use->state[t] = TENSOR_HOLD;
}

void tensor_use_set_version(struct tensor_use *use, tensor_id tensor, uint64_t version,
                            uint64_t newest)
{
    use->version[tensor] = version;
    use->newest[tensor] = newest;
}

uint64_t tensor_use_newest(const struct tensor_use *use, tensor_id tensor)
{
    return use->newest[tensor];
}

uint64_t tensor_use_version(const struct tensor_use *use, tensor_id tensor)
{
    return use->version[tensor];
}

enum tensor_use_state tensor_use_state(const struct tensor_use *use, tensor_id tensor)
{
    return use->state[tensor];
}

const char *tensor_use_name(enum tensor_use_state state)
{
    static const char *const names[TENSOR_USE_STATES] = {"FREE", "COMPUTE", "HOLD",
                                                         "HOLD_AFTER_FWD", "HOLD_AFTER_BWD"};
    return names[state];
}
