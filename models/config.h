/* A decoder's hyper-parameters, and the parts that it consists of, from a Hugging Face config.json.
 * Parts that are 0 are those of GPT-2. */
#ifndef PSTAR_MODELS_CONFIG_H
#define PSTAR_MODELS_CONFIG_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct model_family;

/* The most experts of a layer. */
enum { MODEL_MOST_EXPERTS = 4096 };

enum model_norm {
    MODEL_LAYER_NORM, /* y = weight (x - mean) / deviation + bias */
    MODEL_RMS_NORM    /* y = weight x / root mean square */
};

/* Which rows of queries and keys are normalised before they turn. */
enum model_query_norms {
    MODEL_QUERY_NORMS_NONE,
    MODEL_QUERY_NORMS_HEADS, /* each head */
    MODEL_QUERY_NORMS_ROWS   /* all heads of a position together */
};

/* Where attention and MLP have norms: on what their first products read; on what their last product
 * makes, before that is added to the residual stream; or on the sum with the stream, which the norm
 * then replaces. */
enum model_norm_places {
    MODEL_NORMS_BEFORE,
    MODEL_NORMS_AFTER,
    MODEL_NORMS_AROUND, /* before and after */
    MODEL_NORMS_OF_SUMS
};

/* Whether the MLP reads what attention has added to the residual stream, or, as attention does, the
 * layer's input: with a norm of its own, or from the same norm. */
enum model_branches { MODEL_SEQUENTIAL, MODEL_PARALLEL, MODEL_PARALLEL_ONE_NORM };

enum model_activation {
    MODEL_GELU_TANH, /* 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) */
    MODEL_SILU,      /* x / (1 + exp(-x)) */
    MODEL_GELU_EXACT /* 0.5 x (1 + erf(x / sqrt(2))) */
};

/* How the frequencies of rotary positions are scaled, beyond the positions of the first training.
 */
enum model_rotary_scaling {
    MODEL_ROTARY_DEFAULT,
    MODEL_ROTARY_LINEAR,
    MODEL_ROTARY_DYNAMIC, /* as default, up to the model's positions */
    MODEL_ROTARY_LLAMA3,
    MODEL_ROTARY_YARN,
    MODEL_ROTARY_LONGROPE /* each pair's own factor, another for sequences beyond the first
                             training's positions */
};

struct model_rotary {
    uint32_t columns; /* of a head that are turned, in pairs columns / 2 apart; 0: positions are
                         learned, and added to the embedding */
    double base;      /* rope_theta */
    enum model_rotary_scaling scaling;
    double factor;
    double low_frequency, high_frequency; /* llama3 */
    double beta_fast, beta_slow;          /* yarn */
    bool truncate;                        /* yarn: the ramp begins and ends at whole columns */
    double magnitude;                     /* factor of cosines and sines */
    uint32_t original_positions;          /* llama3, yarn, longrope: of the first training */
    double *short_factors, *long_factors; /* longrope: [columns / 2], which divide frequencies */
};

struct model_config {
    char *name;                        /* for people: "gpt2 12x768, vocabulary 50257" */
    char *file;                        /* the text that it was read from; NULL if from none */
    const struct model_family *family; /* its names; NULL stands for GPT-2 */
    uint32_t layers;                   /* n_layer */
    uint32_t width;                    /* n_embd */
    uint32_t heads;                    /* n_head */
    uint32_t inner;                    /* n_inner; 4 * width by default */
    uint32_t positions;                /* n_positions: the longest sequence */
    uint32_t vocabulary;               /* vocab_size */
    bool tied;                         /* tie_word_embeddings: the classifier is the embedding */
    uint32_t labels; /* classes of GPT2ForSequenceClassification, whose head replaces the
                        vocabulary's; 0 if the model predicts tokens */
    double embedding_dropout, attention_dropout, residual_dropout; /* in [0, 1) */
    double norm_epsilon;                                           /* layer_norm_epsilon */
    double initializer_range;

    enum model_norm norm;
    enum model_activation activation; /* of the MLP */
    bool gated;       /* the MLP's inside is activation(gate) * up, each a product of its own */
    bool joined_gate; /* one product makes both, the gate's columns first */
    bool separate;    /* queries, keys and values are three products instead of one */
    bool unbiased_qkv, unbiased_output,
        unbiased_mlp; /* products without biases: of queries, keys
                         and values; at attention's end; in the MLP */
    enum model_query_norms query_norms;
    enum model_norm_places norm_places;
    enum model_branches branches;
    bool interleaved; /* the one product makes query, key and value of a head, then of the next */
    bool classifier_bias;
    bool bidirectional;   /* a position attends to those behind it, too */
    uint32_t token_types; /* rows of a table of which each token adds one to its embedding; 0: none
                           */
    bool embedding_norm;  /* the embedding's sum is normalised before it is dropped out */
    bool head_transform;  /* the final norm reads what a product of `width` columns with the MLP's
                             activation makes of the residual stream */
    uint32_t key_heads; /* of keys and values, which groups of queries share; 0 stands for heads */
    uint32_t head_size; /* columns of a head; 0 stands for width / heads */
    bool norm_plus_one; /* norms scale by 1 more than their weight */
    bool scaled_embedding; /* the embedding's output is multiplied by the root of the width */
    double query_scalar;   /* by whose root attention divides its scores; 0 stands for head_size */
    double score_cap, logit_cap; /* soft caps of attention's scores and of the logits; 0: none */
    struct model_rotary rotary, local_rotary; /* the second is that of layers with a window, if it
                                                 has columns */
    uint32_t
        unturned_every;    /* in every so-many-th layer queries and keys do not turn; 0: in none */
    uint32_t window;       /* a position attends to itself and window - 1 before it; 0: to all */
    uint32_t first_window; /* layers below it attend to all positions, */
    uint32_t full_every;   /* and every so-many-th layer does; 0: no other layer */
    uint32_t experts;      /* each layer has so many MLPs of `inner` columns, and a router; 0: one
                              MLP without a router */
    uint32_t experts_per_token; /* how many of them a row goes through */
    bool shared_weight;         /* what a row's experts make is weighted by probabilities that are
                                   divided by their sum, and so add up to 1 */
    double balance;             /* the loss counts so much of the experts' imbalance; 0: none */

    /* Not in config.json: how rows spread over experts (models/expert_rows.h), [layers * experts];
     * NULL if each gets as many. The config owns it. */
    uint64_t *expert_loads;
    /* Nor this: linear layers within layers, but not experts, have adapters beside them (LoRA). */
    uint32_t lora_rank; /* 0: none */
    double lora_alpha;  /* the adapters' products count lora_alpha / lora_rank */
};

enum model_error {
    MODEL_ERROR_CONFIG,      /* values are missing, damaged or absurd */
    MODEL_ERROR_UNSUPPORTED, /* an unknown model, refused by name */
    MODEL_ERROR_WEIGHTS      /* a weight file is damaged or of another model */
};
#define MODEL_ERROR model_error_quark()
GQuark model_error_quark(void);

/* Returns the folder in which a model's other files lie, such as its weights and its tokenizer:
 * that of its config.json, if `path` is a file, or else `path`. The caller frees it with g_free. */
char *model_config_folder(const char *path);

/* Reads and writes a config.json. `path` is the file, or when reading its folder. Errors name the
 * file, the key and the value. The caller frees a config with model_config_free. */
struct model_config *model_config_read(const char *path, GError **error);
bool model_config_write(const struct model_config *config, const char *path, GError **error);
/* The caller frees the copy with model_config_free. */
struct model_config *model_config_copy(const struct model_config *config);
void model_config_free(struct model_config *config);

/* Returns the model's name for people. The caller frees it with g_free. */
char *model_config_describe(const struct model_config *config);

/* Returns the number of parameters. */
uint64_t model_config_parameters(const struct model_config *config);
/* Returns the number of classes that the head tells apart: labels, or tokens of the vocabulary. */
uint32_t model_config_classes(const struct model_config *config);

/* Return what 0 stands for. */
static inline uint32_t model_config_key_heads(const struct model_config *config)
{
    return config->key_heads ? config->key_heads : config->heads;
}

static inline uint32_t model_config_head_size(const struct model_config *config)
{
    return config->head_size ? config->head_size : config->width / config->heads;
}

/* Return the columns of all queries, and of all keys; there are as many of values. */
static inline uint32_t model_config_queries(const struct model_config *config)
{
    return config->heads * model_config_head_size(config);
}

static inline uint32_t model_config_keys(const struct model_config *config)
{
    return model_config_key_heads(config) * model_config_head_size(config);
}

static inline bool model_config_norms_before(const struct model_config *config)
{
    return config->norm_places == MODEL_NORMS_BEFORE || config->norm_places == MODEL_NORMS_AROUND;
}

/* Returns whether attention and MLP end in norms, of what they make or of its sum with the stream.
 */
static inline bool model_config_norms_after(const struct model_config *config)
{
    return config->norm_places != MODEL_NORMS_BEFORE;
}

static inline bool model_config_norms_sums(const struct model_config *config)
{
    return config->norm_places == MODEL_NORMS_OF_SUMS;
}

/* Returns whether the model predicts the next token: pstar-run trains no others. */
static inline bool model_config_predicts_next(const struct model_config *config)
{
    return !config->labels && !config->bidirectional;
}

/* Returns how many tables of embeddings there are: of words, positions and types of tokens. */
static inline uint32_t model_config_tables(const struct model_config *config)
{
    return 1 + !config->rotary.columns + (config->token_types > 0);
}

/* Returns whether the MLP has a norm of its own before its products. */
static inline bool model_config_second_norm(const struct model_config *config)
{
    return model_config_norms_before(config) && config->branches != MODEL_PARALLEL_ONE_NORM;
}

/* Returns the columns of a head that turn in a layer. */
static inline uint32_t model_config_turned(const struct model_config *config, int32_t layer)
{
    bool turns = !config->unturned_every || ((uint32_t)layer + 1) % config->unturned_every;
    return turns ? config->rotary.columns : 0;
}

/* Returns how many positions one of a layer attends to at the most; 0: all before it. */
static inline uint32_t model_config_window(const struct model_config *config, int32_t layer)
{
    bool full = config->full_every && ((uint32_t)layer + 1) % config->full_every == 0;
    return layer >= (int32_t)config->first_window && !full ? config->window : 0;
}

/* Returns the rotary positions of a layer. */
static inline const struct model_rotary *model_config_rotary(const struct model_config *config,
                                                             int32_t layer)
{
    bool local = config->local_rotary.columns && model_config_window(config, layer);
    return local ? &config->local_rotary : &config->rotary;
}

#endif
