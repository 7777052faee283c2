/* A model's hyper-parameters, from a Hugging Face config.json of the GPT-2 family. */
#ifndef PSTAR_MODELS_CONFIG_H
#define PSTAR_MODELS_CONFIG_H

#include <glib.h>
#include <stdbool.h>
#include <stdint.h>

struct model_config {
    char *name;          /* for people: "gpt2 12x768, vocabulary 50257" */
    uint32_t layers;     /* n_layer */
    uint32_t width;      /* n_embd; a multiple of heads */
    uint32_t heads;      /* n_head */
    uint32_t inner;      /* n_inner; 4 * width by default */
    uint32_t positions;  /* n_positions: the longest sequence */
    uint32_t vocabulary; /* vocab_size */
    bool tied;           /* tie_word_embeddings: the classifier is the embedding */
    uint32_t labels;     /* classes of GPT2ForSequenceClassification, whose head replaces the
                            vocabulary's; 0 if the model predicts tokens */
    double embedding_dropout, attention_dropout, residual_dropout; /* in [0, 1) */
    double norm_epsilon;                                           /* layer_norm_epsilon */
    double initializer_range;
};

enum model_error {
    MODEL_ERROR_CONFIG,      /* values are missing, damaged or absurd */
    MODEL_ERROR_UNSUPPORTED, /* an unknown model, refused by name */
    MODEL_ERROR_WEIGHTS      /* a weight file is damaged or of another model */
};
#define MODEL_ERROR model_error_quark()
GQuark model_error_quark(void);

/* Reads and writes a config.json. `path` is the file, or when reading its folder. Errors name the
 * file, the key and the value. The caller frees a config with model_config_free. */
struct model_config *model_config_read(const char *path, GError **error);
bool model_config_write(const struct model_config *config, const char *path, GError **error);
void model_config_free(struct model_config *config);

/* Returns the model's name for people. The caller frees it with g_free. */
char *model_config_describe(const struct model_config *config);

/* Returns the number of parameters. */
uint64_t model_config_parameters(const struct model_config *config);
/* Returns the number of classes that the head tells apart: labels, or tokens of the vocabulary. */
uint32_t model_config_classes(const struct model_config *config);

#endif
