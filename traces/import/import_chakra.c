#include "traces/import/chakra.h"
#include "traces/import/import.h"
#include "traces/import/kineto_iteration.h"

bool import_chakra(const char *from, const char *to, GPtrArray *unknown, GError **error)
{
    const struct records nothing = {0};
    struct kineto *kineto = chakra_read(from, NULL, error);
    if (!kineto)
        return false;
    struct trace *trace = kineto_iteration(kineto, unknown);
    g_ptr_array_add(unknown, g_strdup("times: the file has the order of operators alone"));
    bool good = import_write(from, to, trace, &nothing, unknown, error);
    trace_free(trace);
    kineto_free(kineto);
    return good;
}

static void share(GArray **array, GArray *with)
{
    g_array_unref(*array);
    *array = g_array_ref(with);
}

/* What the device did, by which operators' times are found. */
static void share_device(struct kineto *kineto, const struct kineto *profile)
{
    share(&kineto->kernels, profile->kernels);
    share(&kineto->launches, profile->launches);
    share(&kineto->copies, profile->copies);
    share(&kineto->sets, profile->sets);
    share(&kineto->syncs, profile->syncs);
    share(&kineto->calls, profile->calls);
    share(&kineto->gpus, profile->gpus);
}

bool import_chakra_timed(const char *from, const char *times, const char *to, GPtrArray *unknown,
                         GError **error)
{
    struct kineto *profile = kineto_read(times, error);
    struct kineto *kineto = !profile ? NULL : chakra_read(from, profile, error);
    struct trace *trace = NULL;
    bool good = false;
    if (kineto) {
        share_device(kineto, profile);
        trace = kineto_iteration(kineto, unknown);
        for (guint i = 0; i < kineto->notes->len; i++)
            g_ptr_array_add(unknown, g_strdup((const char *)g_ptr_array_index(kineto->notes, i)));
        good = import_write_profile(from, to, trace, profile, unknown, error);
    }
    trace_free(trace);
    kineto_free(kineto);
    kineto_free(profile);
    return good;
}
