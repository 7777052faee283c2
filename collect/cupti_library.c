#include "collect/cupti_library.h"

#include <dlfcn.h>

/* The first that is there. Two copies in one process disturb each other: what is loaded counts
 * first. Never a stub: those lie in folders that no entry names. */
static void *find_library(void)
{
    static const char *const names[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so"};
    static const char *const paths[] = {"/usr/local/cuda/extras/CUPTI/lib64/libcupti.so",
                                        "/usr/local/cuda/lib64/libcupti.so"};
    void *library = NULL;
    for (size_t i = 0; !library && i < G_N_ELEMENTS(names); i++)
        library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL | RTLD_NOLOAD);
    for (size_t i = 0; !library && i < G_N_ELEMENTS(names); i++)
        library = dlopen(names[i], RTLD_LAZY | RTLD_LOCAL);
    for (size_t i = 0; !library && i < G_N_ELEMENTS(paths); i++)
        library = dlopen(paths[i], RTLD_LAZY | RTLD_LOCAL);
    return library;
}

static bool load_functions(struct cupti_library *library, void *handle, GError **error)
{
    const char *missing = NULL;
#define LOAD(function) *(void **)&library->function = dlsym(handle, #function);
#define NEED(function)      \
    LOAD(function)          \
    if (!library->function) \
        missing = #function;
    CUPTI_LIBRARY_FUNCTIONS(NEED)
    CUPTI_LIBRARY_NEWER_FUNCTIONS(LOAD)
#undef NEED
#undef LOAD
    if (missing)
        g_set_error(error, CUPTI_ERROR, CUPTI_ERROR_LIBRARY, "libcupti has no %s", missing);
    return missing == NULL;
}

bool cupti_library_load(struct cupti_library *library, GError **error)
{
    void *handle = find_library();
    if (!handle) {
        g_set_error_literal(error, CUPTI_ERROR, CUPTI_ERROR_LIBRARY,
                            "there is no libcupti.so here: CUDA's toolkit and the Python package "
                            "nvidia-cuda-cupti have it, LD_LIBRARY_PATH says where it is");
        return false;
    }
    return load_functions(library, handle, error) &&
           cupti_sizes_measure(library->cuptiActivityGetNextRecord, library->record_bytes, error);
}

bool cupti_library_good(const struct cupti_library *library, CUptiResult result, const char *call,
                        GError **error)
{
    if (result == CUPTI_SUCCESS)
        return true;
    const char *name = NULL;
    if (library->cuptiGetResultString(result, &name) != CUPTI_SUCCESS || !name)
        name = "an unknown error";
    g_set_error(error, CUPTI_ERROR, CUPTI_ERROR_CALL, "%s: %s (CUPTI error %d)", call, name,
                (int)result);
    return false;
}
