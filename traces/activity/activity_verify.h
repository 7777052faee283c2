/* Whether what the device did agrees with itself and with the rest of the trace. */
#ifndef PSTAR_TRACES_ACTIVITY_ACTIVITY_VERIFY_H
#define PSTAR_TRACES_ACTIVITY_ACTIVITY_VERIFY_H

#include "traces/activity/activity.h"
#include "traces/records.h"

#include <stdbool.h>

/* Every name is a string that was recorded, every device one that is described, if any is; where
 * calls were recorded, no record was dropped and the run was not cut short, every kernel, copy and
 * memset has the call that asked for it. All parts but ACTIVITY_LAUNCHES, which is not needed, must
 * have been read. `path` begins the message. */
bool activity_verify(const struct activity *activity, const struct records *records, bool partial,
                     const char *path, GError **error);

#endif
