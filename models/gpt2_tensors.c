#include "models/gpt2_tensors.h"

uint32_t gpt2_layer_tensor(uint32_t layer, uint32_t which)
{
    return GPT2_FIRST_LAYER + layer * GPT2_LAYER_TENSORS + which;
}

uint32_t gpt2_final_norm(const struct model_config *config)
{
    return gpt2_layer_tensor(config->layers, 0);
}

uint32_t gpt2_classifier(const struct model_config *config)
{
    return config->tied ? GPT2_WTE : gpt2_final_norm(config) + 2;
}

/* A weight of inputs x outputs and its bias; a norm's weight has one input. */
static void layer_tensors(struct iteration_builder *builder, uint32_t layer, const char *module,
                          uint64_t inputs, uint64_t outputs)
{
    iteration_builder_tensor(builder, g_strdup_printf("h.%u.%s.weight", layer, module),
                             inputs * outputs);
    iteration_builder_tensor(builder, g_strdup_printf("h.%u.%s.bias", layer, module), outputs);
}

void gpt2_tensors(struct iteration_builder *builder)
{
    const struct model_config *config = builder->config;
    uint64_t h = config->width, f = config->inner, v = config->vocabulary;
    iteration_builder_tensor(builder, g_strdup("wte.weight"), v * h);
    iteration_builder_tensor(builder, g_strdup("wpe.weight"), config->positions * h);
    for (uint32_t layer = 0; layer < config->layers; layer++) {
        layer_tensors(builder, layer, "ln_1", 1, h);
        layer_tensors(builder, layer, "attn.c_attn", h, 3 * h);
        layer_tensors(builder, layer, "attn.c_proj", h, h);
        layer_tensors(builder, layer, "ln_2", 1, h);
        layer_tensors(builder, layer, "mlp.c_fc", h, f);
        layer_tensors(builder, layer, "mlp.c_proj", f, h);
    }
    iteration_builder_tensor(builder, g_strdup("ln_f.weight"), h);
    iteration_builder_tensor(builder, g_strdup("ln_f.bias"), h);
    if (!config->tied)
        iteration_builder_tensor(builder, g_strdup("lm_head.weight"), v * h);
}
