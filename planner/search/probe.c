#include "planner/search/probe.h"

#include "sim/layout_list.h"

struct probe {
    const struct trace *trace;
    GPtrArray *layouts; /* struct named_layout */
};

static void free_named(void *data)
{
    struct named_layout *named = data;

    layout_free(named->layout);
    g_free(named);
}

static void add(struct probe *probe, struct layout *layout)
{
    struct named_layout *named = g_new0(struct named_layout, 1);

    named->layout = layout;
    g_ptr_array_add(probe->layouts, named);
}

struct probe *probe_new(const struct trace *trace, const struct plan *plan)
{
    struct probe *probe = g_new0(struct probe, 1);

    probe->trace = trace;
    probe->layouts = g_ptr_array_new_with_free_func(free_named);
    add(probe, layout_copy(plan->layout));
    add(probe, layout_pack_uniform(trace, LAYOUT_ALIGNMENT, NULL));
    return probe;
}

void probe_free(struct probe *probe)
{
    if (!probe)
        return;
    g_ptr_array_unref(probe->layouts);
    g_free(probe);
}

struct search_result *probe_search(const struct probe *probe, const struct search_options *options)
{
    struct search_options narrow = *options;

    narrow.layouts = probe->layouts;
    return search_plan(probe->trace, &narrow, NULL);
}
