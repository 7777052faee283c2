/* Free bytes at each moment of an iteration, updated and queried over ranges of moments.
 *
 * Ranges are cyclic: they begin at a moment, have a length of at most moment_count, and continue at
 * moment 0 after the last moment. */
#ifndef PSTAR_POLICIES_HEADROOM_H
#define PSTAR_POLICIES_HEADROOM_H

#include "traces/ids.h"

#include <stdint.h>

struct headroom;

/* Copies `bytes` [moment_count]; moment_count > 0. Values may be negative, and lie
 * between -2^62 and 2^62. The
 * caller frees the result with headroom_free, which accepts NULL. */
struct headroom *headroom_new(const int64_t *bytes, uint32_t moment_count);
void headroom_free(struct headroom *headroom);

/* Sets all values again, as headroom_new does. */
void headroom_reset(struct headroom *headroom, const int64_t *bytes);

int64_t headroom_at(const struct headroom *headroom, moment_id moment);

/* Subtracts `bytes` at `length` moments from `first` on; a negative amount adds. */
void headroom_take(struct headroom *headroom, uint32_t first, uint32_t length, int64_t bytes);

/* Returns the first moment of the range that has less than `bytes`, NO_INDEX if every one has that
 * much. */
uint32_t headroom_first_below(const struct headroom *headroom, uint32_t first, uint32_t length,
                              int64_t bytes);

/* Returns the lowest value in the range, INT64_MAX if it is empty. */
int64_t headroom_least(const struct headroom *headroom, uint32_t first, uint32_t length);

#endif
