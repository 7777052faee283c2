/* Which of a program's annotations mark its iterations, where it does not make ours. */
#ifndef PSTAR_COLLECT_STEP_MARKS_H
#define PSTAR_COLLECT_STEP_MARKS_H

#include <stdbool.h>

/* The name of a range around each training step, or of a mark at its begin, which has the step's
 * number: "ProfilerStep#3", "step 3", "Iteration: 3", "train_step3". */
bool step_marks_is_step(const char *text);

/* The name of the range that PyTorch makes around the optimizer's step, which is the last thing of
 * an iteration: "Optimizer.step#AdamW.step". */
bool step_marks_is_optimizer(const char *text);

#endif
