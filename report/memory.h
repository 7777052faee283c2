/* Device memory over one iteration: a plan's schedule replayed over its trace's moments. */
#ifndef PSTAR_REPORT_MEMORY_H
#define PSTAR_REPORT_MEMORY_H

#include "chunks/plan.h"
#include "report/tracks.h"

/* What is alive on the device while one operator runs. */
struct memory_moment {
    double start, end; /* seconds from the iteration's start, or moments where no time is known */
    uint64_t list_bytes[TRACE_ACCESS_LISTS]; /* slots of resident chunks */
    uint64_t chunk_bytes;                    /* their sum */
    uint64_t non_model_bytes;
    uint64_t host_slot_bytes[TRACE_ACCESS_LISTS]; /* slots in host memory of chunks that are not on
                                                the device */
    uint64_t host_twice_bytes;                    /* slots of chunks that are on the device, too */
};

/* Moments that follow each other in one phase. */
struct memory_phase {
    enum trace_phase phase;
    uint32_t first, last; /* moments, both included */
};

struct memory {
    uint32_t moment_count;
    uint64_t host_pool_bytes;                   /* pinned: all slots, and staging */
    bool timed;                                 /* the trace knows durations */
    struct memory_moment *moments;              /* [moment_count] */
    GArray *phases;                             /* struct memory_phase, in time's order */
    uint32_t peak;                              /* moment of the most bytes, the first of equals */
    uint64_t h2d_bytes[TRACE_UPDATE_PHASE + 1]; /* of chunks, by the phase that they move in */
    uint64_t d2h_bytes[TRACE_UPDATE_PHASE + 1];
};

/* `plan` must have passed plan_check against `trace`. */
struct memory *memory_replay(const struct trace *trace, const struct plan *plan);
void memory_free(struct memory *memory);

/* Chunks and non-model data together. */
uint64_t memory_total(const struct memory_moment *moment);

/* The phases in time (struct track_phase); the caller's. */
GArray *memory_phases(const struct memory *memory);

/* The end of the last moment. */
double memory_duration(const struct memory *memory);

#endif
