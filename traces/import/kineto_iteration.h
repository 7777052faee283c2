/* A training iteration from a PyTorch profiler's trace. */
#ifndef PSTAR_TRACES_IMPORT_KINETO_ITERATION_H
#define PSTAR_TRACES_IMPORT_KINETO_ITERATION_H

#include "traces/import/kineto_step.h"

/* The last step, with the median times of all that consist of the same operators. Adds to `notes`
 * (char *) how it was recognised and what could not be. NULL, with the reason among the notes,
 * where no iteration can be made of what was recorded. Free with trace_free. */
struct trace *kineto_iteration(const struct kineto *kineto, GPtrArray *notes);

#endif
