#include "report/strips_file.h"

struct strips *strips_of_operators(const char *path, const struct trace *trace)
{
    struct strips *strips = strips_new(path);
    uint64_t ns = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *ran = &trace->operators[m];
        double start = (double)ns * 1e-9, end = (double)(ns += ran->duration_ns) * 1e-9;
        bool host = ran->place == TRACE_ON_HOST;
        if (ran->duration_ns)
            strips_add(strips, host ? STRIP_HOST : STRIP_COMPUTE, start, end, ran->name)->phase =
                (uint8_t)ran->phase;
    }
    strips->seconds = (double)ns * 1e-9;
    strips->model = g_strdup(trace->model);
    strips->measured = strips->alone = true;
    strips->known[STRIP_COMPUTE] = strips->known[STRIP_HOST] = strips->known[STRIP_WAIT] = true;
    if (ns) {
        strips_complete(strips);
        return strips;
    }
    strips_free(strips);
    return NULL;
}
