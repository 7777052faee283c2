/* Replays the stages of a pipeline on one clock.
 *
 * Each stage has a residency manager, a clock and a link of its own. A stage is replayed until it
 * receives what has not been sent yet; then another goes on. What a stage sends arrives when the
 * network between the two has passed it on, after what was sent the same way before. Nobody waits
 * for what it sends. Before the first update all stages wait for each other. */
#ifndef PSTAR_SIM_STAGE_REPLAY_H
#define PSTAR_SIM_STAGE_REPLAY_H

#include "sim/replay.h"
#include "sim/stage_messages.h"

/* A stage with its plan. */
struct stage_view {
    const struct plan *plan;
    struct replay_view view;
};

/* Where the time of a stage's step goes, in seconds, which add up to the step. */
struct stage_times {
    double compute;       /* operators of the device, and what is between them */
    double warm_up;       /* waits for other stages before the stage's first backward pass, */
    double drain;         /* and after its last forward pass */
    double imbalance;     /* waits for other stages that pass between these, and what the slowest
                             stage computes more than this one */
    double communication; /* waits for messages that are on their way; copies of messages */
    double copies;        /* waits for copies, for ranks of the same stage and for the host */
};

/* What a stage does of a micro-batch without a break, or its updates. */
struct stage_pass {
    double start, end; /* seconds; begins with the step's first pass of all stages */
    uint32_t micro_batch;
    enum trace_phase phase;
};

struct stage_result {
    uint32_t first_layer, layers, in_flight; /* of its trace (trace_most_in_flight) */
    uint64_t device_bytes, host_bytes;       /* that its plan takes */
    struct plan_figures figures; /* of the steady step, which takes all stages equally long; stalls
                                    include waits for other stages */
    struct stage_times times;    /* all 0 without timelines */
    GArray *passes;              /* struct stage_pass, in their order; NULL without timelines */
};

/* Frees results and their passes. NULL is allowed. */
void stage_results_free(struct stage_result *results, uint32_t stages);

/* Replays several iterations. `stages` are those of the messages, in their order. results[stages]
 * are of the last iteration, when times have settled. timelines[stages], if not NULL, receive what
 * ran when, with times since a common beginning. */
void stages_replay(const struct stage_view *stages, const struct stage_messages *messages,
                   struct timeline *const *timelines, struct stage_result *results);

#endif
