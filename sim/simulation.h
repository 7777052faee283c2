/* A sweep from its configurations to what people read: what pstar-sim does. */
#ifndef PSTAR_SIM_SIMULATION_H
#define PSTAR_SIM_SIMULATION_H

#include "sim/sweep.h"

struct simulation {
    const struct trace *trace;
    const char *trace_path; /* how the trace was named */
    struct sweep_options sweep;

    /* Files to write; NULL: none. The last two are of the best configuration. */
    const char *json, *csv, *emit_plan, *timeline;
    uint32_t stalls; /* of the best: how many of its longest are printed */
    bool fits;       /* print how well the platform's copies fit latency and rate */
};

/* Returns whether something is asked of the best configuration, which takes one budget. */
bool simulation_looks_at_best(const struct simulation *simulation);

/* Sweeps, prints the table and what is asked beside it to standard output, and writes the files.
 * Phases are printed if the sweep has them. Fails with a marked error (traces/failure.h) if a file
 * cannot be written, if the sweep was stopped, or if nothing fits; with PLAN_ERROR_INVALID if a
 * policy gave a wrong answer. */
bool simulation_run(const struct simulation *simulation, GError **error);

#endif
