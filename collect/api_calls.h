/* The calls of CUDA's two interfaces, by the numbers that CUPTI gives them. */
#ifndef PSTAR_COLLECT_API_CALLS_H
#define PSTAR_COLLECT_API_CALLS_H

#include "collect/cupti_library.h"
#include "traces/activity/activity.h"

/* Turns on or off records of the calls that start something on a device, take or give back memory,
 * or wait: range and call of what a device does are found through them. Others, which come by the
 * thousand (which device is it? was there an error?), are left out, where the library can tell
 * them apart. */
bool api_calls_record(const struct cupti_library *library, bool on, GError **error);

/* As CUPTI has it: "cudaLaunchKernel_v7000". NULL: not known. */
const char *api_calls_name(const struct cupti_library *library, enum call_class api,
                           uint32_t callback);

/* What a call is to the search for iterations. */
enum api_role { API_OTHER, API_LAUNCH, API_WAIT };

enum { API_CALLS = 4096 }; /* more than either interface has */

/* Of each call of an interface: roles[API_CALLS]. */
void api_calls_find_roles(const struct cupti_library *library, enum call_class api, uint8_t *roles);

/* Turns on or off callbacks of the calls that have a role. */
bool api_calls_watch(const struct cupti_library *library, CUpti_SubscriberHandle subscriber,
                     enum call_class api, const uint8_t *roles, bool on, GError **error);

#endif
