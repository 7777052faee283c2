/* The search for a pipeline: depth, width, micro-batch, schedule, parts of a stage, which layers
 * are recomputed, and where the model is cut. Interleaved stages of so many parts have one cut.
 *
 * Every combination of these, but for the last two, is a candidate. The dynamic program of cuts.h
 * gives each a lower bound over all its cuts, and a cut. Candidates are then timed by the clock in
 * the order of their bounds, until the next one's bound is not below the best step. Their stages
 * have all model data on the device. If no candidate fits so, chunks of stages come and go
 * (moving_stages.h). */
#ifndef PSTAR_PLANNER_PIPELINES_PIPELINE_SEARCH_H
#define PSTAR_PLANNER_PIPELINES_PIPELINE_SEARCH_H

#include "planner/pipelines/moving_stages.h"
#include "planner/pipelines/pipeline_question.h"
#include "planner/pipelines/stage_costs.h"

/* Why a candidate is slower than if its GPUs only computed what they must, in seconds of a step.
 * With `compute` they add up to the step. */
struct pipeline_parts {
    double compute;   /* of the stages, on average, without recomputation */
    double recompute; /* on average */
    double imbalance; /* what the slowest stage takes more than the average */
    double bubble;    /* waits for other stages, and updates */
    double network;   /* messages, sums of gradients and gathers */
};

struct pipeline_candidate {
    uint32_t stages, width, micro_batch, micro_batches; /* the last of a step, on each rank */
    enum pipeline_schedule schedule;
    uint32_t stage_parts; /* more than 1 with PIPELINE_INTERLEAVED only */
    bool bounded;         /* unless the search was stopped before */
    bool fits, timed;
    double bound_seconds;     /* no cut of the candidate is faster; if it fits */
    double step_seconds;      /* if it is timed */
    struct stage_cost *costs; /* [stages]; of the best cut, or of the one that lacks least */
    uint64_t short_bytes;     /* that the neediest stage lacks of that */
    struct pipeline_parts parts;
};

struct pipeline_answer {
    struct pipeline_candidate *candidates; /* those that are timed first, by their step; then those
                                              that fit, by their bound; then by what they lack */
    uint32_t count;
    double bound_seconds;         /* no plan of any candidate is faster */
    bool knows_network;           /* else messages take no time */
    struct moving_stages *moving; /* if no candidate fits, but stages whose chunks move do; or, if
                                     plans are wanted, those of the first candidate's stages, if
                                     each has one rank; else NULL */
    bool stopped;                 /* before the search's end */
    char *unmoved;                /* why these do not fit either; NULL if they were not looked at */
};

/* Returns whether the question's step can be shared by so many stages, whatever they need. */
bool pipeline_suits(const struct pipeline_question *question, uint32_t stages);

/* Fails (PLAN_ERROR_INVALID) if there is no candidate, whose message says why, and as
 * platform_spread_stages does. The caller frees the result with pipeline_answer_free. */
struct pipeline_answer *pipeline_search(const struct pipeline_question *question, GError **error);
void pipeline_answer_free(struct pipeline_answer *answer); /* NULL is allowed */

#endif
