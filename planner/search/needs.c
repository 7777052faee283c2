#include "planner/search/needs.h"

#include "planner/search/candidate.h"
#include "traces/size.h"

uint64_t requirement_device_bytes(const struct trace *trace, const struct search_options *options,
                                  GError **error)
{
    static const struct placement placements[] = {{PLACEMENT_TRACED, 0, 0, NULL},
                                                  {PLACEMENT_SPREAD, PLACEMENT_PARTS, 0, NULL}};
    struct non_model *non_model = non_model_place(trace);
    const struct candidate_job job = {.trace = trace,
                                      .non_model = non_model,
                                      .costs = options->costs,
                                      .platform = options->platform,
                                      .device_budget = UINT64_MAX / 4,
                                      .host_budget = options->host_budget};
    struct layout_spec spec = {.order = NULL};
    size_t count = placement_is_possible(trace, options->platform) ? 2 : 1;
    uint64_t least = UINT64_MAX;

    for (int list = 0; list < TRACE_LISTS; list++)
        spec.chunk_bytes[list] = LAYOUT_ALIGNMENT;
    for (size_t i = 0; i < count; i++) {
        uint64_t needed;
        candidate_free(
            candidate_new(&job, &spec, &placements[i], &needed, error && *error ? NULL : error));
        least = MIN(least, needed);
    }
    if (least != UINT64_MAX)
        g_clear_error(error);
    non_model_free(non_model);
    return least;
}

bool requirement_is_met(const struct trace *trace, const struct search_options *options,
                        GError **error)
{
    uint64_t needed = requirement_device_bytes(trace, options, error);

    if (needed == UINT64_MAX || needed <= options->device_budget)
        return needed != UINT64_MAX;
    g_autofree char *device = size_format(needed);
    g_autofree char *budget = size_format(options->device_budget);
    g_autofree char *host = options->host_budget == UINT64_MAX ? g_strdup("any size")
                                                               : size_format(options->host_budget);
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
                "device memory: %s are needed beside a host memory of %s, and the budget is %s",
                device, host, budget);
    return false;
}
