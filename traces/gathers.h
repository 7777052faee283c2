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

/* Returns NULL if there are no gathers, if iterations have different ones, or if a device ran them
 * of which `activity` (kernels and correlations, may be NULL) does not know. Such a gather takes
 * from the begin of its first collective kernel to the end of its last. Free with gathers_free. */
struct gathers *gathers_find(const struct records *records, const struct activity *activity);

/* Reads the records of a trace file and finds its gathers. Sets *gathers to NULL if there are none.
 * Returns false if the file cannot be read. */
bool gathers_read(const char *path, struct gathers **gathers, GError **error);
void gathers_free(struct gathers *gathers); /* NULL is allowed */

#endif
