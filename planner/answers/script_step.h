/* A step of a training script in PyTorch, recorded without a GPU and without memory. */
#ifndef PSTAR_PLANNER_ANSWERS_SCRIPT_STEP_H
#define PSTAR_PLANNER_ANSWERS_SCRIPT_STEP_H

#include "models/iteration.h"
#include "platforms/platform.h"

/* Runs a script (a path and arguments, as in a shell) on PyTorch's meta device under pstar-collect
 * until a step is recorded, and gives the trace the platform's times. Matrix products run in
 * `precision`; NULL stands for the parameters'. Returns the path of the trace, the script's with
 * the ending .pstar, in this folder; free it with g_free. `remarks` gets what a reader should know
 * of the step, to be freed with g_strfreev, or NULL. Returns NULL on error. */
char *script_step_record(const char *script, const struct platform *platform,
                         const enum model_precision *precision, char ***remarks, GError **error);

#endif
