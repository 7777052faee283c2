/* Finds the iterations of a program that marks none, while it runs: in the kernels that it
 * launches, and where its host waits. Not safe for several threads. */
#ifndef PSTAR_COLLECT_ITERATIONS_H
#define PSTAR_COLLECT_ITERATIONS_H

#include <stdbool.h>
#include <stdint.h>

struct launch_pattern;

enum launch_place {
    LAUNCH_UNKNOWN, /* nothing that repeats is known yet */
    LAUNCH_WITHIN,  /* an iteration */
    LAUNCH_LAST,    /* of an iteration: the next launch is the first of the next */
    LAUNCH_LOST,    /* what repeated does so no more, or not for a while: said once, then unknown */
    LAUNCH_NEVER    /* nothing repeats */
};

struct launch_pattern *launch_pattern_new(void);
void launch_pattern_free(struct launch_pattern *pattern); /* NULL is allowed */

/* A kernel of that name was launched, or (NULL) the host has waited for the device. Layers repeat,
 * too, within the first forward: what repeats counts as an iteration when it has come four times
 * over if the host waits in each, and 150 times over if it does not. */
enum launch_place launch_pattern_add(struct launch_pattern *pattern, const char *kernel,
                                     uint64_t now_ns);

/* Iterations that had passed when the pattern was found. An iteration ends with the last kernel of
 * its optimizer, where one is named so; else where the host waits longest, or launches nothing. */
uint32_t launch_pattern_passed(const struct launch_pattern *pattern);

/* What was found, and how sure it is, for people: to be freed with g_free. */
char *launch_pattern_describe(const struct launch_pattern *pattern);

/* Which of a program's annotations mark its iterations, where it does not make ours. */

/* The name of a range around each training step, or of a mark at its begin, which has the step's
 * number: "ProfilerStep#3", "step 3", "Iteration: 3", "train_step3". */
bool step_marks_is_step(const char *text);

/* The name of the range that PyTorch makes around the optimizer's step, which is the last thing of
 * an iteration: "Optimizer.step#AdamW.step". */
bool step_marks_is_optimizer(const char *text);

#endif
