/* A line on the terminal that says how training goes: loss, tokens a second, share of the machine's
 * peak, time left. */
#ifndef PSTAR_ENGINE_TRAIN_PROGRESS_H
#define PSTAR_ENGINE_TRAIN_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    bool shown;        /* stderr is a terminal */
    uint64_t steps;    /* in all */
    double step_flops; /* operations of a step */
    double peak_flops; /* a second; 0: unknown. A faster step raises it */
    double seconds;    /* mean of the last steps, recent ones counting more */
};

/* Whether anyone would see it. */
bool progress_wanted(void);

/* `step` are done, the last of which took `seconds`. */
void progress_step(struct progress *progress, uint64_t step, double seconds, double loss,
                   double tokens_per_second);
/* Leaves the line. */
void progress_end(const struct progress *progress);

#endif
