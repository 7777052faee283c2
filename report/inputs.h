/* A run log: what pstar-run --log wrote, JSON lines, an object a step. */
#ifndef PSTAR_REPORT_INPUTS_H
#define PSTAR_REPORT_INPUTS_H

#include "platforms/platform.h"
#include "report/configuration.h"
#include "report/tracks.h"
#include "traces/trace.h"

struct run_step {
    uint64_t step;
    double loss;      /* NAN: not a number, as a diverged run logs it */
    double eval_loss; /* NAN: no evaluation followed the step */
    bool counted;     /* the figures were there */
    struct plan_figures figures;
};

struct logged_run {
    char *origin;           /* the file's name */
    char *model;            /* NULL: not said */
    char *precision;        /* NULL: not said */
    double unigram_entropy; /* of the text, in nats a token, as the loss is; NAN: not said */
    struct configuration configuration;
    GArray *steps; /* struct run_step, in the order of the file; at least one */
    bool cut;      /* the last line was incomplete: a run killed, or still going on */
};

/* Objects without a "step" (a header) say the configuration. Errors (REPORT_ERROR_INPUT) name file,
 * line and reason. */
struct logged_run *run_log_read(const char *path, GError **error);
void run_log_free(struct logged_run *log);

/* An iteration's figures in the steady state, the third step and later: counts of the last step,
 * medians of the times. *steady (may be NULL): whether all of these steps count the same. False
 * where the log has none. */
bool run_log_measured(const struct logged_run *log, struct plan_figures *figures, bool *steady);

/* The times between which nine of ten steps of the steady state lie; all else is 0. */
void run_log_range(const struct logged_run *log, struct plan_figures *low,
                   struct plan_figures *high);

struct sweep_file_entry {
    struct configuration configuration;
    bool fits;
    struct plan_figures figures; /* zeros where it does not fit */
    struct track_sums *phases;   /* [TRACK_NO_PHASE], by phase; NULL: not said */
};

struct sweep_file {
    char *origin;        /* the file's name */
    char *trace;         /* as the file names it; NULL: not said */
    double link_rate[2]; /* H2D, D2H, bytes a second; 0: not said */
    GArray *entries;     /* struct sweep_file_entry, in the order of the file */
};

/* `root` is the file's JSON. Errors (REPORT_ERROR_INPUT) name file, entry and key. */
struct sweep_file *sweep_file_read(const json_t *root, const char *origin, GError **error);
void sweep_file_free(struct sweep_file *sweep);

/* Whether both are of one trace, the first with a slower link than the other. */
bool sweep_file_is_slower(const struct sweep_file *sweep, const struct sweep_file *than);

/* Of the entries that fit, with this budget and maker (NULL: any), the fastest; NULL: none that
 * knows its time. */
const struct sweep_file_entry *sweep_file_fastest(const struct sweep_file *sweep,
                                                  uint64_t device_budget, const char *maker);

/* Of the entries that fit, with this budget (0: any) and maker (NULL: any), the one of least
 * traffic, the first of equals; NULL: none. */
const struct sweep_file_entry *sweep_file_best(const struct sweep_file *sweep,
                                               uint64_t device_budget, const char *maker);

/* The different budgets and chunk sizes, ascending (uint64_t), and the different makers in order of
 * appearance (const char *, the sweep's). Free with g_array_unref and g_ptr_array_unref. */
GArray *sweep_file_budgets(const struct sweep_file *sweep);
GArray *sweep_file_sizes(const struct sweep_file *sweep);
GPtrArray *sweep_file_makers(const struct sweep_file *sweep);

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

struct report_inputs {
    GPtrArray *traces;         /* struct input_trace */
    GPtrArray *plans;          /* struct input_plan */
    GPtrArray *sweeps;         /* struct sweep_file */
    GPtrArray *faster;         /* the same, of a trace of `sweeps` with a faster link */
    GPtrArray *runs;           /* struct logged_run */
    GPtrArray *tracks;         /* struct tracks: of timelines, and of what traces have recorded */
    struct platform *platform; /* the last that was given; NULL: none */
    char *platform_path;
};

/* A trace of a program that annotated no iteration is among `tracks` alone. Reads all files (NULL
 * ends them) and pairs plans with traces by digest, those that their choices make of a
 * trace included. A plan that names a trace by digest and cannot
 * be executed over it is an error. Errors (REPORT_ERROR_INPUT, TRACE_ERROR, PLAN_ERROR) name the
 * file, the place and the reason. */
struct report_inputs *inputs_read(const char *const *paths, GError **error);

/* The trace that has recorded the tracks; NULL: they are of a timeline, or it has no iteration. */
const struct input_trace *inputs_trace_of(const struct report_inputs *inputs,
                                          const struct tracks *tracks);

void inputs_free(struct report_inputs *inputs);

#endif
