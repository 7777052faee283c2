/* What a report shows, before it is a page, a text or JSON. */
#ifndef PSTAR_REPORT_CONTENTS_H
#define PSTAR_REPORT_CONTENTS_H

#include "report/inputs.h"
#include "report/plots.h"
#include "report/text.h"

/* One number that answers a question at a glance. */
struct highlight {
    char *question; /* "Peak device memory" */
    char *answer;   /* "812 MiB" */
    char *detail;   /* a sentence */
};

/* What to change, and what it would bring. */
struct advice {
    char *claim;     /* a sentence: what is slow */
    char *detail;    /* sentences: what that means, and what helps */
    char *command;   /* that does it, or finds out */
    char *plot;      /* the id of the section of the page that shows it */
    double seconds;  /* of a step that are at stake; 0: it is memory that is */
    char *timeline;  /* where it is longest: the timeline that shows it; NULL: none does */
    double from, to; /* seconds in that timeline */
};

/* A figure that the files are not enough for. */
struct missing {
    const char *plot; /* its title */
    char *reason;
    char *command; /* that makes what is missing */
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
    char *verdict;         /* a sentence: why the step takes as long as it does; NULL: not known */
    char *comparison;      /* a sentence: two steps side by side; NULL: there are no two */
    GPtrArray *advice;     /* struct advice, the most seconds first */
    GArray *predictions;   /* struct prediction */
    GPtrArray *plots;      /* struct plot */
    GPtrArray *tables;     /* struct text_table */
    GPtrArray *highlights; /* struct highlight */
    GArray *missing;       /* struct missing */
};

/* Computes all of it; figures are not drawn yet. `inputs` outlives the result. */
struct contents *contents_new(const struct report_inputs *inputs);
void contents_free(struct contents *contents);

/* Adds what can be said from the inputs, the replays and the pairs; and what cannot, with the
 * command that would make it possible. */
void highlights_add(struct contents *contents);
void missing_add(struct contents *contents);

/* Adds the verdict and all advice that can be given from the inputs and the replays. */
void advice_add(struct contents *contents);

/* Its parts: of plans and sweeps; of what to buy. */
void advice_add_choices(struct contents *contents);
void advice_add_hardware(struct contents *contents);

/* How much less time or traffic, in words: "12 %". Free with g_free. */
char *advice_gain(double less, double more);

/* Adds one, which may be completed until the next is; takes claim, detail and command over. */
struct advice *advice_append(struct contents *contents, double seconds, const char *plot,
                             char *claim, char *detail, char *command);

/* The name of a file as a command line takes it: one of the files, or the name that it would
 * have. */
char *command_platform(const struct report_inputs *inputs);
char *command_trace(const struct report_inputs *inputs);
char *command_plan(const struct report_inputs *inputs);

/* The device memory of the files, where they agree on one: "131608576"; else "SIZE". */
char *command_memory(const struct report_inputs *inputs);

/* What ran: a row a property, a column a trace. */
struct text_table *table_configuration(const struct report_inputs *inputs);

/* Operators and times by phase of one trace. */
struct text_table *table_phases(const struct input_trace *trace);

/* Time and busy shares by phase of one step. */
struct text_table *table_busy(const struct tracks *tracks);

/* The first two steps that traces have recorded, side by side: what got faster, what moved more. */
struct text_table *table_compare(const struct report_inputs *inputs);

/* Operators of the two whose time differs most. */
struct text_table *table_compare_operators(const struct report_inputs *inputs);

/* Bytes over the link by phase, of chunks, under a plan. */
struct text_table *table_phase_traffic(const struct replayed *replayed);

/* Peaks by memory of every plan and run. */
struct text_table *table_peaks(const struct contents *contents);

/* Traffic an iteration of every plan and run. */
struct text_table *table_traffic(const struct report_inputs *inputs);

/* For each budget and policy the chunk size of least traffic. */
struct text_table *table_best(const struct sweep_file *sweep);

/* All figures of one pair. */
struct text_table *table_prediction(const struct prediction *prediction);

#endif
