/* A heap of work with deadlines: the earliest deadline comes first, and the smallest index among
 * equal ones. */
#ifndef PSTAR_PLANNER_SCHEDULE_DEADLINES_H
#define PSTAR_PLANNER_SCHEDULE_DEADLINES_H

#include <glib.h>
#include <stdint.h>

struct deadline {
    int64_t moment;
    uint32_t index; /* of the work, for the caller */
};

/* Returns an empty GArray of struct deadline, to be used with the functions below. */
GArray *deadlines_new(void);

void deadlines_add(GArray *deadlines, struct deadline deadline);
/* Return the index of the first; deadlines_take also removes it. There must be one. */
uint32_t deadlines_first(const GArray *deadlines);
uint32_t deadlines_take(GArray *deadlines);

#endif
