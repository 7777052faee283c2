/* Plans for a host whose memory a disk extends. */
#ifndef PSTAR_PLANNER_ANSWERS_NVME_SEARCH_H
#define PSTAR_PLANNER_ANSWERS_NVME_SEARCH_H

#include "planner/search/variants.h"

struct nvme_answer {
    struct variants_result *alone; /* without NVMe; NULL: none fits */
    struct variants_result
        *result; /* its plan has homes in NVMe, or needs none; NULL: none found */
    struct plan_figures enough_host; /* of the fastest plan that was found as if the host had all of
                                  NVMe's room */
};

/* Searches without NVMe. Then searches as if the host had NVMe's room as well, and gives each plan
 * that is better than those before it homes there, in several ways (nvme_ways.h). Searches again
 * with state blocks that are small beside the host, which the other searches keep if that is
 * better; without activations that leave the device, if they do, because those pass NVMe or take
 * the host's room from what would stay there; as if all that lies on the host crossed the disk,
 * because what stays on the device saves more then; and with less room in NVMe than there is,
 * because the disk then has less to move. Unless a person or the time stops it, no row of
 * `pstar-sim --policy all
 * --strategy all --nvme-memory` is faster, for the trace and with the choices of the plan.
 * `options` has the host's budget alone. All searches share its time limit, and its progress is
 * that of all of them. `answer` must be zeroed. Returns false if nothing fits with NVMe, with the
 * error of the first search with it. Free both results with variants_result_free. */
bool nvme_search_run(const struct trace *trace, const struct search_options *options,
                     unsigned scope, uint64_t nvme_bytes, struct nvme_answer *answer,
                     GError **error);

#endif
