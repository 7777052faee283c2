/* What each stage of a pipeline takes and does, for all of them in one table. */
#ifndef PSTAR_ENGINE_TRAIN_STAGE_REPORT_H
#define PSTAR_ENGINE_TRAIN_STAGE_REPORT_H

#include "engine/ranks.h"
#include "engine/train/run_plan.h"

#include <jansson.h>

struct stage_row {
    uint32_t first_layer, layer_count, parts;
    uint32_t in_flight; /* micro-batches whose activations the stage holds at once, at most */
    uint64_t device_bytes, host_bytes; /* taken at the start */
    uint64_t least_device_bytes;       /* with which the stage fits */
    struct plan_figures figures;
};

/* Returns the rows of all stages, by stage; every stage must call it. `figures` are this one's,
 * predicted or measured; the first rank of each stage has the table that is shown. Free with
 * g_free. */
struct stage_row *stage_report_share(const struct run_plan *run, struct ranks *stages,
                                     const struct plan_figures *figures);

/* Prints the rows as a table; returns them as a JSON array. */
void stage_report_print(const struct stage_row *rows, uint32_t count);
json_t *stage_report_json(const struct stage_row *rows, uint32_t count);

#endif
