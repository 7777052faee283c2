/* Names for the copies of a recording. The engine executes a plan literally, so a recording of its
 * run has the plan's copies in the plan's order. */
#include "chunks/parts.h"
#include "report/inputs.h"

/* Longer sequences are not compared; comparing may take their square. */
#define MOST_COPIES 20000

/* Returns "fetch chunk 7 (param h.0.attn.c_proj.weight)", with the first tensor or buffer in it. */
static char *copy_name(const struct plan *plan, const struct trace *trace, uint32_t chunk,
                       const char *what)
{
    const struct layout *layout = plan->layout;
    for (int list = 0; list < TRACE_ACCESS_LISTS; list++)
        for (uint32_t i = 0; layout->places[list] && i < layout_place_count(layout, list); i++)
            if (layout->places[list][i].chunk == chunk) {
                g_autofree char *name = layout_place_name(layout, trace, list, i);
                return g_strdup_printf("%s chunk %u (%s %s)", what, chunk,
                                       trace_list_name((enum trace_list)list), name);
            }
    return g_strdup_printf("%s chunk %u", what, chunk);
}

/* A copy of a plan, or a part of it. */
struct planned_copy {
    const struct plan_action *action;
    uint64_t bytes;
};

static void add_copy(GArray *copies, const struct plan *plan, const struct plan_action *action)
{
    uint64_t bytes = plan->layout->chunks[action->chunk].copy_bytes;
    uint32_t parts = copy_is_cut(plan->cut_from_bytes, bytes) ? COPY_PARTS : 1;
    for (uint32_t part = 0; part < parts; part++) {
        const struct planned_copy copy = {action,
                                          parts == 1 ? bytes : copy_part_bytes(bytes, part)};
        g_array_append_val(copies, copy);
    }
}

/* Returns the plan's copies in this direction, in their order. */
static GArray *copies_of(const struct plan *plan, const struct trace *trace, enum track track)
{
    GArray *copies = g_array_new(FALSE, FALSE, sizeof(struct planned_copy));
    for (uint32_t a = 0; a < plan->first_action[trace->operator_count + 1]; a++) {
        int kind = plan->actions[a].kind;
        bool up = kind == PLAN_FETCH, down = kind == PLAN_WRITE_BACK || kind == PLAN_FLUSH;
        if (track == TRACK_H2D ? up : down)
            add_copy(copies, plan, &plan->actions[a]);
    }
    return copies;
}

static const struct planned_copy *copy_at(const GArray *copies, guint index)
{
    return &g_array_index(copies, struct planned_copy, index % copies->len);
}

/* Returns whether the spans carry the bytes of these copies, of which `first` comes first. */
static bool matches(const GArray *spans, const GArray *copies, guint first)
{
    for (guint i = 0; i < spans->len; i++)
        if (g_array_index(spans, struct track_span, i).bytes != copy_at(copies, i + first)->bytes)
            return false;
    return true;
}

static void name_track(struct tracks *tracks, enum track track, const struct plan *plan,
                       const struct trace *trace)
{
    GArray *spans = tracks->spans[track];
    g_autoptr(GArray) copies = copies_of(plan, trace, track);
    guint first = 0;
    if (!copies->len || copies->len != spans->len || copies->len > MOST_COPIES)
        return;
    /* The last copies of a step may run while the next one has begun. */
    while (first < copies->len && !matches(spans, copies, first))
        first++;
    for (guint i = 0; first < copies->len && i < spans->len; i++) {
        const struct plan_action *copy = copy_at(copies, i + first)->action;
        const char *what = track == TRACK_H2D         ? "fetch"
                           : copy->kind == PLAN_FLUSH ? "flush"
                                                      : "write back";
        g_autofree char *name = copy_name(plan, trace, copy->chunk, what);
        g_array_index(spans, struct track_span, i).name = g_string_chunk_insert_const(tracks->names,
                                                                                      name);
    }
}

void inputs_name_copies(const struct report_inputs *inputs)
{
    for (guint i = 0; i < inputs->tracks->len; i++) {
        struct tracks *tracks = g_ptr_array_index(inputs->tracks, i);
        for (guint p = 0; tracks->measured && p < inputs->plans->len; p++) {
            const struct input_plan *input = g_ptr_array_index(inputs->plans, p);
            if (!input->trace)
                continue;
            name_track(tracks, TRACK_H2D, input->plan, input->trace->trace);
            name_track(tracks, TRACK_D2H, input->plan, input->trace->trace);
        }
    }
}
