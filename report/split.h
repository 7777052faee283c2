/* A step's time, split into what the device computes and what it waits for. */
#ifndef PSTAR_REPORT_SPLIT_H
#define PSTAR_REPORT_SPLIT_H

#include "report/inputs.h"

struct split {
    char *label;                        /* for people */
    char *maker;                        /* who decides what moves; NULL: not said */
    double seconds;                     /* of the step; the parts below sum to it */
    double compute[STRIP_NO_PHASE + 1]; /* by phase */
    double wait[STRIPS + 1];            /* by cause, as strip_sums */
    bool given; /* a step of a timeline or of a trace, not one that might be */
    bool alone; /* the operators of a trace, without what they wait for */
};

/* One a timeline and recorded step (GPtrArray of struct split), in the order of the files, then, by
 * time, what else the step could be: the plans, and of each sweep the fastest entry of each maker
 * with the memory of the first plan or, without one, the most memory; last operators alone. */
GPtrArray *splits_find(const struct inputs *inputs);

#endif
