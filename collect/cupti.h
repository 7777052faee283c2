/* Whether a CUPTI library writes its records as the headers say that this was built with. */
#ifndef PSTAR_COLLECT_CUPTI_H
#define PSTAR_COLLECT_CUPTI_H

#include "traces/activity/activity.h"

#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>
#include <cupti_version.h>
#include <glib.h>
#include <stdbool.h>

typedef CUptiResult (*cupti_next_record)(uint8_t *buffer, size_t valid_bytes,
                                         CUpti_Activity **record);

enum cupti_error {
    CUPTI_ERROR_LIBRARY, /* there is none, or a function of it is not there */
    CUPTI_ERROR_RECORDS, /* it writes other records than we can read */
    CUPTI_ERROR_CALL     /* it refused */
};
#define CUPTI_ERROR cupti_error_quark()
GQuark cupti_error_quark(void);

/* Measures with the library's own function: bytes[CUPTI_ACTIVITY_KIND_COUNT], 0 for kinds that we
 * do not read. Fails where a kind that we read has the size of no version whose fields are known to
 * lie where ours do. */
bool cupti_sizes_measure(cupti_next_record next, size_t *bytes, GError **error);

/* CUPTI, loaded when a program uses CUDA: nothing of ours is linked with it, so that programs
 * without a GPU can be traced, too. */

#define CUPTI_LIBRARY_FUNCTIONS(entry)                                                             \
    entry(cuptiGetVersion) entry(cuptiGetResultString) entry(cuptiSubscribe)                       \
        entry(cuptiUnsubscribe) entry(cuptiEnableCallback) entry(cuptiGetCallbackName)             \
            entry(cuptiGetTimestamp) entry(cuptiActivityEnable) entry(cuptiActivityDisable)        \
                entry(cuptiActivityFlushAll) entry(cuptiActivityGetNextRecord)                     \
                    entry(cuptiActivityRegisterCallbacks) entry(cuptiActivityGetNumDroppedRecords) \
                        entry(cuptiActivityPushExternalCorrelationId)                              \
                            entry(cuptiActivityPopExternalCorrelationId)                           \
                                entry(cuptiSetThreadIdType)

/* Not in the oldest versions: NULL there. */
#define CUPTI_LIBRARY_NEWER_FUNCTIONS(entry)                      \
    entry(cuptiSubscribe_v2) entry(cuptiActivityEnableRuntimeApi) \
        entry(cuptiActivityEnableDriverApi)

/* The functions, by the names that the library gives them. */
struct cupti_library {
#define CUPTI_LIBRARY_FIELD(function) __typeof__ (&(function))(function);
    CUPTI_LIBRARY_FUNCTIONS(CUPTI_LIBRARY_FIELD)
    CUPTI_LIBRARY_NEWER_FUNCTIONS(CUPTI_LIBRARY_FIELD)
#undef CUPTI_LIBRARY_FIELD
    size_t record_bytes[CUPTI_ACTIVITY_KIND_COUNT]; /* as cupti_sizes_measure finds them */
};

/* The library that the program has loaded already, or else one that is found on the system's paths
 * or with the toolkit. Fails (CUPTI_ERROR) where there is none, or one whose records we cannot
 * read. */
bool cupti_library_load(struct cupti_library *library, GError **error);

/* Whether a call succeeded; if not, *error says which, and why. */
bool cupti_library_good(const struct cupti_library *library, CUptiResult result, const char *call,
                        GError **error);

/* The calls of CUDA's two interfaces, by the numbers that CUPTI gives them. */

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

/* The buffers that CUPTI writes its records into, and those it has handed back, which wait to be
 * read. CUPTI calls from threads of its own and from the program's, with locks of its own held:
 * nothing here calls CUPTI or waits for anyone who might. */

struct full_buffer {
    uint8_t *bytes;
    size_t valid_bytes;
};

/* `many` is called, from any thread, when more than a few wait to be read. */
void buffer_queue_set_up(void (*many)(void *data), void *data);

/* For cuptiActivityRegisterCallbacks, whose callbacks carry no context: there is one queue a
 * process. Where too much waits to be read none is given: CUPTI drops records then, and counts
 * them. */
void CUPTIAPI buffer_queue_request(uint8_t **buffer, size_t *bytes, size_t *most_records);
void CUPTIAPI buffer_queue_complete(CUcontext context, uint32_t stream, uint8_t *buffer,
                                    size_t bytes, size_t valid_bytes);

/* The one that has waited longest, to be given to buffer_queue_release; false: none waits. */
bool buffer_queue_take(struct full_buffer *buffer);
void buffer_queue_release(const struct full_buffer *buffer);

#endif
