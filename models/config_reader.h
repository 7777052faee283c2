/* Reads the keys of a config.json. Errors name file, key and value. */
#ifndef PSTAR_MODELS_CONFIG_READER_H
#define PSTAR_MODELS_CONFIG_READER_H

#include "models/config.h"

#include <jansson.h>

struct config_reader {
    const json_t *root;
    const char *origin; /* the file */
};

/* A number that must be in the file. */
bool config_count(const struct config_reader *reader, const char *key, uint32_t *count,
                  GError **error);
/* A number that may be missing or null. */
bool config_count_or(const struct config_reader *reader, const char *key, uint32_t missing,
                     uint32_t *count, GError **error);
bool config_number(const struct config_reader *reader, const char *key, double missing,
                   double *number, GError **error);
bool config_bool(const struct config_reader *reader, const char *key, bool missing, bool *setting,
                 GError **error);

/* Numbers in their ranges: [0, 1), (0, 1), and initializer_range above 0. */
bool config_dropout(const struct config_reader *reader, const char *key, double missing,
                    double *dropout, GError **error);
bool config_epsilon(const struct config_reader *reader, const char *key, double missing,
                    double *epsilon, GError **error);
bool config_range(const struct config_reader *reader, double *range, GError **error);

/* Fails if heads have no size of their own and do not divide the width. */
bool config_heads_divide(const struct config_reader *reader, const char *width_key,
                         const char *heads_key, const struct model_config *config, GError **error);

/* Refuses a key whose value is none of these words. */
bool config_word(const struct config_reader *reader, const char *key, const char *const *known,
                 GError **error);
/* Refuses a key that is there and not `only`. */
bool config_switch(const struct config_reader *reader, const char *key, bool only, GError **error);
/* Refuses a key that has contents. */
bool config_absent(const struct config_reader *reader, const char *key, GError **error);

/* Fail with MODEL_ERROR_UNSUPPORTED and MODEL_ERROR_CONFIG. */
bool config_refuse(const struct config_reader *reader, const char *key, const json_t *value,
                   const char *why, GError **error);
bool config_wrong(const struct config_reader *reader, const char *key, const char *expected,
                  GError **error);

/* ---- keys that the families since LLaMA share ---- */

/* What a family has where its config.json has no such key. */
struct config_defaults {
    uint32_t key_heads; /* 0: as many as heads */
    uint32_t head_size; /* 0: width / heads */
    double rotary_base;
    double rotary_part; /* of a head's columns that turn; 0: all do, and there is no such key */
    double epsilon;
    bool tied;
    const char *activation_alias; /* another word for hidden_act; may be NULL */
};

/* Reads the sizes, of which those of heads may be missing. */
bool config_read_sizes(const struct config_reader *reader, const struct config_defaults *defaults,
                       struct model_config *config, GError **error);
/* Adds them, and the keys beside them that all families since LLaMA have: initializer_range,
 * attention_dropout and tie_word_embeddings. */
void config_write_sizes(const struct model_config *config, json_t *root);

/* Reads the sizes, epsilon, range, dropout of attention, whether embeddings are tied, and rotary
 * positions. Refuses another activation than the config's. */
bool config_read_llama(const struct config_reader *reader, const struct config_defaults *defaults,
                       struct model_config *config, GError **error);
void config_write_llama(const struct model_config *config, json_t *root);

/* The keys of rotary positions beside rope_parameters, and what they are where they are missing. */
struct config_rotary {
    const char *base_key, *part_key; /* no part_key: all columns of a head turn */
    double base, part;
};

/* Reads rope_parameters, or the keys beside it and rope_scaling. */
bool config_read_rotary(const struct config_reader *reader, const struct config_rotary *keys,
                        struct model_config *config, GError **error);
void config_write_rotary(const struct model_config *config, const struct config_rotary *keys,
                         json_t *root);
/* Reads such an object as rope_parameters, for whole heads. */
bool config_read_rotary_object(const struct config_reader *reader, double base,
                               const struct model_config *config, struct model_rotary *rotary,
                               GError **error);
/* Returns such an object, with a reference that is the caller's. */
json_t *config_rotary_object(const struct model_rotary *rotary);
/* Reads hidden_act, which may be any GELU; `missing` is that of a config without the key. */
bool config_read_activation(const struct config_reader *reader, const char *missing,
                            struct model_config *config, GError **error);
void config_write_activation(const struct model_config *config, json_t *root);

/* The keys in which rotary families with layer norms differ, and what they are where they are
 * missing. */
struct config_layer_norm_keys {
    struct config_rotary rotary;
    const char *activation; /* where hidden_act is missing; any GELU may be there */
    const char *dropout;    /* of the residual stream */
};

/* Reads the sizes, the activation, epsilon, range, dropouts, whether embeddings are tied, and
 * rotary positions. */
bool config_read_layer_norm(const struct config_reader *reader,
                            const struct config_layer_norm_keys *keys, struct model_config *config,
                            GError **error);
void config_write_layer_norm(const struct model_config *config,
                             const struct config_layer_norm_keys *keys, json_t *root);

/* Reads sliding_window, max_window_layers and layer_types, where use_sliding_window says so. */
bool config_read_window(const struct config_reader *reader, struct model_config *config,
                        GError **error);
void config_write_window(const struct model_config *config, json_t *root);

/* ---- keys that families with experts share ---- */

/* Reads how many experts there are, how many a token takes, and whether the loss counts their
 * imbalance. `experts` is their number where no key says it. */
bool config_read_experts(const struct config_reader *reader, uint32_t experts, uint32_t per_token,
                         struct model_config *config, GError **error);
void config_write_experts(const struct model_config *config, json_t *root);

/* ---- keys that the families since Gemma share ---- */

/* As config_read_llama, with the parts of a Gemma, and biases of attention. */
bool config_read_gemma(const struct config_reader *reader, const struct config_defaults *defaults,
                       struct model_config *config, GError **error);
void config_write_gemma(const struct model_config *config, json_t *root);

/* Reads the scale of scores, and windows that all layers but every so-many-th have. `every` is the
 * number of a model without layer_types and sliding_window_pattern. */
bool config_read_gemma_attention(const struct config_reader *reader, uint32_t every,
                                 struct model_config *config, GError **error);
void config_write_gemma_attention(const struct model_config *config, json_t *root);

/* Reads a soft cap, of which null is none. */
bool config_cap(const struct config_reader *reader, const char *key, double missing, double *cap,
                GError **error);
void config_write_cap(double cap, const char *key, json_t *root);

#endif
