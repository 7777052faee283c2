/* A sweep laid out for drawing: a panel a budget, a line a maker, a point a chunk size. */
#ifndef PSTAR_REPORT_SWEEP_GRID_H
#define PSTAR_REPORT_SWEEP_GRID_H

#include "report/inputs.h"

/* What is drawn of each configuration. */
struct sweep_measure {
    const char *stem, *title; /* of its figure */
    const char *name;         /* "traffic an iteration" */
    bool seconds;             /* else bytes */
    double (*value)(const struct plan_figures *figures);
    double (*bound)(const struct certificate *certificate); /* that no plan is below */
};
extern const struct sweep_measure sweep_traffic, sweep_time;

struct sweep_grid {
    const struct sweep_measure *measure;
    GArray *budgets;   /* uint64_t, ascending: a panel each */
    GPtrArray *makers; /* const char *, the sweep's: a line each in every panel */
    GArray *sizes;     /* uint64_t, ascending: chunk sizes */
};

/* The sweep outlives it; sweep_grid_clear frees what it holds. */
struct sweep_grid sweep_grid_new(const struct sweep_file *sweep,
                                 const struct sweep_measure *measure);
void sweep_grid_clear(struct sweep_grid *grid);

/* Appends gnuplot data: for each budget a block for each maker, of chunk size, the measure (NaN
 * where it does not fit) and 1 where it fits, else 0; then for each budget a block of the plans
 * (GPtrArray of struct input_plan) with it, in the same columns, and then a block of the bounds
 * that their certificates prove. Every block begins with a row of NaN, so that none is empty. */
void sweep_grid_append_data(GString *data, const struct sweep_file *sweep,
                            const struct sweep_grid *grid, const GPtrArray *plans);

/* Of the entries with this budget, maker (NULL: any) and chunk size the best by the measure; NULL:
 * none fits. *known: there are some. */
const struct sweep_file_entry *sweep_grid_best(const struct sweep_file *sweep,
                                               const struct sweep_grid *grid, uint64_t budget,
                                               const char *maker, uint64_t size, bool *known);

#endif
