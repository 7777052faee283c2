/* What follows from the files: where a step's time goes, what was predicted beside what was
 * measured, and two steps side by side. */
#ifndef PSTAR_REPORT_ANALYSIS_H
#define PSTAR_REPORT_ANALYSIS_H

#include "report/inputs.h"

struct breakdown {
    char *label;                        /* for people */
    char *maker;                        /* who decides what moves; NULL: not said */
    double seconds;                     /* of the step; the parts below sum to it */
    double compute[TRACK_NO_PHASE + 1]; /* by phase */
    double wait[TRACKS + 1];            /* by cause, as track_sums */
    bool given; /* a step of a timeline or of a trace, not one that might be */
    bool alone; /* the operators of a trace, without what they wait for */
};

/* One a timeline and recorded step (GPtrArray of struct breakdown), in the order of the files,
 * then, by time, what else the step could be: the plans, and of each sweep the fastest entry of
 * each maker with the memory of the first plan or, without one, the most memory; last operators
 * alone. */
GPtrArray *breakdowns_find(const struct report_inputs *inputs);

struct prediction {
    const struct logged_run *run;
    const char *predictor;                     /* the file of the plan or of the sweep */
    const struct configuration *configuration; /* the prediction's */
    struct plan_figures predicted, measured;
    struct plan_figures low, high; /* as run_log_range has them */
    bool timed;                    /* the prediction has a step time */
    bool steady;                   /* the run counts the same in every step from the third on */
};

/* One pair a run (struct prediction): its plan if there is one, else the sweep's entry. Runs
 * without figures and runs that nothing predicts have none. */
GArray *predictions_find(const struct report_inputs *inputs);

/* How many figures, times left out, are equal. */
unsigned prediction_equal_counts(const struct prediction *prediction, unsigned *of);

/* The first two steps that were recorded or, where fewer than two were, that were simulated, in the
 * order of the files. False: there are no two. */
bool compare_steps(const struct report_inputs *inputs, const struct tracks **a,
                   const struct tracks **b);

/* What computes, by name. */
struct compare_change {
    const char *name;  /* of one of the two */
    double seconds[2]; /* in A and B, all spans of the name */
};

/* All names of both (struct compare_change), the largest difference first. */
GArray *compare_names(const struct tracks *a, const struct tracks *b);

#endif
