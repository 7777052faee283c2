/* Settings of other systems that come nearest to a plan, for those who do not run our engine. */
#ifndef PSTAR_PLANNER_ANSWERS_EMIT_H
#define PSTAR_PLANNER_ANSWERS_EMIT_H

#include "chunks/plan.h"

#include <stdio.h>

/* A plan by the few figures that other systems' settings know. */

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

struct emitted {
    const char *file_name; /* that the system's users know: "ds_config.json" */
    char *text;            /* JSON */
    GPtrArray *lost;       /* char *: what of the plan these settings cannot express, a line each */
};

/* Formats are "deepspeed" (a ds_config.json of ZeRO with offloading) and "fsdp" (a configuration of
 * Hugging Face's Accelerate for PyTorch's FSDP). */
bool emit_knows(const char *format);

/* The format is known, and the plan has passed plan_check against the trace. The caller frees the
 * result with emitted_free. */
struct emitted *emit_settings(const char *format, const struct plan *plan,
                              const struct trace *trace);
void emitted_free(struct emitted *emitted);

/* Writes them into the plan's folder, and says on `out` where, and what they cannot express. */
bool emit_beside(const char *plan_path, const char *format, const struct plan *plan,
                 const struct trace *trace, FILE *out, GError **error);

#endif
