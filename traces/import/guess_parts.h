/* Shared by the files of guess.c alone. A moment is a number of kernels that had been launched. */
#ifndef PSTAR_TRACES_IMPORT_GUESS_PARTS_H
#define PSTAR_TRACES_IMPORT_GUESS_PARTS_H

#include "traces/import/guess.h"

struct launch {
    uint64_t ns; /* of the call, or, where calls were not recorded, of the kernel */
    const struct kernel_record *kernel;
};

struct span {
    uint64_t begin_ns, end_ns;
};

static inline const struct launch *launch_at(const GArray *launches, uint32_t place)
{
    return &g_array_index(launches, struct launch, place);
}

/* An allocation that comes and goes within the iteration, or its end. */
struct change {
    uint32_t moment;
    uint32_t until; /* the moment of its end, which may be this one */
    int64_t bytes;  /* < 0: it ends */
};

/* Of struct change, in order. Fills in what `guessed` tells of memory, but for `rises`. */
GArray *guess_changes(const struct activity *activity, const struct span *span,
                      const GArray *launches, struct guessed_iteration *guessed);

/* Non-model data rises and falls: forward and backward. */
struct rise {
    uint32_t begin;      /* the moment of its first allocation */
    uint32_t first_free; /* the first after its peak */
    uint32_t all_free;   /* all but a tenth of its peak; UINT32_MAX: never */
};

/* Of struct rise: at least half of the highest peak lies between them. What lives on at moment
 * `update` is left out: it may be gradients. */
GArray *guess_rises(const GArray *changes, uint32_t update);

/* Fills in the phases, `micro_batches`, `turns` and `rises`. */
void guess_phases(struct guessed_iteration *guessed, const GArray *launches,
                  const struct records *records, const GArray *changes);

#endif
