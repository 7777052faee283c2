/* What a report shows, before it is a page, a text or JSON. */
#ifndef PSTAR_REPORT_CONTENTS_H
#define PSTAR_REPORT_CONTENTS_H

#include "report/figures.h"
#include "report/table.h"

/* One number that answers a question at a glance. */
struct finding {
    char *question; /* "Peak device memory" */
    char *answer;   /* "812 MiB" */
    char *detail;   /* a sentence */
};

/* What to change, and what it would bring. */
struct advice {
    char *claim;     /* a sentence: what is slow */
    char *detail;    /* sentences: what that means, and what helps */
    char *command;   /* that does it, or finds out */
    char *figure;    /* the id of the section of the page that shows it */
    double seconds;  /* of a step that are at stake; 0: it is memory that is */
    char *timeline;  /* where it is longest: the timeline that shows it; NULL: none does */
    double from, to; /* seconds in that timeline */
};

/* A figure that the files are not enough for. */
struct missing {
    const char *figure; /* its title */
    char *reason;
    char *command; /* that makes what is missing */
};

/* A plan's schedule replayed over its trace. */
struct replayed {
    const struct input_plan *plan;
    struct memory *memory;
};

struct contents {
    const struct inputs *inputs;
    GArray *replays;     /* struct replayed */
    GPtrArray *splits;   /* struct split */
    char *verdict;       /* a sentence: why the step takes as long as it does; NULL: not known */
    char *comparison;    /* a sentence: two steps side by side; NULL: there are no two */
    GPtrArray *advice;   /* struct advice, the most seconds first */
    GArray *pairs;       /* struct pair */
    GPtrArray *figures;  /* struct figure */
    GPtrArray *tables;   /* struct table */
    GPtrArray *findings; /* struct finding */
    GArray *missing;     /* struct missing */
};

/* Computes all of it; figures are not drawn yet. `inputs` outlives the result. */
struct contents *contents_new(const struct inputs *inputs);
void contents_free(struct contents *contents);

#endif
