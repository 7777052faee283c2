#include "planner/answers/narrow_search.h"

#include "sim/layout_list.h"

struct narrow_search {
    const struct trace *trace;
    GPtrArray *layouts; /* struct named_layout */
};

static void free_named(void *data)
{
    struct named_layout *named = data;

    layout_free(named->layout);
    g_free(named);
}

static void add(struct narrow_search *narrow, struct layout *layout)
{
    struct named_layout *named = g_new0(struct named_layout, 1);

    named->layout = layout;
    g_ptr_array_add(narrow->layouts, named);
}

struct narrow_search *narrow_search_new(const struct trace *trace, const struct plan *plan)
{
    struct narrow_search *narrow = g_new0(struct narrow_search, 1);

    narrow->trace = trace;
    narrow->layouts = g_ptr_array_new_with_free_func(free_named);
    add(narrow, layout_copy(plan->layout));
    add(narrow, layout_pack_uniform(trace, LAYOUT_ALIGNMENT, NULL));
    return narrow;
}

void narrow_search_free(struct narrow_search *narrow)
{
    if (!narrow)
        return;
    g_ptr_array_unref(narrow->layouts);
    g_free(narrow);
}

struct search_result *narrow_search_run(const struct narrow_search *narrow,
                                        const struct search_options *options)
{
    struct search_options own = *options;

    own.layouts = narrow->layouts;
    return search_plan(narrow->trace, &own, NULL);
}
