/* How long the steps of a run take: the median that is reported, and how long the rest will take.
 */
#ifndef PSTAR_ENGINE_TRAIN_PACE_H
#define PSTAR_ENGINE_TRAIN_PACE_H

#include <glib.h>
#include <stdint.h>

enum pace_work {
    PACE_STEP,
    PACE_PASS, /* of one micro-batch in an evaluation */
    PACE_SAVE,
    PACE_WORKS
};

struct pace {
    GArray *seconds, *stalls; /* double: of each step, as the engine measured it */
    double mean[PACE_WORKS];  /* seconds; recent ones count more. 0 if there was none */
};

/* Returns the pace of a run that has not begun; free it with pace_clear. */
struct pace pace_new(void);
void pace_clear(struct pace *pace);

/* What is left of a run. */
struct pace_rest {
    uint64_t steps, evaluations, saves; /* an evaluation that goes on is one of them */
    uint32_t passes;                    /* of an evaluation */
    uint32_t passed;                    /* of the evaluation that goes on */
};

/* Notes a step. `elapsed` is what it took with all around it, besides evaluations and saves. */
void pace_add_step(struct pace *pace, double seconds, double stall, double elapsed);
/* Notes a pass of an evaluation, or a save. */
void pace_add(struct pace *pace, enum pace_work work, double elapsed);

/* Returns the seconds that the rest will take. */
double pace_left(const struct pace *pace, const struct pace_rest *rest);

/* Return the median of the steps after the first, which is slower than others because its memory is
 * new; of the only step if there is one; NaN if there is none. */
double pace_median_seconds(const struct pace *pace);
double pace_median_stall(const struct pace *pace);

#endif
