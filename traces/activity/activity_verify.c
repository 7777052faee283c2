#include "traces/activity/activity_verify.h"

struct verifying {
    const struct activity *activity;
    const char *path;
    GHashTable *names;   /* string ids that are there */
    GHashTable *devices; /* described */
    GHashTable *calls;   /* correlations; NULL: not to be checked */
    GError **error;
};

static bool refuse(const struct verifying *verifying, const char *table, uint64_t start_ns,
                   const char *what, uint32_t number)
{
    g_set_error(verifying->error, TRACE_ERROR, TRACE_ERROR_INVALID,
                "%s: %s: the row that starts at %" G_GUINT64_FORMAT " names %s %u, which is not "
                "there",
                verifying->path, table, start_ns, what, number);
    return false;
}

/* An empty table of devices describes none, and excludes none. */
static bool check(const struct verifying *verifying, const char *table, uint64_t start_ns,
                  uint32_t device, uint32_t correlation)
{
    if (g_hash_table_size(verifying->devices) > 0 &&
        !g_hash_table_contains(verifying->devices, GUINT_TO_POINTER(device)))
        return refuse(verifying, table, start_ns, "device", device);
    if (verifying->calls && !g_hash_table_contains(verifying->calls, GUINT_TO_POINTER(correlation)))
        return refuse(verifying, table, start_ns, "correlation", correlation);
    return true;
}

static bool check_name(const struct verifying *verifying, const char *table, uint64_t start_ns,
                       uint32_t name)
{
    return g_hash_table_contains(verifying->names, GUINT_TO_POINTER(name)) ||
           refuse(verifying, table, start_ns, "string", name);
}

static bool check_kernels(const struct verifying *verifying)
{
    static const char table[] = "CUPTI_ACTIVITY_KIND_KERNEL";
    for (uint32_t i = 0; i < verifying->activity->kernel_count; i++) {
        const struct kernel_record *kernel = &verifying->activity->kernels[i];
        if (!check(verifying, table, kernel->start_ns, kernel->device, kernel->correlation) ||
            !check_name(verifying, table, kernel->start_ns, kernel->name) ||
            !check_name(verifying, table, kernel->start_ns, kernel->short_name))
            return false;
    }
    return true;
}

static bool check_copies(const struct verifying *verifying)
{
    const struct activity *activity = verifying->activity;
    for (uint32_t i = 0; i < activity->copy_count; i++)
        if (!check(verifying, "CUPTI_ACTIVITY_KIND_MEMCPY", activity->copies[i].start_ns,
                   activity->copies[i].device, activity->copies[i].correlation))
            return false;
    for (uint32_t i = 0; i < activity->set_count; i++)
        if (!check(verifying, "CUPTI_ACTIVITY_KIND_MEMSET", activity->sets[i].start_ns,
                   activity->sets[i].device, activity->sets[i].correlation))
            return false;
    return true;
}

static bool check_calls(const struct verifying *verifying)
{
    const struct activity *activity = verifying->activity;
    for (uint32_t i = 0; i < activity->call_count; i++)
        if (!check_name(verifying, "CUPTI_ACTIVITY_KIND_RUNTIME", activity->calls[i].start_ns,
                        activity->calls[i].name))
            return false;
    for (uint32_t i = 0; i < activity->overhead_count; i++)
        if (activity->overheads[i].name != 0 &&
            !check_name(verifying, "CUPTI_ACTIVITY_KIND_OVERHEAD", activity->overheads[i].start_ns,
                        activity->overheads[i].name))
            return false;
    return true;
}

bool activity_verify(const struct activity *activity, const struct records *records, bool partial,
                     const char *path, GError **error)
{
    g_autoptr(GHashTable) names = g_hash_table_new(NULL, NULL);
    g_autoptr(GHashTable) devices = g_hash_table_new(NULL, NULL);
    g_autoptr(GHashTable) calls = g_hash_table_new(NULL, NULL);
    bool complete = activity->call_count > 0 && activity->dropped == 0 && !partial &&
                    activity->unreadable == 0 && !activity->chosen_calls &&
                    !records->unknown; /* other tools leave calls out */
    for (uint32_t i = 0; i < records->string_count; i++)
        g_hash_table_add(names, GUINT_TO_POINTER(records->strings[i].id));
    for (uint32_t i = 0; i < activity->gpu_count; i++)
        g_hash_table_add(devices, GUINT_TO_POINTER(activity->gpus[i].id));
    for (uint32_t i = 0; complete && i < activity->call_count; i++)
        g_hash_table_add(calls, GUINT_TO_POINTER(activity->calls[i].correlation));
    const struct verifying verifying = {.activity = activity,
                                        .path = path,
                                        .names = names,
                                        .devices = devices,
                                        .calls = complete ? calls : NULL,
                                        .error = error};
    return check_kernels(&verifying) && check_copies(&verifying) && check_calls(&verifying);
}
