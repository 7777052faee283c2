/* What a trace comes to, for people and for programs. */
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
    uint64_t model_bytes; /* their sum */
    uint64_t duration_ns; /* of all operators */
    uint64_t flops;
    uint64_t non_model_peak_bytes;
    uint32_t non_model_peak_moment; /* the first that reaches it */
    uint32_t unknown_durations;     /* operators */
    uint32_t longest[SUMMARY_LONGEST];
    uint32_t
        longest_count;  /* moments in it, the longest first; those of unknown duration are out */
    GArray *iterations; /* of struct summary_iteration: those that were recorded */
    struct activity_summary *activity; /* NULL: none was recorded */
    GPtrArray *missing;                /* of char *: what this trace cannot tell, a sentence each */
};

struct summary_iteration {
    uint64_t step;
    uint64_t duration_ns; /* from its beginning to its end, waiting included */
};

/* Whether an event is the range around an iteration. */
bool summary_is_iteration(const struct records *records, const struct record *event);

/* Those that were recorded: of struct summary_iteration, the array is the caller's. Their table,
 * and a list for programs. */
GArray *summary_iterations(const struct records *records);
void summary_print_iterations(const GArray *iterations, FILE *out);
json_t *summary_iterations_json(const GArray *iterations);

/* `records` and `activity` (of which ACTIVITY_SUMMARY_PARTS are read) may hold nothing; they
 * outlive the summary. Free with summary_free. */
struct summary *summary_new(const struct trace *trace, const struct records *records,
                            const struct activity *activity);
void summary_free(struct summary *summary);

/* A table. */
void summary_print(const struct summary *summary, const struct trace *trace,
                   const struct records *records, const char *path, FILE *out);

/* "1.234 ms": in the unit in which it has one to three digits before the point. Free with g_free.
 */
char *summary_format_time(uint64_t ns);

/* One object, described in docs/formats.md. The caller owns the reference. */
json_t *summary_to_json(const struct summary *summary, const struct trace *trace,
                        const struct records *records, const struct activity *activity,
                        const char *path);

#endif
