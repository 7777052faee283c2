/* Predicted beside measured: runs paired with the plans and sweeps of the same configuration. */
#ifndef PSTAR_REPORT_PAIRS_H
#define PSTAR_REPORT_PAIRS_H

#include "report/inputs.h"

struct pair {
    const struct run_log *run;
    const char *predictor;                     /* the file of the plan or of the sweep */
    const struct configuration *configuration; /* the prediction's */
    struct plan_figures predicted, measured;
    struct plan_figures low, high; /* as run_log_range has them */
    bool timed;                    /* the prediction has a step time */
    bool steady;                   /* the run counts the same in every step from the third on */
};

/* One pair a run (struct pair): its plan if there is one, else the sweep's entry. Runs without
 * figures and runs that nothing predicts have none. */
GArray *pairs_find(const struct inputs *inputs);

/* How many figures, times left out, are equal. */
unsigned pair_equal_counts(const struct pair *pair, unsigned *of);

#endif
