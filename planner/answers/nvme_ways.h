/* Homes in NVMe for a plan that was made as if the host were large enough, given in several ways,
 * of which the clock decides: with as few chunks there as fit, and rings of several sizes
 * (chunks/nvme_homes.h); or with the host pool as a cache of what lives there
 * (planner/schedule/nvme_stays.h), with different weights of reads and writes, and more or less
 * room for loads that run ahead. */
#ifndef PSTAR_PLANNER_ANSWERS_NVME_WAYS_H
#define PSTAR_PLANNER_ANSWERS_NVME_WAYS_H

#include "planner/search/search.h"

struct nvme_ways_job {
    const struct search_options *options; /* with the host's budget alone */
    uint64_t nvme_bytes;
    double best_seconds; /* of the fastest plan so far, near which more ways are tried; INFINITY:
                            there is none */
};

/* Returns the budget of homes in NVMe below the host of `options`, with the best way to use the
 * platform's disk. */
struct nvme_budget nvme_ways_budget(const struct search_options *options, uint64_t nvme_bytes);

/* Predicts the plan's step again, with the disk. */
void nvme_ways_time(const struct costs *costs, struct plan *plan, const struct trace *trace);

/* Returns the fastest plan of `found` with homes, or a copy if it needs none. Changes nothing, and
 * returns NULL if none fits, with the error of the first way. */
struct plan *nvme_ways_fastest(const struct nvme_ways_job *job, const struct search_result *found,
                               GError **error);

#endif
