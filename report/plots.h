/* The plots of a report. Each function writes the data and the script of one plot; plot_draw draws
 * it. Free the results with plot_free. `number` counts the plots of one kind from 0. */
#ifndef PSTAR_REPORT_PLOTS_H
#define PSTAR_REPORT_PLOTS_H

#include "report/analysis.h"
#include "report/inputs.h"
#include "report/memory.h"
#include "report/plot.h"

/* The figure that a plot of a sweep shows for each configuration. */
struct sweep_measure {
    const char *stem, *title; /* of the plot */
    const char *name;         /* "traffic per iteration" */
    bool seconds;             /* otherwise bytes */
    double (*value)(const struct plan_figures *figures);
    double (*bound)(const struct certificate *certificate); /* the proven lower bound */
};
extern const struct sweep_measure sweep_traffic, sweep_time;

struct sweep_grid {
    const struct sweep_measure *measure;
    GArray *budgets;          /* uint64_t, ascending; one panel each */
    GPtrArray *makers;        /* const char *, owned by the sweep; one line each in every panel */
    GArray *sizes;            /* uint64_t, ascending chunk sizes */
    char *left_out;           /* a sentence, or "" if everything is drawn */
    struct sweep_cell *cells; /* [budgets][makers + 1][sizes]; the last row is for any maker */
};

/* Lays a sweep out for drawing: a panel per budget, a line per maker, a point per chunk size. Of
 * more budgets, makers and sizes than can be seen, budgets and sizes are left out at equal
 * distances, and of the makers the best stay. The sweep must outlive it; sweep_grid_clear frees
 * what it holds. */
struct sweep_grid sweep_grid_new(const struct sweep_file *sweep,
                                 const struct sweep_measure *measure);
void sweep_grid_clear(struct sweep_grid *grid);

/* Appends gnuplot data. Each budget has a block for each maker, with the columns chunk size,
 * measure (NaN where it does not fit) and 1 or 0 for fits. Then each budget has a block of its
 * plans (GPtrArray of struct input_plan) in the same columns, and then a block of the bounds that
 * their certificates prove. Every block begins with a row of NaN, so that no block is empty. */
void sweep_grid_append_data(GString *data, const struct sweep_grid *grid, const GPtrArray *plans);

/* Returns the best entry with this budget, maker (grid->makers->len for any) and chunk size, all by
 * their index, or NULL if none fits. *known says whether the sweep has such entries. */
const struct sweep_file_entry *sweep_grid_best(const struct sweep_grid *grid, guint budget,
                                               guint maker, guint size, bool *known);

/* Device memory over one iteration. */
struct plot *plot_memory(const struct input_plan *plan, const struct memory *memory,
                         unsigned number);

/* Memory over a recorded step, from allocations and counters. Return NULL if nothing was recorded,
 * or if it stays the same over the step; table_host has its bytes then, too. */
struct plot *plot_allocated(const struct tracks *tracks, unsigned number);
struct plot *plot_host_measured(const struct tracks *tracks, unsigned number);

/* Non-model data of a trace that has no plan. The trace must have some. */
struct plot *plot_non_model(const struct input_trace *input, unsigned number);

/* Host slots over one iteration. The plan's pool must not be empty. Returns NULL if the chunks that
 * are only in host memory stay nearly the same; table_host has their bytes then, too. */
struct plot *plot_host(const struct input_plan *plan, const struct memory *memory, unsigned number);

/* Traffic or time by chunk size: a panel per budget, a line per policy. Plans (GPtrArray of struct
 * input_plan) are marked in the panels of their budgets, with the bounds of their certificates. */
struct plot *plot_sweep(const struct sweep_file *sweep, const struct sweep_measure *measure,
                        const GPtrArray *plans, unsigned number);

/* The time of the best step by device memory, a line per link. The sweep must know times. `faster`
 * (GPtrArray of struct sweep_file) may hold sweeps of other traces; these are ignored. */
struct plot *plot_sensitivity(const struct sweep_file *sweep, const GPtrArray *faster,
                              const GPtrArray *plans, unsigned number);

/* The best of all policies for each chunk size and budget, with the plans marked. The sweep must
 * have at least two sizes and two budgets. */
struct plot *plot_heat(const struct sweep_file *sweep, const struct sweep_measure *measure,
                       const GPtrArray *plans, unsigned number);

/* What each stage of a pipeline does when. The sweep must have passes. */
struct plot *plot_stages(const struct sweep_file *sweep, unsigned number);

/* Traffic, peak, stall and step time, predicted beside measured. There must be at least one
 * prediction. */
struct plot *plot_predicted(const GArray *predictions);

/* The loss of all runs (GPtrArray of struct logged_run) by step. There must be at least one run. */
struct plot *plot_loss(const GPtrArray *runs);

/* The time of each step of the runs, and how long it waited. NULL if no log has two steps' times.
 */
struct plot *plot_run_time(const GPtrArray *runs);

/* The time of steps as bars of compute and waiting (GPtrArray of struct breakdown). There must be
 * at least one. */
struct plot *plot_bars(const GPtrArray *breakdowns);

/* Shows how busy each resource is over the step, with one track per resource. */
struct plot *plot_busy(const struct tracks *tracks, unsigned number);

/* Rates of the copies over the step, by direction. `tracks` must know its copies. */
struct plot *plot_link(const struct tracks *tracks, unsigned number);

#endif
