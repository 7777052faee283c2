/* What DeepSpeed's ZeRO stage 3 gathers in a step, and how many parameters it then has on the
 * device, for given settings. Follows runtime/zero/partitioned_param_coordinator.py and
 * parameter_offload.py of DeepSpeed 0.19. */
#ifndef PSTAR_PLANNER_ANSWERS_ZERO3_H
#define PSTAR_PLANNER_ANSWERS_ZERO3_H

#include "traces/trace.h"

/* All are numbers of elements. */
struct zero3_settings {
    uint64_t max_live;       /* stage3_max_live_parameters: no prefetch goes beyond */
    uint64_t reuse_distance; /* stage3_max_reuse_distance */
    uint64_t prefetch;       /* stage3_prefetch_bucket_size */
    uint64_t stay_each;      /* stage3_param_persistence_threshold */
    uint64_t stay_all;       /* stage3_model_persistence_threshold */
};

struct zero3_counts {
    uint64_t live;     /* most elements on the device at a time */
    uint64_t gathered; /* elements that come to the device in one step */
};

/* The modules that a step visits, with the parameters that each one uses. */
struct zero3;

/* Finds the modules by the names of the trace's operators. Free with zero3_free. */
struct zero3 *zero3_new(const struct trace *trace);
void zero3_free(struct zero3 *zero3);

/* Returns the counts of a step once DeepSpeed knows the order of the modules, from the third one
 * on. */
struct zero3_counts zero3_count(const struct zero3 *zero3, const struct zero3_settings *settings);

/* Returns the settings whose counts come closest to the wanted ones, without more elements on the
 * device if any settings need no more. They prefetch at most `prefetch` elements at a time. */
struct zero3_settings zero3_fit(const struct zero3 *zero3, const struct zero3_counts *wanted,
                                uint64_t prefetch);

#endif
