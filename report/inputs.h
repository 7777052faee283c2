/* The files of a report. Each file is recognised by its contents. */
#ifndef PSTAR_REPORT_INPUTS_H
#define PSTAR_REPORT_INPUTS_H

#include "chunks/objective.h"
#include "platforms/platform.h"
#include "report/configuration.h"
#include "report/tracks.h"
#include "traces/gathers.h"
#include "traces/trace.h"

struct run_step {
    uint64_t step;
    double loss;      /* NAN if a diverged run logged no number */
    double eval_loss; /* NAN if no evaluation followed the step */
    bool counted;     /* the log has the figures of this step */
    struct plan_figures figures;
};

struct logged_run {
    char *origin;           /* the name of the file */
    char *model;            /* may be NULL */
    char *precision;        /* may be NULL */
    double unigram_entropy; /* of the text, in nats per token, as the loss; NAN if unknown */
    struct configuration configuration;
    double link_rate[2]; /* of --link, H2D and D2H, bytes per second; 0 if it was not given */
    GArray *steps;       /* struct run_step, in the order of the file; at least one */
    guint part; /* the first of the steps of the last run, which has gone on from another one */
    bool cut;   /* the last line is incomplete: the run was killed or is still going on */
};

/* Reads a log that pstar-run --log wrote: JSON lines, one object per step. Objects without a "step"
 * (a header) state the configuration. Errors (REPORT_ERROR_INPUT) name the file, the line and the
 * reason. */
struct logged_run *run_log_read(const char *path, GError **error);
void run_log_free(struct logged_run *log);

/* Computes the figures of an iteration in the steady state (from the third step on): counts come
 * from the last step, times are medians. *steady, which may be NULL, says whether all these steps
 * count the same. Returns false if the log has no figures. */
bool run_log_measured(const struct logged_run *log, struct plan_figures *figures, bool *steady);

/* Computes the 5 % and 95 % quantiles of the times in the steady state. All other figures are 0. */
void run_log_range(const struct logged_run *log, struct plan_figures *low,
                   struct plan_figures *high);

struct sweep_file_entry {
    struct configuration configuration;
    bool fits;
    struct plan_figures figures; /* zeros where it does not fit */
    struct track_sums *phases;   /* [TRACK_NO_PHASE], by phase; may be NULL */
};

/* A forward, a backward or the updates of a stage of a pipeline. */
struct drawn_pass {
    uint32_t stage, micro_batch;
    double start, end; /* seconds from the start of the step */
    uint8_t phase;     /* enum trace_phase */
};

struct sweep_file {
    char *origin;             /* the name of the file */
    char *trace, *platform;   /* as the file names them; may be NULL */
    double link_rate[2];      /* H2D and D2H, bytes per second; 0 if unknown */
    char *link;               /* as --link gave it; "" if it was not given, NULL if unknown */
    enum objective objective; /* by which it was ranked */
    GArray *entries;          /* struct sweep_file_entry, in the order of the file */
    GArray *passes;           /* struct drawn_pass, of the best entry; empty if it is no pipeline */
    uint32_t stages;          /* of a pipeline; 0 if it is none */
};

/* Reads a sweep that pstar-sim --json wrote. `root` is the JSON of the file. Errors
 * (REPORT_ERROR_INPUT) name the file, the entry and the key. */
struct sweep_file *sweep_file_read(const json_t *root, const char *origin, GError **error);
void sweep_file_free(struct sweep_file *sweep);

/* Returns whether both are sweeps of one trace and the first has the slower link. */
bool sweep_file_is_slower(const struct sweep_file *sweep, const struct sweep_file *than);

/* Returns the fastest entry that fits, has this budget and this maker (NULL for any), and knows its
 * time. May return NULL. */
const struct sweep_file_entry *sweep_file_fastest(const struct sweep_file *sweep,
                                                  uint64_t device_budget, const char *maker);

/* Returns the best entry that fits and has this budget (0 for any) and this maker (NULL for any).
 * Of equal entries the first is returned. May return NULL. */
const struct sweep_file_entry *sweep_file_best(const struct sweep_file *sweep,
                                               enum objective objective, uint64_t device_budget,
                                               const char *maker);

/* Return the distinct budgets and chunk sizes (uint64_t, ascending), and the distinct makers in
 * order of appearance (const char *, owned by the sweep). Free with g_array_unref and
 * g_ptr_array_unref. */
GArray *sweep_file_budgets(const struct sweep_file *sweep);
GArray *sweep_file_sizes(const struct sweep_file *sweep);
GPtrArray *sweep_file_makers(const struct sweep_file *sweep);

struct input_trace {
    char *path;
    char *digest;
    struct trace *trace;
    struct gathers *gathers; /* of one of several ranks that was recorded; may be NULL */
};

struct input_plan {
    char *path;
    struct plan *plan;
    struct configuration configuration;
    const struct input_trace
        *trace; /* the trace that the plan was made for; NULL if no file has it */
    struct input_trace
        *derived; /* owns `trace` where it was derived from a trace of the same model */
};

struct report_inputs {
    GPtrArray *traces;         /* struct input_trace */
    GPtrArray *plans;          /* struct input_plan */
    GPtrArray *sweeps;         /* struct sweep_file */
    GPtrArray *faster;         /* struct sweep_file, with a faster link than in `sweeps` */
    GPtrArray *runs;           /* struct logged_run */
    GPtrArray *tracks;         /* struct tracks, of timelines and of recordings */
    struct platform *platform; /* the last one given; may be NULL */
    char *platform_path;
};

/* Reads all files; NULL ends the list. Each plan is matched with the trace of its digest, or with a
 * trace that its choices derive from one of the same model. A plan that cannot be executed over the
 * trace of its digest is an error, and so is one of another step than all files (inputs_match). A
 * recording without an iteration appears in `tracks` only. Errors (REPORT_ERROR_INPUT, TRACE_ERROR,
 * PLAN_ERROR) name the file, the place and the reason. */
struct report_inputs *inputs_read(const char *const *paths, GError **error);

/* Returns the trace that these tracks were recorded in, or NULL if they come from a timeline or the
 * trace has no iteration. */
const struct input_trace *inputs_trace_of(const struct report_inputs *inputs,
                                          const struct tracks *tracks);

/* Checks that each plan without its trace is of the model, precision, batch and sequence of a trace
 * or timeline, and that each run log is of the model of one of these or of a plan. What a file does
 * not say matches everything. Called by inputs_read. Errors (REPORT_ERROR_INPUT) name both files.
 */
bool inputs_match(const struct report_inputs *inputs, GError **error);

/* Names the copies of recordings by their chunks and tensors, where they carry the bytes of a
 * plan's copies in the plan's order. Called by inputs_read. */
void inputs_name_copies(const struct report_inputs *inputs);

void inputs_free(struct report_inputs *inputs);

#endif
