/* Guesses the phases and the memory of an iteration without annotations, from kernel names and from
 * the times of allocations and frees. */
#ifndef PSTAR_TRACES_ACTIVITY_GUESS_H
#define PSTAR_TRACES_ACTIVITY_GUESS_H

#include "traces/records.h"

#include <jansson.h>
#include <stdio.h>

/* The evidence for the begin of a phase. */
enum guessed_by {
    GUESSED_NOT = 0,
    GUESSED_NAMES = 1 << 0, /* the first kernel with such a name after the previous phase; for a
                               later micro-batch, the same kernel names as in the first forward */
    GUESSED_MEMORY =
        1 << 1, /* memory allocated within the iteration begins to be freed, or is free again */
    GUESSED_BOTH = GUESSED_NAMES | GUESSED_MEMORY /* both, and they agree */
};

struct guessed_phase {
    uint32_t first;   /* index of its first kernel in launch order */
    uint32_t kernels; /* > 0 */
    uint64_t ns;      /* sum over its kernels */
    uint8_t phase;    /* enum trace_phase */
    uint8_t by;       /* enum guessed_by, the evidence for its begin */
};

struct guessed_iteration {
    uint32_t device;
    uint32_t kernels; /* kernels of the iteration, which are its moments */
    GArray *phases; /* struct guessed_phase: forward and backward of each micro-batch, then update.
                       Phases that are absent or unknown are left out */
    uint32_t micro_batches;
    /* The number of times that the kernels between forward and backward occur, and that non-model
     * data rises and falls. 0 if unknown. If one of them differs from micro_batches, the phases are
     * in doubt. */
    uint32_t turns, rises;
    /* Allocations of device memory. Lasting ones live through the iteration (model data, and what
     * an allocator holds). Passing ones come and go within it (non-model data). New ones come and
     * stay. */
    uint32_t lasting_count, passing_count, new_count;
    uint64_t lasting_bytes, passing_peak_bytes, new_bytes;
    uint32_t passing_peak_kernel; /* the kernel that is launched next */
    double alike; /* share of kernels that come again one iteration later; 0 if there is only one
                     iteration */
};

/* Guesses the first recorded iteration, or the first of those that repeat
 * (traces/activity/steps.h), on the device with the most kernels. Returns NULL if there is neither.
 * Needs kernels, calls and allocations. */
struct guessed_iteration *guess_iteration(const struct activity *activity,
                                          const struct records *records);
void guess_free(struct guessed_iteration *guessed); /* may be NULL */

/* Returns why the phases are in doubt, as the end of a sentence; NULL if they are not. Free with
 * g_free. */
char *guess_doubt(const struct guessed_iteration *guessed);

/* Print a table, or return the object that docs/formats.md describes. */
void guess_print(const struct guessed_iteration *guessed, FILE *out);
json_t *guess_json(const struct guessed_iteration *guessed);

#endif
