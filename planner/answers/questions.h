/* Questions for pstar-plan: each is one option with one answer. */
#ifndef PSTAR_PLANNER_ANSWERS_QUESTIONS_H
#define PSTAR_PLANNER_ANSWERS_QUESTIONS_H

#include "planner/search/search.h"

#include <stdio.h>

struct question_options {
    char *model, *torch, *max_model, *max_batch, *min_memory, *sensitivity; /* one is asked */
    char *precision;          /* of models that are synthesised */
    char *train;              /* of `model`, as model_choose_trained reads it; NULL: all */
    uint32_t batch, sequence; /* of models that are synthesised; 0 if not given */
    double min_gpus;          /* seconds of a step; 0 if it is not asked */
};

/* Returns how many questions are asked. */
uint32_t question_count(const struct question_options *options);
/* Returns whether the question is about a synthesised model, and takes no trace. */
bool question_is_about_models(const struct question_options *options);
/* Returns what is wrong with the options of a single question, or NULL. */
const char *question_usage(const struct question_options *options);

struct question {
    const struct question_options *asked;
    const struct search_options *search; /* budgets, costs, platform, ... */
    const struct trace *trace;           /* NULL if models are synthesised */
    const char *platform_path, *link;    /* as given; may be NULL */
    const char *trace_path;              /* as given; NULL if models are synthesised */
    uint64_t nvme_bytes;                 /* of each GPU, about a model; 0 if none are given */
    uint32_t gpus, nodes;                /* as given; 0 if not */
    uint32_t stage;                      /* as given; RUN_ANY_STAGE if not */
    bool fast;                           /* ranks may sum gradients fast */
    const char *json;                    /* where to write the answer about a model; may be NULL */
    bool device_given, host_given;       /* the budgets are not the platform's */
};

/* Reads the question's platform for ranks that are spread over nodes (0 stands for as few as it
 * allows), and the costs. The caller frees both. */
bool question_read_machine(const struct question *question, uint32_t ranks, uint32_t nodes,
                           struct platform **platform, struct costs **costs, GError **error);

/* Writes a text as a word of a command, for a person to copy. Free it with g_free. */
char *question_word(const char *text);

/* Prints the answer. Fails with PLAN_ERROR_DOES_NOT_FIT if nothing fits, and with other errors on
 * bad input. Sets *stopped if a person stopped it. */
bool question_answer(const struct question *question, FILE *out, bool *stopped, GError **error);

/* Prints the command that plans the question's trace for these budgets of each GPU, with the
 * trace's own choices or with any. `gpus` and `nodes` are 0 if they need not be named; several GPUs
 * train together as given, and may sum fast if the question lets them. */
void question_print_plan_command(const struct question *question, uint32_t gpus, uint32_t nodes,
                                 struct run_stage together, uint64_t device_budget,
                                 uint64_t host_budget, bool as_traced, FILE *out);

/* Answer the questions about a model, or a training script whose step the trace is, in front.c,
 * about a size, in largest.c, about GPUs, in fewest.c, and about memory and the link, in memory.c.
 * They behave like question_answer. */
bool question_model(const struct question *question, FILE *out, bool *stopped, GError **error);
bool question_max_model(const struct question *question, FILE *out, bool *stopped, GError **error);
bool question_max_batch(const struct question *question, FILE *out, bool *stopped, GError **error);
bool question_min_gpus(const struct question *question, FILE *out, bool *stopped, GError **error);
bool question_min_memory(const struct question *question, FILE *out, bool *stopped, GError **error);
bool question_sensitivity(const struct question *question, FILE *out, bool *stopped,
                          GError **error);

#endif
