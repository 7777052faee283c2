/* The figures of a report. Each function writes data and script of one; figure_draw draws it. All
 * results are the caller's, to figure_free. */
#ifndef PSTAR_REPORT_FIGURES_H
#define PSTAR_REPORT_FIGURES_H

#include "report/figure.h"
#include "report/inputs.h"
#include "report/memory.h"
#include "report/pairs.h"
#include "report/split.h"
#include "report/sweep_grid.h"

/* Device memory over one iteration. `number` counts the figures of this kind from 0. */
struct figure *figure_memory(const struct input_plan *plan, const struct memory *memory,
                             unsigned number);

/* Memory over a recorded step, as allocations and counters say; NULL: the recording says nothing.
 */
struct figure *figure_allocated(const struct strips *strips, unsigned number);
struct figure *figure_host_measured(const struct strips *strips, unsigned number);

/* Non-model data alone, of a trace that no plan is for; it has some. */
struct figure *figure_non_model(const struct input_trace *input, unsigned number);

/* Slots in host memory over one iteration; the plan's pool is not empty. */
struct figure *figure_host(const struct input_plan *plan, const struct memory *memory,
                           unsigned number);

/* Traffic or time by chunk size, a panel a budget, a line a policy; the plans (GPtrArray of struct
 * input_plan) marked in the panels of their budgets, with the bounds of their certificates. */
struct figure *figure_sweep(const struct sweep_file *sweep, const struct sweep_measure *measure,
                            const GPtrArray *plans, unsigned number);

/* The time of the best step over device memory, of a timed sweep and of those of `faster`
 * (GPtrArray of struct sweep_file) that are of its trace, a line a link. */
struct figure *figure_sensitivity(const struct sweep_file *sweep, const GPtrArray *faster,
                                  const GPtrArray *plans, unsigned number);

/* The best of all policies for each chunk size and budget, of which there are at least two each,
 * the plans marked. */
struct figure *figure_heat(const struct sweep_file *sweep, const struct sweep_measure *measure,
                           const GPtrArray *plans, unsigned number);

/* Traffic, peak, stall and step time, predicted beside measured; `pairs` (struct pair) is not
 * empty. */
struct figure *figure_predicted(const GArray *pairs);

/* Loss over steps of all runs (GPtrArray of struct run_log), of which there is at least one. */
struct figure *figure_loss(const GPtrArray *runs);

/* Steps, split into compute and waiting: a bar each (GPtrArray of struct split), of which there is
 * at least one. */
struct figure *figure_bars(const GPtrArray *splits);

/* Who is busy when: a strip a resource. */
struct figure *figure_busy(const struct strips *strips, unsigned number);

/* Rates of the copies over time, each direction; `strips` knows them. */
struct figure *figure_link(const struct strips *strips, unsigned number);

#endif
