/* Questions that people ask of pstar-plan: each is one option with one answer. */
#ifndef PSTAR_PLANNER_ANSWERS_QUESTIONS_H
#define PSTAR_PLANNER_ANSWERS_QUESTIONS_H

#include "planner/search/search.h"

#include <stdio.h>

struct question_options {
    char *max_model, *max_batch, *min_memory, *sensitivity; /* one of them is asked */
    char *precision;                                        /* of models that are synthesised */
    uint32_t batch, sequence;                               /* the same; 0: not said */
};

/* How many questions are asked. */
uint32_t question_count(const struct question_options *options);
/* Whether the question is about a model that is synthesised, and takes no trace. */
bool question_is_about_models(const struct question_options *options);
/* NULL, or what is wrong with the options of a single question. */
const char *question_usage(const struct question_options *options);

struct question {
    const struct question_options *asked;
    const struct search_options *search; /* budgets, costs, platform, ... */
    const struct trace *trace;           /* NULL where models are synthesised */
    const char *platform_path, *link;    /* as given; may be NULL */
};

/* Prints the answer. Fails with PLAN_ERROR_DOES_NOT_FIT where nothing fits, and with other errors
 * on bad input; *stopped is set where a person stopped it. */
bool question_answer(const struct question *question, FILE *out, bool *stopped, GError **error);

#endif
