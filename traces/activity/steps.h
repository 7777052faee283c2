/* What repeats in a sequence: the steps of a training run, in the kernels that it launched. */
#ifndef PSTAR_TRACES_ACTIVITY_STEPS_H
#define PSTAR_TRACES_ACTIVITY_STEPS_H

#include "traces/records.h"

#include <stdbool.h>
#include <stdint.h>

struct period {
    uint32_t length; /* 0: nothing repeats */
    uint32_t
        first; /* where the whole repetitions begin, without what came before the run was steady */
    uint32_t count; /* of them, at least 2 */
    double alike;   /* share of the symbols in them that are the same one repetition later */
};

/* The shortest length after which as much comes again as after any other, but for chance: layers
 * repeat within a step, too, but forward's come after backward's only a step later. Symbols are any
 * numbers below `symbols`. A fifth may differ from one repetition to the next, and what comes
 * before the steady part may be of any length.
 *
 * `ending` [symbols] says which symbols are of what ends a step, as an optimizer's kernels; NULL:
 * none is known to be. A length after which these do not come again is none: the micro-batches of a
 * step repeat, too, and where they are many hardly anything else is there. */
struct period period_find(const uint32_t *sequence, uint32_t length, uint32_t symbols,
                          const bool *ending);

/* What a kernel is for, as far as its name tells. */

/* Of an optimizer: "adam", "sgd", "multi_tensor_apply" and the like. */
bool kernel_words_optimizer(const char *name);

/* Of backward: "backward", "bwd", "dgrad", "wgrad" and the like. */
bool kernel_words_backward(const char *name);

/* A training run's steps, from the kernels alone. */

/* What repeats among the kernels of the device's busiest stream; *step_ns is the median time from a
 * step's first kernel to the next one's, 0 where nothing repeats. Where an optimizer's kernels are
 * named so a step ends with them; its `count` may be 1 where the recording begins within one. */
struct period activity_steps(const struct activity *activity, const struct records *records,
                             uint32_t device, uint64_t *step_ns);

/* The kernel at a place of the sequence in which the steps were found. */
const struct kernel_record *activity_steps_kernel(const struct activity *activity, uint32_t device,
                                                  uint32_t place);

#endif
