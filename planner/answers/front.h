/* The front door: whether a model that nobody has run trains on a machine, in which ways, how fast,
 * and what would make it fit. For planner/answers alone. */
#ifndef PSTAR_PLANNER_ANSWERS_FRONT_H
#define PSTAR_PLANNER_ANSWERS_FRONT_H

#include "models/config.h"
#include "models/iteration.h"
#include "planner/answers/questions.h"
#include "sim/operator_times.h"
#include "sim/timeline.h"

/* The step that is asked about. */
struct front_step {
    const struct model_config *config; /* NULL if a trace is given */
    const struct trace *given;         /* the trace of the step; NULL if the config describes it */
    unsigned choices;                  /* bits of enum run_choice: what a plan for it may choose */
    const char *name;                  /* of the model */
    uint8_t *frozen;                   /* [tensor_count]; NULL: all tensors are trained */
    uint64_t parameters;
    const struct search_options *search; /* budgets, costs and platform of one rank */
    uint64_t nvme_bytes;                 /* below that host, for each rank; 0 if there are none */
    uint32_t batch, sequence, ranks;     /* of a micro-batch; each rank has one a step */
    uint8_t stage;                       /* of several ranks, else 0 */
    bool fast;                           /* ranks may sum fast */
    enum model_precision precision;
};

/* Returns the trace of one rank of the step, with all layers recomputed or none (or as many as in a
 * trace that is given, if RUN_RECOMPUTE is not among the choices). NULL if there is no such step.
 * The caller frees it with trace_free. */
struct trace *front_trace(const struct front_step *step, bool recompute, GError **error);

/* Returns the least device memory of any plan without NVMe for the step, whatever it recomputes and
 * offloads; UINT64_MAX if host memory lacks. */
uint64_t front_least_bytes(const struct front_step *step);

/* Returns whether there is such a plan within the budgets, sooner than front_least_bytes. */
bool front_fits(const struct front_step *step);

/* One way to train the step. */
struct front_way {
    char *name;    /* of a strategy, or "pstar's plan" */
    char *choices; /* of the plan: what it recomputes, offloads, ...; else NULL */
    bool fits, lacks_host;
    bool recomputes;       /* a strategy, all layers: that is faster, or else it does not fit */
    uint64_t device_bytes; /* of one rank: at its peak or, if it does not fit, the least that would;
                              0 if that is not known */
    uint64_t host_bytes;   /* at its peak; 0 if it does not fit */
    struct plan_figures figures; /* all 0 if it does not fit */
    double busy[MOVER_QUEUES];   /* share of the step in which a resource works */
};

/* One change that would make the step fit. */
struct front_remedy {
    char *option; /* as on the command line: "--batch 2" */
    char *gain;   /* what it gains, in words; may be NULL */
};

struct front {
    struct front_step step;
    bool batch_chosen, sequence_chosen; /* not given */
    GPtrArray *ways;                    /* struct front_way: the strategies, then the plan */
    bool estimated;                     /* operators' times are; `band` then has their limits */
    struct operator_times_band band;
    double band_seconds[2]; /* the plan's step, if operators take the least and the most; 0 without
                               a plan */
    bool stopped;           /* the search for a plan, before its end */
    uint64_t least_bytes;   /* front_least_bytes */
    GPtrArray *remedies;    /* struct front_remedy; empty if a plan fits */
};

/* Fills the ways of the step: each strategy with its best chunks, then the plan. Fails if a trace
 * cannot be made. In front_ways.c. */
bool front_find_ways(struct front *front, GError **error);
/* Sets the way, which gets no name, to the fastest of all strategies and of a policy with NVMe of
 * any size. It does not fit if none of them does. In front_ways.c. */
void front_find_tiered(const struct front *front, struct front_way *way);
/* Return the plan's way, and that with everything resident. */
const struct front_way *front_plan(const struct front *front);
const struct front_way *front_resident(const struct front *front);
/* Return the fastest strategy, and the fastest way of all: the plan, unless its search was stopped
 * before it came as far. NULL if none fits. */
const struct front_way *front_best_strategy(const struct front *front);
const struct front_way *front_fastest(const struct front *front);

/* Fills the remedies. `question` has the machine as it was given. In front_remedies.c. */
void front_find_remedies(struct front *front, const struct question *question);

/* Print the answer, or write it as JSON. In front_answer.c. */
void front_print(const struct front *front, const struct question *question, FILE *out);
bool front_write_json(const struct front *front, const struct question *question, const char *path,
                      GError **error);

#endif
