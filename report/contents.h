/* The contents of a report, before it is written as a page, as text or as JSON. */
#ifndef PSTAR_REPORT_CONTENTS_H
#define PSTAR_REPORT_CONTENTS_H

#include "report/inputs.h"
#include "report/plots.h"
#include "report/text.h"

/* One number that answers a question at a glance. */
struct highlight {
    char *question; /* "Peak device memory" */
    char *answer;   /* "812 MiB" */
    char *detail;   /* one sentence */
};

/* A suggested change, and its expected benefit. */
struct advice {
    char *claim;     /* one sentence that names what is slow */
    char *detail;    /* sentences that explain it and say what helps */
    char *command;   /* a command line that applies the change or investigates further, or NULL */
    char *plot;      /* the id of the section of the page that shows it */
    double seconds;  /* the part of the step that could be saved; 0 for advice about memory */
    char *timeline;  /* the timeline that shows the longest wait; may be NULL */
    double from, to; /* seconds in that timeline */
};

/* A figure that the given files are not enough for. */
struct missing {
    const char *plot; /* the title of the figure */
    char *reason;
    char *command; /* a command line that makes the missing file, or NULL */
};

/* A plan's schedule replayed over its trace. */
struct replayed {
    const struct input_plan *plan;
    struct memory *memory;
};

struct contents {
    const struct report_inputs *inputs;
    GArray *replays;       /* struct replayed */
    GPtrArray *breakdowns; /* struct breakdown */
    char *verdict;         /* one sentence: why the step takes this long; may be NULL */
    char *comparison;      /* one sentence about two steps; may be NULL */
    GPtrArray *advice;     /* struct advice, the largest saving first */
    GArray *predictions;   /* struct prediction */
    GPtrArray *plots;      /* struct plot */
    GPtrArray *tables;     /* struct text_table */
    GPtrArray *highlights; /* struct highlight */
    GArray *missing;       /* struct missing */
};

/* Computes everything but draws no plots yet. `inputs` must outlive the result. */
struct contents *contents_new(const struct report_inputs *inputs);
void contents_free(struct contents *contents);

/* Add the highlights, and what is missing with the command that makes it. */
void highlights_add(struct contents *contents);
void missing_add(struct contents *contents);

/* Adds the verdict and all advice that follows from the inputs and the replays. */
void advice_add(struct contents *contents);

/* Add the advice about plans and sweeps, and about hardware. */
void advice_add_choices(struct contents *contents);
void advice_add_hardware(struct contents *contents);

/* Returns whether the plan is what the newest run did already. */
bool advice_has_run(const struct contents *contents, const struct configuration *configuration);

/* Returns whether the first trace is of PyTorch, whose users take settings of DeepSpeed or FSDP. */
bool advice_is_torch(const struct report_inputs *inputs);

/* Returns the command that plans, with settings for PyTorch if the trace is of PyTorch, or NULL if
 * a plan is given already or no trace to plan for. Free with g_free. */
char *advice_plan_command(const struct contents *contents, uint64_t device_budget);

/* Returns how much less `less` is than `more`, as "12 %". Free with g_free. */
char *advice_gain(double less, double more);

/* Adds one piece of advice and takes ownership of claim, detail and command. The result may be
 * changed until the next call. */
struct advice *advice_append(struct contents *contents, double seconds, const char *plot,
                             char *claim, char *detail, char *command);

/* Returns whether the files are about the stages of a pipeline. No command is printed for them:
 * what pstar-sim takes differs from one trace of all stages to a trace of each, and pstar-plan
 * takes the traces of stages not at all. */
bool command_is_pipeline(const struct report_inputs *inputs);

/* Returns the trace's file, quoted for a shell: a given one, or the sweep's, if it is there. NULL
 * if commands have no trace, or are about a pipeline. Free with g_free. */
char *command_trace(const struct report_inputs *inputs);

/* Returns the options that say on what machine the step ran: "--device-memory 40MiB --platform
 * a100.json", --host-memory and --link if they were not the platform's, and --gpus, --nodes and
 * --stage unless one rank took it. `device_budget` 0 stands for that of the step, or 50% if no file
 * states it. The second function takes a link [H2D, D2H, bytes per second] that replaces that of
 * the step. Free with g_free. */
char *command_machine(const struct report_inputs *inputs, uint64_t device_budget);
char *command_machine_with_link(const struct report_inputs *inputs, uint64_t device_budget,
                                const double *rates);

/* Returns the commands for sweeps of two budgets and of two links. Free with g_free. */
char *command_sensitivity(const struct report_inputs *inputs, const char *trace);

/* Make the tables of a report. The first describes the runs, with one row per property and one
 * column per trace. Each function returns NULL if the files have nothing to show. Free tables with
 * table_free. */
struct text_table *table_configuration(const struct report_inputs *inputs);

/* Operators and times of one trace, by phase. */
struct text_table *table_phases(const struct input_trace *trace);

/* The device's operators of one trace that take the most time, with their share of the machine's
 * peak; and the kernels of a recorded step. NULL if there are none. */
struct text_table *table_operators(const struct report_inputs *inputs,
                                   const struct input_trace *input);
struct text_table *table_kernels(const struct report_inputs *inputs, const struct tracks *tracks);

/* Time and busy shares of one step, by phase. */
struct text_table *table_busy(const struct tracks *tracks);

/* Two steps side by side; see compare_steps. */
struct text_table *table_compare(const struct report_inputs *inputs);

/* The operators whose time differs most between these two steps. */
struct text_table *table_compare_operators(const struct report_inputs *inputs);

/* Bytes of chunks that cross the link under a plan, by phase. */
struct text_table *table_phase_traffic(const struct replayed *replayed);

/* Peaks of each kind of memory, for every plan and run. */
struct text_table *table_peaks(const struct contents *contents);

/* Host memory by kind: the slots of each plan's pinned pool by list, and what recordings counted.
 */
struct text_table *table_host(const struct contents *contents);

/* Traffic per iteration, for every plan and run. */
struct text_table *table_traffic(const struct report_inputs *inputs);

/* Who waits for whom, if there are the traces of all ranks of a run; otherwise NULL. */
struct text_table *table_ranks(const struct report_inputs *inputs);

/* The chunk size with the least traffic, for each budget and policy. */
struct text_table *table_best(const struct sweep_file *sweep);

/* All figures of one prediction. */
struct text_table *table_prediction(const struct prediction *prediction);

#endif
