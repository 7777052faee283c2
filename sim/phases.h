/* An iteration by phase: its duration, how busy each resource is, the bytes over the link, and the
 * peak of device memory. */
#ifndef PSTAR_SIM_PHASES_H
#define PSTAR_SIM_PHASES_H

#include "sim/timeline.h"

#include <jansson.h>

enum { PHASE_COUNT = TRACE_UPDATE_PHASE + 1 };

/* A phase lasts from the start of its first operator to the start of the next phase's first. A wait
 * between the two belongs to the earlier phase, the wait of the iteration's first operator to the
 * last. With several micro-batches a phase is the sum of its parts. The phases sum to the
 * iteration. */
struct phase_figures {
    double seconds;
    double busy_seconds[MOVER_QUEUES]; /* by resource, within the phase */
    uint64_t bytes[MOVER_QUEUES]; /* over the link within the phase, in H2D and D2H, and received
                                   from other ranks; a copy that spans two phases counts in each by
                                   its time there */
    uint64_t peak_device_bytes;   /* as in plan_figures, over the phase's operators */
};

struct phases {
    struct phase_figures
        of[PHASE_COUNT]; /* by enum trace_phase; all 0 if the trace has no such phase */
};

/* Returns the phases of the iteration that the timeline shows, which must be in the steady
 * state. */
struct phases phases_of(const struct timeline *timeline, const struct trace *trace);

/* Prints a table, with the network if anything crosses it; returns a list with one object per
 * phase, which the caller owns (docs/formats.md). */
void phases_print(const struct phases *phases, FILE *out);
json_t *phases_json(const struct phases *phases);

#endif
