/* Answers how a model is best trained by a pipeline on so many GPUs. */
#ifndef PSTAR_PLANNER_ANSWERS_PIPELINES_H
#define PSTAR_PLANNER_ANSWERS_PIPELINES_H

#include "planner/pipelines/pipeline_search.h"

#include <stdio.h>

struct pipeline_request_files {
    const char *json;  /* where to write the answer; may be NULL */
    const char *model; /* the config, as it was given, for commands that follow; NULL for a trace */
    const char *train; /* what is trained, likewise; NULL for all */
    const char *plans; /* where to write the plans of the stages; may be NULL */
    uint32_t top;      /* runners-up that are printed */
};

/* Searches and prints the plan, the bound, the runners-up and why they lost. If no candidate fits
 * with everything on its devices, prints the plan of stages whose chunks move. Fails with
 * PLAN_ERROR_DOES_NOT_FIT if none of these fits either, whose message says which stage lacks how
 * much and what would fit; and as pipeline_search does. */
bool pipelines_answer(const struct pipeline_question *question,
                      const struct pipeline_request_files *files, FILE *out, GError **error);

#endif
