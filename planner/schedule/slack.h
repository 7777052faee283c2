/* Room left at each moment of an iteration, taken and asked for over stretches of moments. */
#ifndef PSTAR_PLANNER_SCHEDULE_SLACK_H
#define PSTAR_PLANNER_SCHEDULE_SLACK_H

#include <stdint.h>

struct headroom;

/* `room`: [moment_count] bytes, at the beginning. The caller frees the result with slack_free. */
struct headroom *headroom_new(const int64_t *room, uint32_t moment_count);
void headroom_free(struct headroom *headroom);

/* As slack_new has it, for as many moments. */
void headroom_reset(struct headroom *headroom, const int64_t *room);

int64_t headroom_at(const struct headroom *headroom, uint32_t moment);

/* So many bytes less, or more where they are negative, at the moments [begin, end); none where end
 * is not above begin. */
void headroom_take(struct headroom *headroom, uint32_t begin, uint32_t end, int64_t bytes);

/* The first moment of [begin, end) that has less than `bytes` left; `end` or above: none has. */
uint32_t headroom_first_below(const struct headroom *headroom, uint32_t begin, uint32_t end,
                              int64_t bytes);

#endif
