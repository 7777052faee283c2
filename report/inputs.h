/* The files of a report, each recognised by what is in it. */
#ifndef PSTAR_REPORT_INPUTS_H
#define PSTAR_REPORT_INPUTS_H

#include "platforms/platform.h"
#include "report/run_log.h"
#include "report/strips.h"
#include "report/sweep_file.h"
#include "traces/trace.h"

struct input_trace {
    char *path;
    char *digest;
    struct trace *trace;
};

struct input_plan {
    char *path;
    struct plan *plan;
    struct configuration configuration;
    const struct input_trace *trace; /* the one it was made for; NULL: not among the files */
    struct input_trace *derived;     /* that one, where no file has it but one of the same model */
};

struct inputs {
    GPtrArray *traces;         /* struct input_trace */
    GPtrArray *plans;          /* struct input_plan */
    GPtrArray *sweeps;         /* struct sweep_file */
    GPtrArray *faster;         /* the same, of a trace of `sweeps` with a faster link */
    GPtrArray *runs;           /* struct run_log */
    GPtrArray *strips;         /* struct strips: of timelines, and of what traces have recorded */
    struct platform *platform; /* the last that was given; NULL: none */
    char *platform_path;
};

/* A trace of a program that annotated no iteration is among `strips` alone. Reads all files (NULL
 * ends them) and pairs plans with traces by digest, those that their choices make of a
 * trace included. A plan that names a trace by digest and cannot
 * be executed over it is an error. Errors (REPORT_ERROR_INPUT, TRACE_ERROR, PLAN_ERROR) name the
 * file, the place and the reason. */
struct inputs *inputs_read(const char *const *paths, GError **error);

/* The trace that has recorded the strips; NULL: they are of a timeline, or it has no iteration. */
const struct input_trace *inputs_trace_of(const struct inputs *inputs, const struct strips *strips);

void inputs_free(struct inputs *inputs);

#endif
