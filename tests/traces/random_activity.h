/* Random valid activity, for properties that hold for every trace. */
#ifndef PSTAR_TESTS_TRACES_RANDOM_ACTIVITY_H
#define PSTAR_TESTS_TRACES_RANDOM_ACTIVITY_H

#include "traces/activity/activity.h"
#include "traces/records.h"

enum { RANDOM_ACTIVITY_STRINGS = 40 };

/* At most `most` records of each kind, one at least, in order of start. Strings are ids from 1 to
 * RANDOM_ACTIVITY_STRINGS; what the device did was asked for by one of the calls. */
struct activity *random_activity(GRand *random, uint32_t most);

/* The strings: [RANDOM_ACTIVITY_STRINGS], ids from 1. */
struct record_string *random_activity_strings(void);
void random_activity_strings_free(struct record_string *strings);

#endif
