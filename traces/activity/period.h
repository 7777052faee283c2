/* What repeats in a sequence: the steps of a training run, in the kernels that it launched. */
#ifndef PSTAR_TRACES_ACTIVITY_PERIOD_H
#define PSTAR_TRACES_ACTIVITY_PERIOD_H

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

#endif
