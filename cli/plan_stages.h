/* pstar-plan --stages: the best pipeline for a model. */
#ifndef PSTAR_CLI_PLAN_STAGES_H
#define PSTAR_CLI_PLAN_STAGES_H

#include "cli/console.h"
#include "planner/answers/questions.h"

#include <stdbool.h>
#include <stdint.h>

struct plan_stages {
    const struct console *console;
    /* The model, if there is no trace, and its batch, sequence, precision and what is trained; 0
     * and NULL if not given. */
    const struct question_options *about;
    const char *trace;  /* NULL if it is not given, as all other texts */
    const char *stages; /* "any" or a number */
    const char *device_memory, *host_memory, *platform, *link, *json, *top;
    const char *output;                           /* of the stages' plans */
    uint32_t gpus, nodes, micro_batches, threads; /* 0 if not given */
    uint32_t seed;
    double time_limit;    /* seconds; 0 is no limit */
    uint32_t parts;       /* of an interleaved stage; 0 if not given */
    uint8_t schedule;     /* 0: any; else enum pipeline_schedule, and 1 */
    bool any_micro_batch; /* else the batch that is given, or traced */
    bool as_traced;       /* recompute what the trace recomputes; nothing without one */
    bool unclipped;
    bool fast; /* several ranks of a stage sum a step's gradients before they reduce them */
};

/* Answers to standard output. *signal becomes the signal that ended the search early, or 0. Fails
 * with an error of bad usage, bad input or of a model that does not fit. */
bool plan_stages(const struct plan_stages *asked, int *signal, GError **error);

#endif
