/* Settings of other systems that come nearest to a plan, for those who do not run our engine. */
#ifndef PSTAR_PLANNER_ANSWERS_EMIT_H
#define PSTAR_PLANNER_ANSWERS_EMIT_H

#include "chunks/plan.h"

#include <stdio.h>

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
