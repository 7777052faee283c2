/* What a search for a pipeline is asked. */
#ifndef PSTAR_PLANNER_PIPELINES_PIPELINE_QUESTION_H
#define PSTAR_PLANNER_PIPELINES_PIPELINE_QUESTION_H

#include "models/derive.h"
#include "planner/pipelines/stage_costs.h"

enum { PIPELINE_SCHEDULE_ANY = PIPELINE_SCHEDULES };

/* The most parts of a stage that are tried, unless it is asked how many. */
enum { PIPELINE_PARTS_TRIED = 8 };

struct pipeline_question {
    const struct model_config *config;
    const struct recognised *recognised; /* of `trace`, with `config`; NULL without a trace */
    const struct trace *trace; /* whose operators' times are taken; NULL: the platform's */
    struct platform *platform; /* the search spreads its ranks; may be NULL with a trace */
    const char *link;          /* as given; may be NULL */
    uint32_t sequence;
    enum model_precision precision;
    uint32_t sequences;   /* of a step */
    uint32_t batch;       /* those that one of --micro-batches stands for; 0 is 1 */
    uint32_t micro_batch; /* sequences of a micro-batch; 0: any */
    uint32_t gpus, nodes; /* 0 nodes: as few as hold the GPUs */
    uint32_t stages;      /* 0: any */
    uint32_t schedule;    /* enum pipeline_schedule, or PIPELINE_SCHEDULE_ANY */
    uint32_t parts;       /* of an interleaved stage; 0: any */
    bool clips;
    bool fast; /* several ranks of a stage each sum a step's gradients before they reduce them */
    const uint8_t *frozen; /* [model_tensor_count(config)]; each layer has a tensor that is trained.
                              NULL: all are */
    const uint8_t *recompute; /* [layers]; NULL: as few as fit */
    uint64_t device_budget;
    uint64_t host_budget; /* of each rank; UINT64_MAX is unlimited, 0 what the platform has */
    uint32_t threads;
    bool wants_plans;  /* of the stages, also if everything in them is resident */
    uint32_t seed;     /* of the searches for these plans */
    double time_limit; /* of the whole search, in seconds; 0 is no limit; waits for a plan */

    /* Called about ten times a second, with how many depths were described, then how many
     * candidates were bounded and timed, and then how many shapes of pipelines were looked at and
     * stages planned. Returns false to end with the best plans so far, or with the first ones if
     * there are none. May be NULL. */
    bool (*progress)(void *data, uint32_t done, uint32_t total);
    void *progress_data;
};

/* Describes the step of a job of the question's model, with the durations of the question's trace
 * or, without one, of its platform. Fails as model_derive_iteration and model_iteration_new do. The
 * caller frees the result with model_iteration_free. */
struct model_iteration *pipeline_describe(const struct pipeline_question *question,
                                          const struct model_job *job, GError **error);

/* ---- units ---- */

/* The units of all jobs of a question, each described once. The question outlives them. */
struct pipeline_units;
struct pipeline_units *pipeline_units_new(const struct pipeline_question *question);
void pipeline_units_free(struct pipeline_units *units);

/* Returns the units of a job, which has none yet, with micro-batches of so many sequences.
 * Describes them if that has not been done; then it fails as pipeline_describe does, and must not
 * be called by several threads. The result belongs to `units`. */
const struct units *pipeline_units_of(struct pipeline_units *units, const struct pipeline_job *job,
                                      uint32_t micro_batch, GError **error);

#endif
