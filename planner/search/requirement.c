#include "base/size.h"
#include "planner/search/candidate.h"
#include "planner/search/search.h"
#include "sim/sizes.h"

/* Returns the least device memory of a layout and placement. Sets the error, and returns
 * UINT64_MAX, if host memory lacks whatever the device has. */
static uint64_t requirement_of(struct candidate_job *job, const struct layout_spec *spec,
                               const struct placement *placement, GError **error)
{
    uint64_t needed;
    job->device_budget = UINT64_MAX / 4;
    struct candidate *candidate = candidate_new(job, spec, placement, &needed, error);
    if (candidate && candidate->homes->device_slot_bytes) {
        /* With less room other chunks go without a slot on the host. */
        job->device_budget = 0;
        g_assert_null(candidate_new(job, spec, placement, &needed, NULL));
    }
    candidate_free(candidate);
    return needed;
}

/* Returns the layout with this number. Without layouts, each tensor has a chunk. */
static struct layout_spec spec_of(const GPtrArray *layouts, guint number)
{
    struct layout_spec spec = {.order = NULL};
    for (int list = 0; list < TRACE_LISTS; list++)
        spec.chunk_bytes[list] = LAYOUT_ALIGNMENT;
    if (layouts)
        spec.given = ((const struct named_layout *)g_ptr_array_index(layouts, number))->layout;
    return spec;
}

static bool updates_on_host(const struct trace *trace)
{
    for (uint32_t m = 0; m < trace->operator_count; m++)
        if (trace->operators[m].phase == TRACE_UPDATE_PHASE &&
            trace->operators[m].place == TRACE_ON_HOST)
            return true;
    return false;
}

uint64_t requirement_device_bytes(const struct trace *trace, const struct search_options *options,
                                  GError **error)
{
    static const struct placement placements[] = {
        {.pattern = PLACEMENT_TRACED},
        {.pattern = PLACEMENT_SPREAD, .parts = PLACEMENT_PARTS},
        {.pattern = PLACEMENT_SPREAD}}; /* of a trace with updates on the host, if that is small */
    struct non_model *non_model = non_model_place(trace);
    struct candidate_job job = {.trace = trace,
                                .non_model = non_model,
                                .costs = options->costs,
                                .platform = options->platform,
                                .host_budget = options->host_budget};
    guint layouts = options->layouts ? options->layouts->len : 1;
    size_t count = !placement_is_possible(trace, options->platform) ? 1
                   : updates_on_host(trace)                         ? G_N_ELEMENTS(placements)
                                                                    : 2;
    uint64_t least = UINT64_MAX;
    for (guint l = 0; l < layouts; l++) {
        const struct layout_spec spec = spec_of(options->layouts, l);
        for (size_t i = 0; i < count; i++)
            least = MIN(
                least, requirement_of(&job, &spec, &placements[i], error && *error ? NULL : error));
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
