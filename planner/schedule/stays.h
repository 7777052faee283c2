/* Chooses which chunks stay on the device throughout if the host is too small for all of them. */
#ifndef PSTAR_PLANNER_SCHEDULE_STAYS_H
#define PSTAR_PLANNER_SCHEDULE_STAYS_H

#include "planner/schedule/retention.h"

/* Returns [chunk_count] marks of chunks that the host need not hold: at least `excess` bytes of
 * them, which operators on the host do not use. First come the chunks that leave nowhere in
 * `free_choice`, which was chosen as if the host were large enough, and then those that move the
 * most bytes for the room that they take. Returns NULL if there are not enough. Free the result
 * with g_free. */
uint8_t *stays_choose(const struct layout *layout, const struct retention *free_choice,
                      uint64_t excess);

#endif
