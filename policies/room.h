/* Room at each moment of an iteration, given out over stretches of moments in logarithmic time. */
#ifndef PSTAR_POLICIES_ROOM_H
#define PSTAR_POLICIES_ROOM_H

#include <stdbool.h>
#include <stdint.h>

struct policy_room;

/* Copies `bytes` [moment_count]; negative: less than none. moment_count > 0. */
struct policy_room *policy_room_new(const int64_t *bytes, uint32_t moment_count);
void policy_room_free(struct policy_room *room);

/* Takes `bytes` at each of `span` moments from `first` on, cyclic, if every one of them has as
 * many; otherwise takes none and returns false. span <= moment_count. */
bool policy_room_take(struct policy_room *room, uint32_t first, uint32_t span, int64_t bytes);

#endif
