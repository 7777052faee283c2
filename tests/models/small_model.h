/* A model small enough to check by hand: 3 layers of width 8, 2 heads, 11 tokens, 5 positions. And
 * others of the same size with other parts. */
#ifndef PSTAR_TESTS_MODELS_SMALL_MODEL_H
#define PSTAR_TESTS_MODELS_SMALL_MODEL_H

#include "models/iteration.h"
#include "tests/models/family_parts.h"

#include <string.h>

static inline struct model_config small_model(bool tied, double dropout)
{
    return (struct model_config){
        .name = "small",
        .layers = 3,
        .width = 8,
        .heads = 2,
        .inner = 24,
        .positions = 5,
        .vocabulary = 11,
        .tied = tied,
        .embedding_dropout = dropout,
        .attention_dropout = dropout,
        .residual_dropout = dropout,
        .norm_epsilon = 1e-5,
        .initializer_range = 0.02,
    };
}

/* The family's parts, with heads of 4 columns, of which two share keys, and sequences that are
 * longer than the windows. */
static inline struct model_config small_decoder(const struct model_family *family, bool tied)
{
    struct model_config config = small_model(tied, 0);
    if (family == &family_gpt2)
        config.family = family;
    else
        set_family(family, 4, 3, &config);
    return config;
}

static inline struct model_job small_job(enum model_precision precision, uint32_t micro_batches)
{
    return (struct model_job){.choices = {.batch = 2, .micro_batches = micro_batches},
                              .sequence = 4,
                              .precision = precision};
}

static inline struct model_iteration *new_iteration(const struct model_config *config,
                                                    const struct model_job *job)
{
    GError *error = NULL;
    struct model_iteration *iteration = model_iteration_new(config, job, &error);
    g_assert_no_error(error);
    return iteration;
}

/* Returns the moment of the micro-batch's operator with this name. */
static inline uint32_t find_operator(const struct trace *trace, const char *name,
                                     uint32_t micro_batch)
{
    for (uint32_t i = 0; i < trace->operator_count; i++)
        if (!strcmp(trace->operators[i].name, name) &&
            trace->operators[i].micro_batch == micro_batch)
            return i;
    g_error("no operator '%s' in micro-batch %u", name, micro_batch);
}

#endif
