/* What a rank of a recorded run gathered: ranges beside its operators (docs/formats.md, category
 * 5). */
#ifndef PSTAR_TRACES_GATHERS_H
#define PSTAR_TRACES_GATHERS_H

#include "traces/records.h"

/* The gathers of an iteration, in their order, which is the same on every rank. */
struct gathers {
    uint32_t count;
    uint64_t *bytes;       /* [count] that the rank received */
    uint64_t *duration_ns; /* [count] medians of the recorded iterations. A gather ends when the
                              rank that came to it last has sent its part */
};

/* Returns NULL if there are no gathers, or if iterations have different ones. Free with
 * gathers_free. */
struct gathers *gathers_find(const struct records *records);
void gathers_free(struct gathers *gathers); /* NULL is allowed */

#endif
