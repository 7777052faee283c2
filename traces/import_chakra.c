#include "traces/chakra.h"
#include "traces/import.h"
#include "traces/kineto_iteration.h"

bool import_chakra(const char *from, const char *to, GPtrArray *unknown, GError **error)
{
    const struct records nothing = {0};
    struct kineto *kineto = chakra_read(from, error);
    if (kineto == NULL)
        return false;
    struct trace *trace = kineto_iteration(kineto, unknown);
    g_ptr_array_add(unknown, g_strdup("times: the file has the order of operators alone"));
    bool good = import_write(to, trace, &nothing, unknown, error);
    trace_free(trace);
    kineto_free(kineto);
    return good;
}
