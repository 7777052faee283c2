/* Two steps side by side: what got faster, what moved more. */
#ifndef PSTAR_REPORT_COMPARE_H
#define PSTAR_REPORT_COMPARE_H

#include "report/inputs.h"

/* The first two steps that were recorded or, where fewer than two were, that were simulated, in the
 * order of the files. False: there are no two. */
bool compare_pair(const struct inputs *inputs, const struct strips **a, const struct strips **b);

/* What computes, by name. */
struct compare_change {
    const char *name;  /* of one of the two */
    double seconds[2]; /* in A and B, all spans of the name */
};

/* All names of both (struct compare_change), the largest difference first. */
GArray *compare_names(const struct strips *a, const struct strips *b);

#endif
