/* Finds the steps of a training run in the kernels that it launched: by what repeats, and by kernel
 * names. */
#ifndef PSTAR_TRACES_ACTIVITY_STEPS_H
#define PSTAR_TRACES_ACTIVITY_STEPS_H

#include "traces/records.h"

#include <stdbool.h>
#include <stdint.h>

struct period {
    uint32_t length; /* 0 if nothing repeats */
    uint32_t first;  /* begin of the steady repetitions */
    uint32_t count;  /* number of repetitions, at least 2 */
    double alike;    /* share of symbols that are the same one repetition later */
};

/* Finds the shortest length after which the sequence repeats as well as after any other length,
 * apart from chance. Layers repeat within a step, too, but a forward layer follows a backward layer
 * only one step later. Symbols are numbers below `symbols`. Up to a fifth of the symbols may differ
 * between repetitions, and any length may precede the steady part.
 *
 * `ending` [symbols] marks symbols that end a step, such as kernels of an optimizer; it may be
 * NULL. A length after which the ending symbols do not repeat is rejected, because the
 * micro-batches of a step repeat, too. */
struct period period_find(const uint32_t *sequence, uint32_t length, uint32_t symbols,
                          const bool *ending);

/* Returns whether a kernel name belongs to an optimizer ("adam", "sgd", "multi_tensor_apply", ...).
 */
bool kernel_words_optimizer(const char *name);

/* Returns whether a kernel name belongs to backward ("backward", "bwd", "dgrad", "wgrad", ...). */
bool kernel_words_backward(const char *name);

/* Finds what repeats among the kernels of the device's busiest stream. *step_ns is the median time
 * from a step's first kernel to the next step's, 0 if nothing repeats. If kernels of an optimizer
 * are found by name, a step ends with them; `count` may then be 1 if the recording begins within a
 * step. */
struct period activity_steps(const struct activity *activity, const struct records *records,
                             uint32_t device, uint64_t *step_ns);

/* Returns the kernel at a place of the sequence in which the steps were found. */
const struct kernel_record *activity_steps_kernel(const struct activity *activity, uint32_t device,
                                                  uint32_t place);

#endif
