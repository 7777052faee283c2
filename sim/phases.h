/* An iteration by phase: how long, how busy each resource, what crossed the link, what the device
 * held. */
#ifndef PSTAR_SIM_PHASES_H
#define PSTAR_SIM_PHASES_H

#include "sim/timeline.h"

#include <jansson.h>

enum { PHASE_COUNT = TRACE_UPDATE_PHASE + 1 };

/* A phase lasts from the start of its first operator to the start of the next one's: what waits
 * between the two belongs to the earlier, and what the iteration's first operator waits for to the
 * last. With several micro-batches a phase is the sum of its parts. Together the phases are the
 * iteration. */
struct phase_figures {
    double seconds;
    double busy_seconds[MOVER_QUEUES]; /* of each resource, within the phase */
    double bytes[MOVER_QUEUES]; /* that crossed the link within the phase, of H2D and D2H; a copy
                                   that spans two phases counts in each for the time it ran there */
    uint64_t peak_device_bytes; /* as plan_figures has it, over the phase's operators */
};

struct phases {
    struct phase_figures of[PHASE_COUNT]; /* by enum trace_phase; all 0: the trace has none of it */
};

/* Of the iteration that the timeline shows, which must be in the steady state. Of a clock that
 * follows threads, copies still under way at its end are left out. */
struct phases phases_of(const struct timeline *timeline, const struct trace *trace);

/* A table, and a list with an object a phase, which the caller owns (docs/formats.md). */
void phases_print(const struct phases *phases, FILE *out);
json_t *phases_json(const struct phases *phases);

#endif
