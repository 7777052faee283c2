#include "collect/api_calls.h"

#include <string.h>

enum { MOST_CALLS = 4096 }; /* more than either interface has */

static const char *const beginnings[] = {
    "cudaLaunch",
    "cudaGraphLaunch",
    "cudaMemcpy",
    "cudaMemset",
    "cudaMalloc",
    "cudaFree",
    "cudaHost",
    "cudaMemPool",
    "cudaMemPrefetch",
    "cudaStreamWait",
    "cudaGraphInstantiate",
    "cuLaunch",
    "cuGraphLaunch",
    "cuMemcpy",
    "cuMemset",
    "cuMemAlloc",
    "cuMemFree",
    "cuMemHost",
    "cuMemCreate",
    "cuMemRelease",
    "cuMemPool",
    "cuMemPrefetch",
    "cuStreamWait",
    "cuModuleLoad",
    "cuLibraryLoad",
    "cuGraphInstantiate",
};

static bool is_chosen(const char *name)
{
    for (size_t i = 0; i < G_N_ELEMENTS(beginnings); i++)
        if (g_str_has_prefix(name, beginnings[i]))
            return true;
    return strstr(name, "Synchronize") != NULL;
}

static CUpti_CallbackDomain domain_of(enum call_class api)
{
    return api == CALL_DRIVER ? CUPTI_CB_DOMAIN_DRIVER_API : CUPTI_CB_DOMAIN_RUNTIME_API;
}

const char *api_calls_name(const struct cupti_library *library, enum call_class api,
                           uint32_t callback)
{
    const char *name = NULL;
    CUptiResult result = library->cuptiGetCallbackName(domain_of(api), callback, &name);
    return result == CUPTI_SUCCESS ? name : NULL;
}

static bool record_all(const struct cupti_library *library, bool on, GError **error)
{
    static const CUpti_ActivityKind kinds[] = {CUPTI_ACTIVITY_KIND_RUNTIME,
                                               CUPTI_ACTIVITY_KIND_DRIVER};
    bool good = true;
    for (size_t i = 0; good && i < G_N_ELEMENTS(kinds); i++)
        good = cupti_library_good(library,
                                  on ? library->cuptiActivityEnable(kinds[i])
                                     : library->cuptiActivityDisable(kinds[i]),
                                  "turning records of calls on or off", error);
    return good;
}

bool api_calls_record(const struct cupti_library *library, bool on, GError **error)
{
    if (library->cuptiActivityEnableRuntimeApi == NULL ||
        library->cuptiActivityEnableDriverApi == NULL)
        return record_all(library, on, error);
    for (uint32_t callback = 1; callback < MOST_CALLS; callback++) {
        const char *runtime = api_calls_name(library, CALL_RUNTIME, callback);
        const char *driver = api_calls_name(library, CALL_DRIVER, callback);
        if (runtime == NULL && driver == NULL)
            break;
        CUptiResult result = CUPTI_SUCCESS;
        if (runtime != NULL && is_chosen(runtime))
            result = library->cuptiActivityEnableRuntimeApi(callback, on);
        if (result == CUPTI_SUCCESS && driver != NULL && is_chosen(driver))
            result = library->cuptiActivityEnableDriverApi(callback, on);
        if (!cupti_library_good(library, result, "turning records of calls on or off", error))
            return false;
    }
    return true;
}
