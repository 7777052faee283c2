/* Summarises a trace for people (a table) and for programs (JSON). */
#ifndef PSTAR_TRACES_SUMMARY_H
#define PSTAR_TRACES_SUMMARY_H

#include "traces/activity/activity_summary.h"
#include "traces/records.h"
#include "traces/trace.h"

#include <jansson.h>
#include <stdio.h>

enum { SUMMARY_LONGEST = 10 };

struct summary {
    struct {
        uint32_t operators;
        uint64_t duration_ns;
    } phases[TRACE_UPDATE_PHASE + 1];
    uint64_t list_bytes[TRACE_LISTS];
    uint64_t model_bytes; /* sum of list_bytes */
    uint64_t duration_ns; /* sum over all operators */
    uint64_t flops;
    uint64_t non_model_peak_bytes;
    uint32_t non_model_peak_moment; /* the first moment that reaches the peak */
    uint32_t unknown_durations;     /* number of operators without a duration */
    uint32_t longest[SUMMARY_LONGEST];
    uint32_t longest_count; /* number of moments in `longest`, which is ordered by falling duration
                               and leaves out unknown ones */
    GArray *iterations;     /* struct summary_iteration, the recorded iterations */
    struct activity_summary *activity; /* NULL if none was recorded */
    GPtrArray *missing; /* char *, one sentence for each thing that this trace cannot tell */
};

struct summary_iteration {
    uint64_t step;
    uint64_t duration_ns; /* from begin to end, including waits */
};

/* Returns whether an event is the range around an iteration. */
bool summary_is_iteration(const struct records *records, const struct record *event);

/* Returns the recorded iterations (struct summary_iteration). The caller owns the array.
 * summary_print_iterations prints them as a table, summary_iterations_json lists them for programs.
 */
GArray *summary_iterations(const struct records *records);
void summary_print_iterations(const GArray *iterations, FILE *out);
json_t *summary_iterations_json(const GArray *iterations);

/* Summarises a trace. `records` and `activity` (read with ACTIVITY_SUMMARY_PARTS) may be empty;
 * they must outlive the summary. Free with summary_free. */
struct summary *summary_new(const struct trace *trace, const struct records *records,
                            const struct activity *activity);
void summary_free(struct summary *summary);

/* Prints the summary as a table. */
void summary_print(const struct summary *summary, const struct trace *trace,
                   const struct records *records, const char *path, FILE *out);

/* Formats a time as "1.234 ms", in the unit that leaves one to three digits before the point. Free
 * with g_free. */
char *summary_format_time(uint64_t ns);

/* Returns the object that docs/formats.md describes. The caller owns the reference. */
json_t *summary_to_json(const struct summary *summary, const struct trace *trace,
                        const struct records *records, const struct activity *activity,
                        const char *path);

#endif
