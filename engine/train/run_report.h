/* Writes the log of a run, and prints the results of pstar-run. */
#ifndef PSTAR_ENGINE_TRAIN_RUN_REPORT_H
#define PSTAR_ENGINE_TRAIN_RUN_REPORT_H

#include "chunks/plan.h"
#include "engine/ranks.h"
#include "engine/train/run_plan.h"
#include "engine/train/stage_report.h"

#include <jansson.h>

/* The log of a run: one JSON object a step and line.
 *
 *   step              of training, from 1: the number of steps done
 *   loss              mean over the step's targets that count, before its update
 *   targets           how many those are; absent if all count
 *   gradient_norm     before clipping
 *   skipped           true if the gradient was not finite, so nothing was updated; else absent
 *   weights_version   how many updates made the weights that the micro-batches read
 *   learning_rate     of the step's update
 *   tokens_per_second
 *   h2d_bytes ... iteration_seconds: the step's struct plan_figures, as measured
 *   eval_loss         if an evaluation followed the step
 *
 * The first line also says what the run is: model, precision, batch, sequence, micro_batches,
 * made_by, digest, chunk_bytes, device_memory_bytes, look_ahead of its plan, ranks if there are
 * several, library_bytes, which the driver and libraries hold of the device's memory and which are
 * part of device_memory_bytes, and unigram_entropy of its text, in nats as the loss is.
 */
struct run_log_entry {
    uint64_t step;
    double loss, gradient_norm, learning_rate, tokens_per_second;
    uint64_t version;
    struct plan_figures figures;
    double eval_loss; /* NaN: none */
    bool skipped;     /* the gradient was not finite: nothing was updated */
    int64_t targets;  /* of the step that count; -1 if the data have no mask */
};

struct run_log;

/* Opens the log. A run that begins replaces the file. One that goes on after `done` steps keeps the
 * lines of these steps, and removes those that follow, because it does their steps again; what is
 * no log is replaced, too. If `path` is NULL, nothing is written. Errors name the file. */
struct run_log *run_log_open(const char *path, uint64_t done, GError **error);
/* Sets what the first line says besides its step. */
void run_log_describe(struct run_log *log, const struct plan *plan, uint64_t library_bytes,
                      double unigram_entropy);
/* Adds the rates of --link, in bytes a second, to the first line; one that is 0 was not given. */
void run_log_describe_link(struct run_log *log, double h2d_rate, double d2h_rate);
/* Each line is complete in the file when this returns. */
bool run_log_write(struct run_log *log, const struct run_log_entry *entry, GError **error);
void run_log_close(struct run_log *log); /* NULL is allowed */

/* The results that are printed, as tables or as one JSON object: the memory that a run would take,
 * and how a run went. */
struct run_summary {
    const struct ranks *ranks;      /* NULL with one */
    const struct stage_row *stages; /* by stage, of a pipeline; else NULL */
    uint64_t steps;                 /* taken by this run, without the steps before a resume */
    uint64_t skipped;               /* of them, because their gradient was not finite */
    uint64_t saved, not_saved;      /* checkpoints that were written, and that could not be */
    double longest_pause; /* seconds for which training waited for one before the last; NaN: none */
    double first_loss;
    struct run_log_entry last;           /* its times: the medians of the steps after the first */
    double flops_per_second, peak_flops; /* of such a step, and the device's; 0 if unknown */
    bool peak_by_step;        /* a step was faster than the products that were measured */
    double eval_loss;         /* of the last evaluation; NaN: none */
    double unigram_entropy;   /* of the training text, in nats */
    int64_t targets;          /* of the training text that count; -1 if it has no mask */
    uint64_t training_tokens; /* all of them */
    const GArray *sample;     /* tokens (uint32_t) that the model wrote; may be NULL */
    const char *sample_text;  /* of the sample, as a terminal can show it; NULL if it is unknown */
};

void run_report_print(const struct run_plan *run, const struct run_summary *summary, bool json);

/* Prints the greatest memory by list and by memory, and the traffic of an iteration. If there are
 * several ranks, which `ranks` says (else NULL), these are one rank's. If they are the stages of a
 * pipeline, `stages` has a row for each (else NULL). */
void run_report_print_dry(const struct run_plan *run, const struct ranks *ranks,
                          const struct stage_row *stages, bool json);

#endif
