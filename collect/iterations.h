/* Finds the iterations of a program that does not annotate them: by repetition in the kernels that
 * it launches and in the waits of its host, and by the names of its ranges and marks. Not
 * thread-safe. */
#ifndef PSTAR_COLLECT_ITERATIONS_H
#define PSTAR_COLLECT_ITERATIONS_H

#include <stdbool.h>
#include <stdint.h>

struct launch_pattern;

enum launch_place {
    LAUNCH_UNKNOWN, /* no repetition is known yet */
    LAUNCH_WITHIN,  /* within an iteration */
    LAUNCH_LAST,    /* the last launch of an iteration */
    LAUNCH_LOST,    /* the repetition has stopped, for now or for good; reported once, then
                       LAUNCH_UNKNOWN */
    LAUNCH_NEVER    /* nothing repeats */
};

struct launch_pattern *launch_pattern_new(void);
void launch_pattern_free(struct launch_pattern *pattern); /* may be NULL */

/* Adds a launched kernel or, if `kernel` is NULL, a wait of the host for the device. Layers repeat
 * within the first forward, too. So a repetition counts as an iteration after four times if the
 * host waits in each, otherwise after 150 times. */
enum launch_place launch_pattern_add(struct launch_pattern *pattern, const char *kernel,
                                     uint64_t now_ns);

/* Returns the number of iterations that had passed when the pattern was found. An iteration ends
 * with the last kernel of its optimizer, if one is found by name, otherwise with the longest wait
 * or pause of the host. */
uint32_t launch_pattern_passed(const struct launch_pattern *pattern);

/* Returns a description of the pattern and its certainty, for people. Free with g_free. */
char *launch_pattern_describe(const struct launch_pattern *pattern);

/* Returns whether a range or mark with this name has a step's number: "ProfilerStep#3", "step 3",
 * "Iteration: 3", "train_step3". */
bool step_marks_is_step(const char *text);

/* Returns whether this is PyTorch's range around the optimizer's step, the end of an iteration:
 * "Optimizer.step#AdamW.step". */
bool step_marks_is_optimizer(const char *text);

#endif
