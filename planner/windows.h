/* An iteration cut into windows, for the lower bound of its time. A window begins with an operator
 * on the device, and ends where the next one's begins; the last wraps round. */
#ifndef PSTAR_PLANNER_WINDOWS_H
#define PSTAR_PLANNER_WINDOWS_H

#include "chunks/certificate.h"
#include "planner/gaps.h"

/* What is limited in a window: nanoseconds of four resources, and bytes of room at its start. */
enum window_use { WINDOW_COMPUTE, WINDOW_H2D, WINDOW_D2H, WINDOW_HOST, WINDOW_ROOM, WINDOW_USES };

struct window {
    uint32_t moment; /* of the operator that it begins with */
    uint64_t room;   /* there, beside non-model data and that operator's own chunks */
};

struct windows {
    uint32_t count, moment_count;
    struct window *items;
    uint16_t *of_moment; /* [moment_count]; those before the first window's are of the last */
};

/* The moments at which windows should begin: in each of at most 60 equal stretches of forward and
 * backward, the operator on the device that leaves the least room. Updates, which may run on either
 * side, begin none. Appends them to `moments` (uint32_t), ascending; none where there are none. */
void windows_choose(const struct trace *trace, const struct gaps *gaps, GArray *moments);

/* Whether windows can begin at these moments: ascending, and each an operator that
 * windows_choose could choose. */
bool windows_are_possible(const struct trace *trace, const uint32_t *moments, uint32_t count);

struct windows *windows_new(const struct gaps *gaps, const uint32_t *moments, uint32_t count);
void windows_free(struct windows *windows);

/* Moments in the order in which they follow the first window's beginning. */
uint32_t windows_moment(const struct windows *windows, uint32_t position);

#endif
