/* The most that there is at any moment of a stretch of an iteration. */
#ifndef PSTAR_PLANNER_SCHEDULE_PEAKS_H
#define PSTAR_PLANNER_SCHEDULE_PEAKS_H

#include <stdint.h>

struct peaks;

/* `amount`: [moment_count]; moment_count is not 0. The caller frees the result with peaks_free. */
struct peaks *peaks_new(const uint64_t *amount, uint32_t moment_count);
void peaks_free(struct peaks *peaks);

/* Over `length` moments from `begin` on, cyclic; 0 where there are none. */
uint64_t peaks_over(const struct peaks *peaks, uint32_t begin, uint32_t length);

#endif
