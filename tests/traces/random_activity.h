/* Random valid activity, for properties that hold for every trace. */
#ifndef PSTAR_TESTS_TRACES_RANDOM_ACTIVITY_H
#define PSTAR_TESTS_TRACES_RANDOM_ACTIVITY_H

#include "traces/activity/activity.h"
#include "traces/records.h"

enum { RANDOM_ACTIVITY_STRINGS = 40 };

/* Makes 1 to `most` records of each kind, ordered by start. Strings are ids from 1 to
 * RANDOM_ACTIVITY_STRINGS. Every piece of device work has a call. */
struct activity *random_activity(GRand *random, uint32_t most);

/* Returns the [RANDOM_ACTIVITY_STRINGS] strings, with ids from 1. */
struct record_string *random_activity_strings(void);
void random_activity_strings_free(struct record_string *strings);

#endif
