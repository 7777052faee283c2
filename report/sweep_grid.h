/* A sweep laid out for drawing: a panel a budget, a line a maker, a point a chunk size. */
#ifndef PSTAR_REPORT_SWEEP_GRID_H
#define PSTAR_REPORT_SWEEP_GRID_H

#include "report/inputs.h"

struct sweep_grid {
    GArray *budgets;   /* uint64_t, ascending: a panel each */
    GPtrArray *makers; /* const char *, the sweep's: a line each in every panel */
    GArray *sizes;     /* uint64_t, ascending: chunk sizes */
};

/* The sweep outlives it; sweep_grid_clear frees what it holds. */
struct sweep_grid sweep_grid_new(const struct sweep_file *sweep);
void sweep_grid_clear(struct sweep_grid *grid);

/* Appends gnuplot data: for each budget a block for each maker, of chunk size, traffic (NaN where
 * it does not fit) and 1 where it fits, else 0; then for each budget a block of the plans
 * (GPtrArray of struct input_plan) with it, in the same columns. Every block begins with a row of
 * NaN, so that none is empty. */
void sweep_grid_append_data(GString *data, const struct sweep_file *sweep,
                            const struct sweep_grid *grid, const GPtrArray *plans);

#endif
