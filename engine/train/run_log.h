/* The log of a run: one JSON object a step and line.
 *
 *   step              of training, from 1: as many as are done
 *   loss              mean over the step's micro-batches, before its update
 *   gradient_norm     before clipping
 *   learning_rate     of the step's update
 *   tokens_per_second
 *   h2d_bytes ... iteration_seconds: the step's struct plan_figures, as measured
 *   eval_loss         where an evaluation followed the step
 *
 * The first line also says what the run is: model, precision, batch, sequence, micro_batches,
 * made_by, digest, chunk_bytes, device_memory_bytes, look_ahead of its plan, library_bytes, which
 * the driver and libraries hold of the device's memory and which are part of device_memory_bytes,
 * and unigram_entropy of its text, in nats as the loss is.
 */
#ifndef PSTAR_ENGINE_TRAIN_RUN_LOG_H
#define PSTAR_ENGINE_TRAIN_RUN_LOG_H

#include "chunks/plan.h"

#include <jansson.h>

struct run_log_entry {
    uint64_t step;
    double loss, gradient_norm, learning_rate, tokens_per_second;
    struct plan_figures figures;
    double eval_loss; /* NaN: none */
};

struct run_log;

/* Replaces the file. With `path` NULL nothing is written. Errors name the file. */
struct run_log *run_log_open(const char *path, GError **error);
/* What the first line says beside its step. */
void run_log_describe(struct run_log *log, const struct plan *plan, uint64_t library_bytes,
                      double unigram_entropy);
/* Each line is complete in the file when this returns. */
bool run_log_write(struct run_log *log, const struct run_log_entry *entry, GError **error);
void run_log_close(struct run_log *log); /* NULL is allowed */

#endif
