/* A run log: what pstar-run --log wrote, JSON lines, an object a step. */
#ifndef PSTAR_REPORT_RUN_LOG_H
#define PSTAR_REPORT_RUN_LOG_H

#include "report/configuration.h"

struct run_step {
    uint64_t step;
    double loss;      /* NAN: not a number, as a diverged run logs it */
    double eval_loss; /* NAN: no evaluation followed the step */
    bool counted;     /* the figures were there */
    struct plan_figures figures;
};

struct run_log {
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
struct run_log *run_log_read(const char *path, GError **error);
void run_log_free(struct run_log *log);

/* An iteration's figures in the steady state, the third step and later: counts of the last step,
 * medians of the times. *steady (may be NULL): whether all of these steps count the same. False
 * where the log has none. */
bool run_log_measured(const struct run_log *log, struct plan_figures *figures, bool *steady);

/* The times between which nine of ten steps of the steady state lie; all else is 0. */
void run_log_range(const struct run_log *log, struct plan_figures *low, struct plan_figures *high);

#endif
