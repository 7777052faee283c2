/* How strips are made of what a trace has recorded: the parts of strips_of_records. */
#ifndef PSTAR_REPORT_RECORDING_H
#define PSTAR_REPORT_RECORDING_H

#include "report/strips.h"
#include "traces/records.h"

/* A piece of the recording, ns of its clock. */
struct window {
    uint64_t start_ns, end_ns;
};

/* What is read of the recording. */
struct recording {
    const struct records *records;
    const struct activity *activity;
    const struct trace *trace; /* NULL: no iteration */
    uint32_t domain;           /* of our annotations; 0: there are none */
    struct strips *strips;
    struct window host;   /* of the iteration that is shown, as its ranges say */
    bool marked;          /* as an iteration: else it is the whole recording */
    struct window window; /* the same as the device knew it: it runs behind */
};

/* Whether the event lasts. */
bool recording_is_range(const struct record *event);

/* From the window's start, in seconds; negative before it. */
double recording_seconds(const struct recording *recording, uint64_t ns);

/* Adds a span, unless it lies outside the window. */
void recording_add_span(const struct recording *recording, enum strip strip,
                        const struct window *span, const char *name, uint8_t phase, uint64_t bytes);

/* Kernels, copies and collectives, as a profiler of the device saw them. */
void recording_add_device(const struct recording *recording);

/* Operators and copies, as the program's annotations say. */
void recording_add_annotated(const struct recording *recording);

/* When kernels were asked for, and when they ran. */
struct launch {
    uint64_t asked_ns, start_ns;
};

/* In order of asking; start_ns is the earliest of all that were asked for then or later. Empty
 * where no calls were recorded. Free with g_array_unref. */
GArray *recording_launches(const struct activity *activity);

/* When the device began with what the host asked for from `host_ns` on. */
uint64_t recording_device_time(const GArray *launches, uint64_t host_ns);

/* The phases of what the device did, by what ranges are called; where none says one, and the
 * iteration is marked, by what kernels' names and allocations tell. */
void recording_add_phases(const struct recording *recording, const GArray *launches);

#endif
