/* An iteration that nobody annotated: its phases and its memory, from the kernels' names and from
 * when memory is allocated and freed. */
#ifndef PSTAR_TRACES_ACTIVITY_GUESS_H
#define PSTAR_TRACES_ACTIVITY_GUESS_H

#include "traces/records.h"

#include <jansson.h>
#include <stdio.h>

/* What says where a phase begins. */
enum guessed_by {
    GUESSED_NOT = 0,
    GUESSED_NAMES = 1 << 0, /* the first kernel that is named so, after the phase before; of a later
                                  micro-batch: kernels of the same names as in the first's forward,
                                  to the same end */
    GUESSED_MEMORY = 1 << 1, /* what was allocated within the iteration begins to be freed, or is
                                   free again */
    GUESSED_BOTH = GUESSED_NAMES | GUESSED_MEMORY /* and they agree */
};

struct guessed_phase {
    uint32_t first;   /* kernel, in the order of their launches */
    uint32_t kernels; /* > 0 */
    uint64_t ns;      /* of the kernels, together */
    uint8_t phase;    /* enum trace_phase */
    uint8_t by;       /* enum guessed_by: of its begin */
};

struct guessed_iteration {
    uint32_t device;
    uint32_t kernels; /* of the iteration: its moments */
    GArray *phases;   /* of struct guessed_phase: forward, backward, again for each micro-batch,
                            update; without what is not there, or not known */
    uint32_t micro_batches;
    /* As often the kernels come again between which forward and backward lie, and non-model data
     * rises and falls; 0: not known. Where these differ from micro_batches the phases are in doubt.
     */
    uint32_t turns, rises;
    /* Allocations of device memory that live through the iteration: model data, and what an
     * allocator holds; that come and go within: non-model data; that come and stay. */
    uint32_t lasting_count, passing_count, new_count;
    uint64_t lasting_bytes, passing_peak_bytes, new_bytes;
    uint32_t passing_peak_kernel; /* the next that is launched */
    double
        alike; /* share of the kernels that come again an iteration later; 0: only one is there */
};

/* The first iteration that was recorded, or the first of those that repeat
 * (traces/activity/period.h), on the device with most kernels. NULL where neither is there. Wants
 * the kernels, calls and allocations. */
struct guessed_iteration *guess_iteration(const struct activity *activity,
                                          const struct records *records);
void guess_free(struct guessed_iteration *guessed); /* NULL is allowed */

/* Why the phases are in doubt, as a sentence's end, to be freed with g_free. NULL: they are not. */
char *guess_doubt(const struct guessed_iteration *guessed);

/* A table, and an object that docs/formats.md describes. */
void guess_print(const struct guessed_iteration *guessed, FILE *out);
json_t *guess_json(const struct guessed_iteration *guessed);

#endif
