/* Runs pstar-sim: a sweep, from its configurations to its tables and files. */
#ifndef PSTAR_SIM_SIMULATION_H
#define PSTAR_SIM_SIMULATION_H

#include "sim/stage_sweep.h"
#include "sim/sweep.h"

struct simulation {
    const struct trace *trace;
    const char *trace_path;           /* how the trace was named */
    const struct stage_sweep *stages; /* of a pipeline; NULL. Then `trace` is that of stage 0 */
    const char *platform_path;        /* how the platform was named; may be NULL */
    struct sweep_options sweep;

    /* Files to write; each may be NULL. The last two are of the best configuration. */
    const char *json, *csv, *emit_plan, *timeline;
    uint32_t top;    /* how many rows of a budget are printed, or SWEEP_ALL */
    uint32_t stalls; /* of the best: how many of its longest are printed */
    bool fits;       /* print how well the platform's copies fit latency and rate */
};

/* Returns whether a result for the best configuration is requested. Such a request allows only one
 * budget. */
bool simulation_looks_at_best(const struct simulation *simulation);

/* Runs the sweep, prints the table and the other requested results to standard output, and writes
 * the files. Phases are printed if the sweep has them. Fails with a marked error (base/failure.h)
 * if a file cannot be written, if the sweep was stopped, or if nothing fits; with
 * PLAN_ERROR_INVALID if a policy gave a wrong answer. */
bool simulation_run(const struct simulation *simulation, GError **error);

#endif
