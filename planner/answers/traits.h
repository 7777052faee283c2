/* A plan by the few figures that other systems' settings know. */
#ifndef PSTAR_PLANNER_ANSWERS_TRAITS_H
#define PSTAR_PLANNER_ANSWERS_TRAITS_H

#include "chunks/plan.h"

struct plan_summary {
    bool parameters_leave;   /* some parameter is not on the device all the time */
    double states_on_host;   /* share of the optimizer states' bytes whose home is the host */
    double updated_on_host;  /* share of the elements */
    uint64_t group_elements; /* of the largest chunk group */
    uint64_t live_elements;  /* of parameters, the most on the device at a time */
    uint64_t stay_elements;  /* every parameter of at most so many stays on the device */
    uint64_t ahead_elements; /* of parameters, the most fetched that no operator has used yet */
    uint32_t layers, recomputed_layers;
    uint64_t offloaded_bytes; /* of activations that come back to the device */
    bool host_embedding;
};

/* Of a plan that has passed plan_check against the trace. */
struct plan_summary plan_summary_of(const struct plan *plan, const struct trace *trace);

#endif
