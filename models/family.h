/* Families of decoders: how each names its tensors, and which parts its configs describe. A family
 * is one file in models/families. */
#ifndef PSTAR_MODELS_FAMILY_H
#define PSTAR_MODELS_FAMILY_H

#include "models/config.h"
#include "models/config_reader.h"
#include "traces/ids.h"

/* The modules of a layer that have tensors, in the order in which forward runs them. A model has
 * those that its parts need. */
enum model_module {
    MODULE_NORM_1,
    MODULE_QKV, /* one product for queries, keys and values, or three */
    MODULE_QUERY,
    MODULE_KEY,
    MODULE_VALUE,
    MODULE_QUERY_NORM,
    MODULE_KEY_NORM,
    MODULE_OUTPUT,       /* the product behind attention */
    MODULE_AFTER_OUTPUT, /* its norm */
    MODULE_NORM_2,
    MODULE_ROUTER, /* the product that chooses experts */
    MODULE_GATE,
    MODULE_UP,         /* of a joined gate, the product for gate and up */
    MODULE_DOWN,       /* the last two are those of an expert, where there are several */
    MODULE_AFTER_DOWN, /* its norm */
    MODULES
};

struct model_family {
    const char *type;         /* model_type in config.json */
    const char *architecture; /* of the model that predicts tokens */
    const char *classifier;   /* of the one that tells sequences apart; NULL if it is refused */
    const char *base;         /* the one without a head, whose files are read, too; NULL: refused */
    const char *prefix;       /* of all tensors but the head's, in traces and in files */
    const char *file_prefix;  /* the same, in files alone */
    const char *embedding, *positions; /* modules outside of the layers; no positions if rotary */
    const char *types, *transform;     /* the same; NULL if its models have none */
    const char *first_norm;            /* the embedding's; NULL */
    const char *layers;                /* "layers" in "layers.0.mlp.up_proj" */
    const char *attention, *mlp;       /* modules without tensors of their own */
    const char *final_norm;
    const char *experts;          /* module of the experts, which are numbered; NULL without any */
    const char *modules[MODULES]; /* within a layer: "self_attn.q_proj"; within an expert: "w2" */
    const char *file_mlp; /* of models with experts, the name of `mlp` in files; NULL if the same */
    const char *file_experts[3]; /* an expert's products in files, for gate, up and down: "w1" */
    struct model_config parts;   /* that models of the family have; no sizes */
    bool unturned_layers;        /* some layers have no positions */
    bool partly_turned;          /* in some models a part of each head turns */
    bool long_rotary;            /* scaled positions are longrope, and of other families never */
    bool soft_caps;              /* in some models attention caps its scores */
    const char *head;            /* the classifier's module; NULL for "lm_head" */
    const char *head_bias;       /* the module of its bias; NULL if it is the same */
    bool inputs_first;           /* weights of linear layers are [inputs, outputs], y = x W */
    bool scaled_ends; /* new weights of products that end on the residual stream are smaller */

    /* Reads the sizes, and parts that differ between models, into a config with the family's parts.
     * Refuses by name what is not implemented. */
    bool (*read)(const struct config_reader *reader, struct model_config *config, GError **error);
    /* Adds the keys that `read` reads. */
    void (*write)(const struct model_config *config, json_t *root);
};

/* Returns all families, with NULL at the end. */
const struct model_family *const *model_families(void);
/* Returns the family of a model_type, or NULL. */
const struct model_family *model_family_find(const char *type);
const struct model_family *model_family_of(const struct model_config *config);

extern const struct model_family family_gpt2, family_llama, family_mistral, family_qwen2,
    family_qwen3, family_smollm3, family_gemma, family_phi3, family_olmo2, family_gemma3,
    family_gemma2, family_phi, family_gpt_neox, family_mixtral, family_qwen3_moe, family_bert;

/* What the families since LLaMA have in common, for the initialisers of their struct model_family.
 */
#define MODEL_LLAMA_NAMES                                                                   \
    .prefix = "model.", .file_prefix = "", .embedding = "embed_tokens", .layers = "layers", \
    .attention = "self_attn", .mlp = "mlp", .final_norm = "norm"
#define MODEL_LLAMA_MODULES                                                             \
    [MODULE_NORM_1] = "input_layernorm", [MODULE_QUERY] = "self_attn.q_proj",           \
    [MODULE_KEY] = "self_attn.k_proj", [MODULE_VALUE] = "self_attn.v_proj",             \
    [MODULE_OUTPUT] = "self_attn.o_proj", [MODULE_NORM_2] = "post_attention_layernorm", \
    [MODULE_GATE] = "mlp.gate_proj", [MODULE_UP] = "mlp.up_proj", [MODULE_DOWN] = "mlp.down_proj"
/* Those since Gemma 2, whose norms are around attention and MLP. */
#define MODEL_GEMMA2_MODULES                                                                  \
    [MODULE_NORM_1] = "input_layernorm", [MODULE_QUERY] = "self_attn.q_proj",                 \
    [MODULE_KEY] = "self_attn.k_proj", [MODULE_VALUE] = "self_attn.v_proj",                   \
    [MODULE_OUTPUT] = "self_attn.o_proj", [MODULE_AFTER_OUTPUT] = "post_attention_layernorm", \
    [MODULE_NORM_2] = "pre_feedforward_layernorm", [MODULE_GATE] = "mlp.gate_proj",           \
    [MODULE_UP] = "mlp.up_proj", [MODULE_DOWN] = "mlp.down_proj",                             \
    [MODULE_AFTER_DOWN] = "post_feedforward_layernorm"
#define MODEL_LLAMA_PARTS                                                              \
    .norm = MODEL_RMS_NORM, .activation = MODEL_SILU, .gated = true, .separate = true, \
    .unbiased_qkv = true, .unbiased_output = true, .unbiased_mlp = true
/* Those with experts, as transformers has them since its version 5. */
#define MODEL_EXPERTS_NAMES MODEL_LLAMA_NAMES, .experts = "mlp.experts"
#define MODEL_EXPERTS_MODULES                                                           \
    [MODULE_NORM_1] = "input_layernorm", [MODULE_QUERY] = "self_attn.q_proj",           \
    [MODULE_KEY] = "self_attn.k_proj", [MODULE_VALUE] = "self_attn.v_proj",             \
    [MODULE_OUTPUT] = "self_attn.o_proj", [MODULE_NORM_2] = "post_attention_layernorm", \
    [MODULE_ROUTER] = "mlp.gate", [MODULE_UP] = "gate_up_proj", [MODULE_DOWN] = "down_proj"
#define MODEL_EXPERTS_PARTS MODEL_LLAMA_PARTS, .joined_gate = true
#define MODEL_GEMMA_PARTS                                                                       \
    .norm = MODEL_RMS_NORM, .activation = MODEL_GELU_TANH, .gated = true, .separate = true,     \
    .unbiased_qkv = true, .unbiased_output = true, .unbiased_mlp = true, .norm_plus_one = true, \
    .scaled_embedding = true

/* ---- tensors ---- */

/* The tensors of a layer, which are the same in all layers. Those of the experts come last, each
 * expert's behind the other's. */
struct model_layout {
    uint32_t place[MODULES];   /* of the module's weight in the layer, and of the first expert;
                                  NO_INDEX if it has no such */
    bool biased[MODULES];      /* a bias follows the weight */
    uint32_t adapter[MODULES]; /* of the module's first adapter; NO_INDEX if it has none */
    uint32_t inputs[MODULES];  /* 0 for norms, which have a weight for each output */
    uint32_t outputs[MODULES];
    uint32_t layer_tensors;  /* in a layer */
    uint32_t embedding_norm; /* index of its weight, behind the tables; NO_INDEX if there is none */
    uint32_t first_layer;    /* index of the first layer's first tensor */
    uint32_t layers_end;     /* index behind the last layer's last tensor */
    uint32_t transform;      /* index of the weight of the head's product; NO_INDEX */
    uint32_t final_norm;     /* index */
    uint32_t head;           /* index behind the final norm's last tensor */
    uint32_t classifier;     /* index; the embedding's, 0, if tied */
    uint32_t classifier_bias; /* index; NO_INDEX if there is none */
    uint32_t count;           /* of all tensors */
};

struct model_layout model_layout_of(const struct model_config *config);

/* The tensors of an expert: for gate and up, and for what goes back to the width. */
enum { EXPERT_TENSORS = 2 };

/* Returns the name of a module within a layer: "self_attn.q_proj", "mlp.experts.3.down_proj".
 * `expert` is ignored if the module is no expert's. The caller frees it with g_free. */
char *model_module_name(const struct model_config *config, enum model_module module,
                        uint32_t expert);

/* Of a linear layer y = x W: y = x W + alpha/rank (x A^T) B^T. */
enum model_adapter { MODEL_NO_ADAPTER, MODEL_ADAPTER_A, MODEL_ADAPTER_B };

struct model_tensor {
    int32_t layer;            /* -1 outside of layers */
    enum model_module module; /* within a layer */
    uint32_t expert;          /* NO_INDEX if it is no expert's */
    bool embedding, norm, bias, head;
    enum model_adapter adapter; /* A is [rank, inputs], B is [outputs, rank], in all families */
    uint64_t shape[2];          /* as in files; shape[1] is 1 for a vector */
    uint32_t rank;              /* 1 or 2 */
};

/* Describes tensor `index` of the model. Returns its name in traces, which the caller frees with
 * g_free. */
char *model_tensor_describe(const struct model_config *config, const struct model_layout *layout,
                            uint32_t index, struct model_tensor *tensor);

/* Describes the tensor of that name. Returns false if the model has none. */
bool model_tensor_find(const struct model_config *config, const char *name,
                       struct model_tensor *tensor);

/* Returns the name of the classifier's module. */
const char *model_head(const struct model_config *config);

#endif
