/* CUPTI: loading the library, checking the sizes of its records, selecting API calls, and the
 * buffers for its records. */
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
    CUPTI_ERROR_LIBRARY, /* no library, or one without a function that is needed */
    CUPTI_ERROR_RECORDS, /* its records differ from those that we can read */
    CUPTI_ERROR_CALL     /* a call failed */
};
#define CUPTI_ERROR cupti_error_quark()
GQuark cupti_error_quark(void);

/* Measures record sizes with the library's own function into bytes[CUPTI_ACTIVITY_KIND_COUNT]; 0
 * for kinds that we do not read. Fails if a kind that we read has a size of no known version,
 * because its fields might lie elsewhere. */
bool cupti_sizes_measure(cupti_next_record next, size_t *bytes, GError **error);

/* CUPTI is loaded when a program uses CUDA. Nothing links with it, so that programs without a GPU
 * can be traced, too. */

#define CUPTI_LIBRARY_FUNCTIONS(entry)                                                             \
    entry(cuptiGetVersion) entry(cuptiGetResultString) entry(cuptiSubscribe)                       \
        entry(cuptiUnsubscribe) entry(cuptiEnableCallback) entry(cuptiGetCallbackName)             \
            entry(cuptiGetTimestamp) entry(cuptiActivityEnable) entry(cuptiActivityDisable)        \
                entry(cuptiActivityFlushAll) entry(cuptiActivityGetNextRecord)                     \
                    entry(cuptiActivityRegisterCallbacks) entry(cuptiActivityGetNumDroppedRecords) \
                        entry(cuptiActivityPushExternalCorrelationId)                              \
                            entry(cuptiActivityPopExternalCorrelationId)                           \
                                entry(cuptiSetThreadIdType)

/* Missing in the oldest versions; NULL there. */
#define CUPTI_LIBRARY_NEWER_FUNCTIONS(entry) \
    entry(cuptiSubscribe_v2) entry(cuptiActivityEnableRuntimeApi)

/* The functions under the library's names. */
struct cupti_library {
#define CUPTI_LIBRARY_FIELD(function) __typeof__ (&(function))(function);
    CUPTI_LIBRARY_FUNCTIONS(CUPTI_LIBRARY_FIELD)
    CUPTI_LIBRARY_NEWER_FUNCTIONS(CUPTI_LIBRARY_FIELD)
#undef CUPTI_LIBRARY_FIELD
    size_t record_bytes[CUPTI_ACTIVITY_KIND_COUNT]; /* measured by cupti_sizes_measure */
};

/* Loads the library that the program already uses, or else one from the system's paths or the
 * toolkit. Fails with CUPTI_ERROR if there is none, or if its records cannot be read. */
bool cupti_library_load(struct cupti_library *library, GError **error);

/* Returns whether a call succeeded. If not, sets *error with the call and the reason. */
bool cupti_library_good(const struct cupti_library *library, CUptiResult result, const char *call,
                        GError **error);

/* Turns records on or off for API calls. Device activity is assigned to ranges and calls by them.
 * Calls of the runtime that neither start work on a device, allocate or free memory, nor wait
 * (queries, error checks) come by the thousand and are left out if the library can tell them apart,
 * unless `all` calls are to be recorded. */
bool api_calls_record(const struct cupti_library *library, bool all, bool on, GError **error);

/* Returns CUPTI's name of a call, such as "cudaLaunchKernel_v7000"; NULL if unknown. */
const char *api_calls_name(const struct cupti_library *library, enum call_class api,
                           uint32_t callback);

/* Role of a call in the search for iterations. */
enum api_role { API_OTHER, API_LAUNCH, API_WAIT };

enum { API_CALLS = 4096 }; /* more calls than either API has */

/* Sets roles[API_CALLS] for the calls of an API. */
void api_calls_find_roles(const struct cupti_library *library, enum call_class api, uint8_t *roles);

/* Turns callbacks on or off for the calls that have a role. */
bool api_calls_watch(const struct cupti_library *library, CUpti_SubscriberHandle subscriber,
                     enum call_class api, const uint8_t *roles, bool on, GError **error);

/* A buffer that CUPTI has filled with records and handed back. CUPTI calls the functions below from
 * its own threads and from the program's, holding its own locks. So they never call CUPTI and never
 * wait for anything that might. */

struct full_buffer {
    uint8_t *bytes;
    size_t valid_bytes;
};

/* `many` is called, from any thread, when more than a few buffers wait to be read. */
void buffer_queue_set_up(void (*many)(void *data), void *data);

/* For cuptiActivityRegisterCallbacks. The callbacks carry no context, so there is one queue per
 * process. No buffer is given while too many wait to be read; CUPTI then drops records and counts
 * them. */
void CUPTIAPI buffer_queue_request(uint8_t **buffer, size_t *bytes, size_t *most_records);
void CUPTIAPI buffer_queue_complete(CUcontext context, uint32_t stream, uint8_t *buffer,
                                    size_t bytes, size_t valid_bytes);

/* Takes the oldest full buffer, to be released with buffer_queue_release. Returns false if there is
 * none. */
bool buffer_queue_take(struct full_buffer *buffer);
void buffer_queue_release(const struct full_buffer *buffer);

#endif
