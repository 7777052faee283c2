#include "models/operator_accesses.h"

static void append(struct iteration_builder *builder, uint32_t tensor, enum trace_list list,
                   enum trace_mode mode)
{
    struct trace_access access = {tensor, (uint8_t)list, (uint8_t)mode};
    g_array_append_val(builder->accesses, access);
}

/* The weight of a linear layer or a norm is needed for the gradient of its input; biases and
 * embedding tables are not. */
static bool backward_reads(const struct model_operator *op, int which)
{
    return which == 0 && op->kind != MODEL_EMBED_BACKWARD;
}

/* Tied weights: the classifier's backward has written their gradient by then. */
static bool adds_to_gradient(const struct iteration_builder *builder,
                             const struct model_operator *op, int which)
{
    return op->accumulate ||
           (op->kind == MODEL_EMBED_BACKWARD && which == 0 && builder->config->tied);
}

static void backward_access(struct iteration_builder *builder, const struct model_operator *op,
                            int which)
{
    uint32_t tensor = op->t[which];
    bool reads = backward_reads(op, which), adds = adds_to_gradient(builder, op, which);
    if (builder->gradient == MODEL_GRADIENT_OVER_PARAM) {
        append(builder, tensor, TRACE_PARAM, reads || adds ? TRACE_UPDATE : TRACE_OVERWRITE);
        return;
    }
    if (reads)
        append(builder, tensor, TRACE_PARAM, TRACE_READ);
    if (builder->gradient == MODEL_GRADIENT_LIST)
        append(builder, tensor, TRACE_GRAD, adds ? TRACE_UPDATE : TRACE_OVERWRITE);
}

/* With a whole master and a gradient list, the parameter is only rounded from its master. */
static void update_accesses(struct iteration_builder *builder, uint32_t tensor)
{
    bool master = builder->job->precision == MODEL_BF16;
    bool list = builder->gradient == MODEL_GRADIENT_LIST;
    bool rounded = master && !builder->job->choices.split_masters;
    append(builder, tensor, TRACE_PARAM, rounded && list ? TRACE_OVERWRITE : TRACE_UPDATE);
    if (list)
        append(builder, tensor, TRACE_GRAD, TRACE_READ);
    if (master)
        append(builder, tensor, TRACE_MASTER, TRACE_UPDATE);
    append(builder, tensor, TRACE_EXP_AVG, TRACE_UPDATE);
    append(builder, tensor, TRACE_EXP_AVG_SQ, TRACE_UPDATE);
}

void operator_accesses(struct iteration_builder *builder, const struct model_operator *op)
{
    for (int which = 0; which < 2; which++) {
        if (op->t[which] == NO_INDEX)
            continue;
        if (op->kind == MODEL_UPDATE)
            update_accesses(builder, op->t[which]);
        else if (model_operator_is_forward(op))
            append(builder, op->t[which], TRACE_PARAM, TRACE_READ);
        else
            backward_access(builder, op, which);
    }
}
