#include "models/gpt2.h"
#include "models/gpt2_tensors.h"

static int32_t layer_of(const struct model_config *config, uint32_t tensor)
{
    bool in_layer = tensor >= GPT2_FIRST_LAYER && tensor < gpt2_final_norm(config);
    return in_layer ? (int32_t)((tensor - GPT2_FIRST_LAYER) / GPT2_LAYER_TENSORS) : -1;
}

void gpt2_update_tensor(struct iteration_builder *builder, uint32_t tensor)
{
    struct model_operator op = model_operator_of(MODEL_UPDATE, layer_of(builder->config, tensor),
                                                 0);
    op.t[0] = tensor;
    op.gradient[0] = iteration_builder_gradient(builder, tensor);
    const char *name = g_array_index(builder->tensors, struct trace_tensor, tensor).name;
    iteration_builder_operator(builder, g_strdup_printf("update %s", name), TRACE_UPDATE_PHASE,
                               &op);
}

static void add_updates(struct iteration_builder *builder, bool on_host)
{
    for (uint32_t tensor = 0; tensor < builder->tensors->len; tensor++)
        if (builder->job->choices.host_update[tensor] == on_host)
            gpt2_update_tensor(builder, tensor);
}

/* The host's first: it has begun then when the device begins with its own. */
void gpt2_update(struct iteration_builder *builder)
{
    add_updates(builder, true);
    add_updates(builder, false);
}
