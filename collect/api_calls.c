#include "collect/api_calls.h"

#include <string.h>

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
    if (!library->cuptiActivityEnableRuntimeApi || !library->cuptiActivityEnableDriverApi)
        return record_all(library, on, error);
    for (uint32_t callback = 1; callback < API_CALLS; callback++) {
        const char *runtime = api_calls_name(library, CALL_RUNTIME, callback);
        const char *driver = api_calls_name(library, CALL_DRIVER, callback);
        if (!runtime && !driver)
            break;
        CUptiResult result = CUPTI_SUCCESS;
        if (runtime && is_chosen(runtime))
            result = library->cuptiActivityEnableRuntimeApi(callback, on);
        if (result == CUPTI_SUCCESS && driver && is_chosen(driver))
            result = library->cuptiActivityEnableDriverApi(callback, on);
        if (!cupti_library_good(library, result, "turning records of calls on or off", error))
            return false;
    }
    return true;
}

static enum api_role role_of(const char *name)
{
    static const char *const launches[] = {"cuLaunch", "cudaLaunch", "cuGraphLaunch",
                                           "cudaGraphLaunch"};
    static const char *const waits[] = {"cuCtxSynchronize",      "cuStreamSynchronize",
                                        "cuEventSynchronize",    "cudaDeviceSynchronize",
                                        "cudaStreamSynchronize", "cudaEventSynchronize",
                                        "cuMemcpyDtoH_v2",       "cudaMemcpy_v"};
    for (size_t i = 0; i < G_N_ELEMENTS(launches); i++)
        if (g_str_has_prefix(name, launches[i]) && !strstr(name, "HostFunc"))
            return API_LAUNCH;
    for (size_t i = 0; i < G_N_ELEMENTS(waits); i++)
        if (g_str_has_prefix(name, waits[i]))
            return API_WAIT;
    return API_OTHER;
}

void api_calls_find_roles(const struct cupti_library *library, enum call_class api, uint8_t *roles)
{
    memset(roles, API_OTHER, API_CALLS);
    for (uint32_t callback = 1; callback < API_CALLS; callback++) {
        const char *name = api_calls_name(library, api, callback);
        if (!name)
            break;
        roles[callback] = (uint8_t)role_of(name);
    }
}

bool api_calls_watch(const struct cupti_library *library, CUpti_SubscriberHandle subscriber,
                     enum call_class api, const uint8_t *roles, bool on, GError **error)
{
    bool good = true;
    for (uint32_t callback = 1; good && callback < API_CALLS; callback++)
        if (roles[callback] != API_OTHER)
            good = cupti_library_good(
                library, library->cuptiEnableCallback(on, subscriber, domain_of(api), callback),
                "cuptiEnableCallback", error);
    return good;
}
