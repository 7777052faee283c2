/* A sweep laid out for drawing: a panel a budget, a line a maker, a point a chunk size. */
#ifndef PSTAR_REPORT_PLOTS_H
#define PSTAR_REPORT_PLOTS_H

#include "report/analysis.h"
#include "report/inputs.h"
#include "report/memory.h"
#include "report/plot.h"

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

/* Device memory over one iteration. `number` counts the figures of this kind from 0. */
struct plot *plot_memory(const struct input_plan *plan, const struct memory *memory,
                         unsigned number);

/* Memory over a recorded step, as allocations and counters say; NULL: the recording says nothing.
 */
struct plot *plot_allocated(const struct tracks *tracks, unsigned number);
struct plot *plot_host_measured(const struct tracks *tracks, unsigned number);

/* Non-model data alone, of a trace that no plan is for; it has some. */
struct plot *plot_non_model(const struct input_trace *input, unsigned number);

/* Slots in host memory over one iteration; the plan's pool is not empty. */
struct plot *plot_host(const struct input_plan *plan, const struct memory *memory, unsigned number);

/* Traffic or time by chunk size, a panel a budget, a line a policy; the plans (GPtrArray of struct
 * input_plan) marked in the panels of their budgets, with the bounds of their certificates. */
struct plot *plot_sweep(const struct sweep_file *sweep, const struct sweep_measure *measure,
                        const GPtrArray *plans, unsigned number);

/* The time of the best step over device memory, of a timed sweep and of those of `faster`
 * (GPtrArray of struct sweep_file) that are of its trace, a line a link. */
struct plot *plot_sensitivity(const struct sweep_file *sweep, const GPtrArray *faster,
                              const GPtrArray *plans, unsigned number);

/* The best of all policies for each chunk size and budget, of which there are at least two each,
 * the plans marked. */
struct plot *plot_heat(const struct sweep_file *sweep, const struct sweep_measure *measure,
                       const GPtrArray *plans, unsigned number);

/* Traffic, peak, stall and step time, predicted beside measured; `pairs` (struct prediction) is not
 * empty. */
struct plot *plot_predicted(const GArray *predictions);

/* Loss over steps of all runs (GPtrArray of struct logged_run), of which there is at least one. */
struct plot *plot_loss(const GPtrArray *runs);

/* Steps, split into compute and waiting: a bar each (GPtrArray of struct breakdown), of which there
 * is at least one. */
struct plot *plot_bars(const GPtrArray *breakdowns);

/* Who is busy when: a track a resource. */
struct plot *plot_busy(const struct tracks *tracks, unsigned number);

/* Rates of the copies over time, each direction; `tracks` knows them. */
struct plot *plot_link(const struct tracks *tracks, unsigned number);

#endif
