/* CUPTI, loaded when a program uses CUDA: nothing of ours is linked with it, so that programs
 * without a GPU can be traced, too. */
#ifndef PSTAR_COLLECT_CUPTI_LIBRARY_H
#define PSTAR_COLLECT_CUPTI_LIBRARY_H

#include "collect/cupti_sizes.h"

#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>
#include <cupti_version.h>

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

#endif
