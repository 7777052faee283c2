/* Activity records, into a trace that grows. */
#ifndef PSTAR_TRACES_ACTIVITY_ACTIVITY_STORE_H
#define PSTAR_TRACES_ACTIVITY_ACTIVITY_STORE_H

#include "traces/activity/activity.h"
#include "traces/database.h"

struct activity_store;

/* The database outlives the store. */
struct activity_store *activity_store_new(const struct database *database);

/* Adds all records, within the caller's transaction. A table is created with its first row. */
bool activity_store_add(struct activity_store *store, const struct activity *activity,
                        GError **error);

void activity_store_free(struct activity_store *store); /* NULL is allowed */

#endif
