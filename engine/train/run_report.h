/* What pstar-run prints: the memory that a run would take, and how a run went. Tables for people,
 * or one JSON object. */
#ifndef PSTAR_ENGINE_TRAIN_RUN_REPORT_H
#define PSTAR_ENGINE_TRAIN_RUN_REPORT_H

#include "engine/train/run_log.h"
#include "engine/train/run_plan.h"

struct run_summary {
    uint64_t steps; /* taken now, resumed ones not included */
    double first_loss;
    struct run_log_entry last;
    double eval_loss;       /* the last; NaN: none */
    double unigram_entropy; /* of the training text, in nats */
    const GArray *sample;   /* tokens (uint32_t) that the model wrote; NULL: none */
};

void run_report_print(const struct run_plan *run, const struct run_summary *summary, bool json);

/* By list, by memory, at its greatest; and the traffic of an iteration. */
void run_report_print_dry(const struct run_plan *run, bool json);

#endif
