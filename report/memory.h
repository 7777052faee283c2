/* Memory over one iteration: the schedule of a plan, replayed over the moments of its trace. */
#ifndef PSTAR_REPORT_MEMORY_H
#define PSTAR_REPORT_MEMORY_H

#include "chunks/plan.h"
#include "report/tracks.h"

/* The contents of memory while one operator runs. */
struct memory_moment {
    double start,
        end; /* seconds from the start of the iteration, or moments where times are unknown */
    uint64_t list_bytes[TRACE_ACCESS_LISTS]; /* device slots of resident chunks */
    uint64_t chunk_bytes;                    /* sum of list_bytes */
    uint64_t non_model_bytes;
    uint64_t
        host_slot_bytes[TRACE_ACCESS_LISTS]; /* host slots of chunks that are not on the device */
    uint64_t host_twice_bytes;               /* host slots of chunks that are also on the device */
};

/* Consecutive moments of one phase. */
struct memory_phase {
    enum trace_phase phase;
    uint32_t first, last; /* moments, both included */
};

struct memory {
    uint32_t moment_count;
    uint64_t host_pool_bytes; /* pinned: all slots, and staging */
    bool timed;               /* the trace has durations */
    bool waits;               /* times include the waiting of the device */
    const char *timed_by; /* the file whose step the times are of; NULL if they are the plan's */
    struct memory_moment *moments;              /* [moment_count] */
    GArray *phases;                             /* struct memory_phase, in order of time */
    uint32_t peak;                              /* the first moment with the most bytes */
    uint64_t h2d_bytes[TRACE_UPDATE_PHASE + 1]; /* chunk bytes, by the phase in which they move */
    uint64_t d2h_bytes[TRACE_UPDATE_PHASE + 1];
};

/* `plan` must have passed plan_check against `trace`. */
struct memory *memory_replay(const struct trace *trace, const struct plan *plan);
void memory_free(struct memory *memory);

/* Gives the moments the times of a step that ran, or was simulated, with the plan. Returns false if
 * it lacks operators; nothing changes then. */
bool memory_take_times(struct memory *memory, const struct trace *trace,
                       const struct tracks *tracks);

/* Gives the moments times that include waiting: where the plan's copies take longer than its
 * operators, stretched so that the step takes as long as the plan predicts. Does nothing if the
 * plan or the trace has no times. */
void memory_add_waits(struct memory *memory, const struct trace *trace, const struct plan *plan);

/* Returns the bytes of chunks and of non-model data. */
uint64_t memory_total(const struct memory_moment *moment);

/* Returns the phases in time (struct track_phase). Free with g_array_unref. */
GArray *memory_phases(const struct memory *memory);

/* Returns the end of the last moment. */
double memory_duration(const struct memory *memory);

#endif
