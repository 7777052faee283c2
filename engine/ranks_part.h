/* Some of the ranks, as ranks of their own: those that share a stage of a pipeline, or one of each
 * stage. They exchange through all ranks' connection and take their turns. */
#ifndef PSTAR_ENGINE_RANKS_PART_H
#define PSTAR_ENGINE_RANKS_PART_H

#include "engine/ranks.h"

/* Returns the ranks first, first + step, ... of `all`, `count` of them, to which this process must
 * belong. `all` must outlive the result. Free with ranks_part_free. */
struct ranks *ranks_part_new(struct ranks *all, uint32_t first, uint32_t step, uint32_t count);
void ranks_part_free(struct ranks *part); /* NULL is allowed */

#endif
