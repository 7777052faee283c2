/* Derived from the files: where the time of a step goes, predictions beside measurements, and two
 * steps side by side. */
#ifndef PSTAR_REPORT_ANALYSIS_H
#define PSTAR_REPORT_ANALYSIS_H

#include "report/inputs.h"

struct breakdown {
    char *label;                        /* the text shown for it */
    char *maker;                        /* who decides what moves; may be NULL */
    double seconds;                     /* length of the step; the parts below sum to it */
    double compute[TRACK_NO_PHASE + 1]; /* by phase */
    double wait[TRACKS + 1];            /* by cause, as in struct track_sums */
    bool given; /* a step of a timeline, a trace or a run log, not an alternative to it */
    bool measured;
    int64_t modified_ns;                       /* of the file of a given step */
    const char *model;                         /* may be NULL */
    const struct configuration *configuration; /* may be NULL */
    const struct tracks *tracks;               /* of a given step; NULL if it is of a run log */
    const struct logged_run *run;              /* of a given step; may be NULL */
    bool operators_only; /* only the operators of a trace, without their waiting */
};

/* Returns a breakdown for each step that recordings and run logs measured, the newest first by the
 * times of their files, and for each timeline in the order of the files (GPtrArray of struct
 * breakdown). Alternatives follow, the fastest first: the plans, and for each sweep the
 * fastest entry of each maker. A sweep is read at the memory of the first plan or, without a plan,
 * at its largest memory. Steps made of operators alone come last. */
GPtrArray *breakdowns_find(const struct report_inputs *inputs);

/* Returns the tracks of a step that ran, or was simulated, with the plan. May return NULL. */
const struct tracks *tracks_of_plan(const struct report_inputs *inputs,
                                    const struct input_plan *input);

struct prediction {
    const struct logged_run *run;
    const char *predictor;                     /* the file of the plan or of the sweep */
    const struct configuration *configuration; /* of the prediction */
    struct plan_figures predicted, measured;
    struct plan_figures low, high; /* see run_log_range */
    bool timed;                    /* the prediction has a step time */
    bool steady;                   /* the run counts the same in every step from the third on */
};

/* Returns one prediction for each run (struct prediction). A plan of the run's configuration is
 * preferred to an entry of a sweep. Runs without figures and runs that nothing predicts are left
 * out. */
GArray *predictions_find(const struct report_inputs *inputs);

/* Returns how many figures are equal, and in *of how many were compared. Times are not compared. */
unsigned prediction_equal_counts(const struct prediction *prediction, unsigned *of);

/* Returns the step that advice is about: the newest measured one or, without one, the first
 * timeline. May return NULL. */
const struct breakdown *subject_of_advice(const GPtrArray *breakdowns);

/* Finds the first two recorded steps or, where there are fewer than two, the first two simulated
 * ones, in the order of the files. Returns false if there are not two of one kind, or if they are
 * two stages of a pipeline. */
bool compare_steps(const struct report_inputs *inputs, const struct tracks **a,
                   const struct tracks **b);

/* Returns whether two steps do the same work: the same model and, where both are known, as many
 * tokens. Only then is one faster than the other. */
bool compare_same_work(const struct report_inputs *inputs, const struct tracks *a,
                       const struct tracks *b);

/* The time of one operator or kernel, by name. */
struct compare_change {
    const char *name;  /* owned by one of the two */
    double seconds[2]; /* all spans of this name, in A and in B */
};

/* Returns the names of both steps (struct compare_change), the largest difference first. */
GArray *compare_names(const struct tracks *a, const struct tracks *b);

#endif
