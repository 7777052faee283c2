#include "planner/search/choices_tried.h"

#include "models/place_updates.h"
#include "planner/proof/any_layout.h"
#include "planner/search/glance.h"
#include "planner/search/placement.h"
#include "sim/layout_list.h"
#include "sim/workers.h"

#include <math.h>
#include <string.h>

#define LEAST_TIME 1e-3 /* seconds; 0 would be no limit */

enum {
    COARSE_STEP = PLACEMENT_PARTS / 8,
    FINE_STEP = PLACEMENT_PARTS / 32,
    SEEN_SHARE = 32, /* of the device: less of it is not worth looking at */
};

void choices_tried_free(void *data)
{
    struct tried *tried = data;

    g_free(tried->recompute);
    g_free(tried->offload);
    search_free(tried->search);
    trace_free(tried->trace);
    plan_free(tried->plan);
    g_free(tried->as_alternative.recompute);
    g_free(tried->as_alternative.offload);
    g_free(tried);
}

struct search_options choices_remaining(struct choices *c, double share)
{
    struct search_options options = *c->options;

    if (c->deadline) {
        double left = (double)(c->deadline - g_get_monotonic_time()) * 1e-6;
        c->stopped |= left <= 0;
        options.time_limit = fmax(share * left, LEAST_TIME);
    }
    return options;
}

struct tried *choices_find(const struct choices *c, struct model_choice choice, uint32_t batch)
{
    for (guint i = 0; i < c->tried->len; i++) {
        struct tried *tried = g_ptr_array_index(c->tried, i);
        if (tried->as_alternative.batch == batch &&
            tried->as_alternative.host_embedding == choice.host_embedding &&
            tried->as_alternative.second_backward == choice.twice &&
            !memcmp(tried->recompute, choice.recompute, c->layers) &&
            !memcmp(tried->offload, choice.offload, c->layers))
            return tried;
    }
    return NULL;
}

struct tried *choices_add(struct choices *c, struct model_choice choice, struct trace *trace)
{
    struct tried *tried = g_new0(struct tried, 1);
    struct certificate_alternative *a = &tried->as_alternative;

    tried->recompute = g_memdup2(choice.recompute, c->layers);
    tried->offload = g_memdup2(choice.offload, c->layers);
    while (tried->first < c->layers && choice.recompute[tried->first])
        tried->first++;
    tried->trace = trace;
    a->recompute = run_layers_format(choice.recompute, c->layers);
    a->offload = run_layers_format(choice.offload, c->layers);
    a->host_embedding = choice.host_embedding;
    a->second_backward = choice.twice;
    a->batch = trace->batch;
    a->micro_batches = trace->micro_batches;
    a->bound = any_layout_best(trace, c->options->platform, &a->host_price);
    g_ptr_array_add(c->tried, tried);
    return tried;
}

bool choices_is_offload_other(const struct choices *c, const struct tried *tried)
{
    return memcmp(tried->offload, c->traced_offload, c->layers) != 0;
}

uint64_t choices_nanoseconds(const struct plan *plan)
{
    return (uint64_t)llround(plan->predicted.iteration_seconds * 1e9);
}

bool choices_prefers(const struct choices *c, const struct plan *plan, const struct plan *than)
{
    if (c->options->objective == OBJECTIVE_MEMORY && than &&
        plan->device_budget != than->device_budget)
        return plan->device_budget < than->device_budget;
    return objective_prefers(c->options->objective, plan, than);
}

void choices_take_plan(struct choices *c, struct tried *tried, struct plan *plan)
{
    if (!plan || !choices_prefers(c, plan, tried->plan)) {
        plan_free(plan);
        return;
    }
    plan_free(tried->plan);
    tried->plan = plan;
    tried->as_alternative.achieved = choices_nanoseconds(plan);
    tried->as_alternative.achieved_traffic = objective_traffic(plan);
    if (!c->best || tried == c->best || choices_prefers(c, plan, c->best->plan))
        c->best = tried;
}

/* Of as many elements. */
static uint64_t chunk_bytes(const struct layout *layout, const struct trace *of,
                            const struct trace *trace, int list)
{
    uint64_t bytes = layout->chunk_bytes[list], width = of->list_element_bytes[list];

    if (!bytes)
        return layout->chunk_bytes[TRACE_PARAM];
    return width ? layout_align(bytes * trace->list_element_bytes[list] / width) : bytes;
}

struct layout *choices_layout(const struct layout *layout, const struct trace *of,
                              const struct trace *trace)
{
    struct layout_spec spec = {.given = layout};

    for (int list = 0; list < TRACE_LISTS; list++) {
        uint8_t width = trace->list_element_bytes[list];
        spec.chunk_bytes[list] = chunk_bytes(layout, of, trace, list);
        if (!layout->places[list] != !width || width != of->list_element_bytes[list])
            spec.given = NULL;
    }
    return layout_pack(trace, &spec, NULL);
}

static void free_named(void *data)
{
    struct named_layout *named = data;

    layout_free(named->layout);
    g_free(named);
}

/* The options' layouts, which are of the trace `of`, made for this trace; NULL: they name none. */
static GPtrArray *own_layouts(const struct search_options *options, const struct trace *of,
                              const struct trace *trace)
{
    GPtrArray *layouts = options->layouts ? g_ptr_array_new_with_free_func(free_named) : NULL;

    for (guint i = 0; layouts && i < options->layouts->len; i++) {
        const struct named_layout *given = g_ptr_array_index(options->layouts, i);
        struct named_layout *named = g_new0(struct named_layout, 1);
        named->layout = choices_layout(given->layout, of, trace);
        g_ptr_array_add(layouts, named);
    }
    return layouts;
}

struct search *choices_search_new(const struct trace *trace, const struct trace *of,
                                  const struct search_options *options)
{
    g_autoptr(GPtrArray) layouts = own_layouts(options, of, trace);
    struct search_options own = *options;

    own.layouts = layouts;
    return search_new(trace, &own);
}

struct search_result *choices_search_wholly(const struct trace *trace, const struct trace *of,
                                            const struct search_options *options, GError **error)
{
    g_autoptr(GPtrArray) layouts = own_layouts(options, of, trace);
    struct search_options own = *options;

    own.layouts = layouts;
    return search_plan(trace, &own, error);
}

/* ---- a glance ---- */

enum { AT_ONCE = 3 };

/* Placements that are looked at together, beside the best plan so far. */
struct looks {
    const struct choices *choices;
    const struct layout *layout;
    struct trace *placed[AT_ONCE]; /* NULL: there is none */
    struct plan *plans[AT_ONCE];
};

static void look(void *data, uint32_t index)
{
    struct looks *looks = data;
    const struct choices *c = looks->choices;

    if (looks->placed[index])
        looks->plans[index] = glance(looks->placed[index], looks->layout, c->best->plan,
                                     c->options);
    trace_free(looks->placed[index]);
}

static void look_at_all(struct looks *looks)
{
    const struct workers_job job = {
        .task = look, .data = looks, .count = AT_ONCE, .threads = looks->choices->options->threads};
    workers_run(&job);
}

/* Returns whether the plan is this choice's best. Takes `plan`, which may be NULL. */
static bool take(struct choices *c, struct tried *tried, struct plan *plan)
{
    bool better = plan && choices_prefers(c, plan, tried->plan);

    choices_take_plan(c, tried, plan);
    return better;
}

/* Of PLACEMENT_PARTS, what the host updates. */
static int host_parts(const struct choices *c, const struct plan *plan)
{
    double on_host = 0, all = 0;

    for (uint32_t t = 0; t < c->trace->tensor_count; t++) {
        double elements = (double)c->trace->tensors[t].elements;
        all += elements;
        on_host += plan->choices->host_update[t] ? elements : 0;
    }
    return (int)lround(PLACEMENT_PARTS * on_host / all);
}

/* With so many parts of the optimizer on the host; NULL where there are not as many. */
static struct trace *place(const struct choices *c, const struct tried *tried,
                           const struct layout *layout, int parts)
{
    const struct placement placement = {PLACEMENT_SPREAD, (uint16_t)parts, 0, NULL};

    if (parts < 0 || parts > (int)PLACEMENT_PARTS ||
        !placement_is_possible(tried->trace, c->options->platform))
        return NULL;
    return placement_trace(&placement, tried->trace, layout, c->options->platform);
}

/* A step less on the host and one more, and on the better side as many as help. Takes `placed`,
 * which is looked at first; NULL: nothing is. */
static void shift_updates(struct choices *c, struct tried *tried, const struct layout *layout,
                          struct trace *placed, int *parts, int step)
{
    struct looks looks = {.choices = c,
                          .layout = layout,
                          .placed = {placed, place(c, tried, layout, *parts - step),
                                     place(c, tried, layout, *parts + step)}};
    int side = 0;

    look_at_all(&looks);
    take(c, tried, looks.plans[0]);
    if (take(c, tried, looks.plans[1]))
        side = -step;
    if (take(c, tried, looks.plans[2]))
        side = step;
    for (bool better = side != 0; better;) {
        *parts += side;
        struct trace *next = place(c, tried, layout, *parts + side);
        better = next && take(c, tried, glance(next, layout, c->best->plan, c->options));
        trace_free(next);
    }
}

/* Where the host embeds, it updates what it embeds with, too: so that never comes and goes. */
static void keep_embedding(const struct trace *trace, uint8_t *on_host)
{
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        for (uint32_t i = 0;
             op->phase == TRACE_FORWARD && op->place == TRACE_ON_HOST && i < op->access_count; i++)
            on_host[trace->accesses[op->first_access + i].tensor] = 1;
    }
}

void choices_glance(struct choices *c, struct tried *tried)
{
    int parts = host_parts(c, c->best->plan);
    struct layout *layout = choices_layout(c->best->plan->layout, c->best->trace, tried->trace);
    g_autofree uint8_t *on_host = g_memdup2(c->best->plan->choices->host_update,
                                            tried->trace->tensor_count);

    if (tried->as_alternative.host_embedding &&
        placement_is_possible(tried->trace, c->options->platform))
        keep_embedding(tried->trace, on_host);
    shift_updates(c, tried, layout,
                  model_place_updates(tried->trace, on_host, c->options->platform, NULL), &parts,
                  COARSE_STEP);
    shift_updates(c, tried, layout, NULL, &parts, FINE_STEP);
    layout_free(layout);
}

struct trace *choices_trace(const struct choices *c, struct model_choice choice, uint32_t batch)
{
    uint32_t micro_batches = c->trace->batch * c->trace->micro_batches / batch;

    if (batch == c->trace->batch)
        return model_derive(c->recognised, c->trace, choice, c->options->platform);
    return model_rebatch(c->recognised, c->trace, c->options->platform, batch, micro_batches,
                         choice);
}

static uint64_t most_non_model(const struct trace *trace)
{
    uint64_t most = 0;

    for (uint32_t m = 0; m < trace->operator_count; m++)
        most = MAX(most, trace->non_model_bytes[m]);
    return most;
}

/* The most that chunks hold of activations at a time. */
static uint64_t most_held(const struct trace *trace)
{
    g_autofree uint8_t *held = trace_held_buffers(trace);
    g_autofree uint64_t *change = g_new0(uint64_t, trace->operator_count + 1);
    uint64_t alive = 0, most = 0;

    for (uint32_t b = 0; held && b < trace->buffer_count; b++)
        if (held[b]) {
            change[trace->buffers[b].first] += trace->buffers[b].bytes;
            change[trace->buffers[b].last + 1] -= trace->buffers[b].bytes;
        }
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        alive += change[m]; /* unsigned wrap-around cancels out */
        most = MAX(most, alive);
    }
    return most;
}

/* What is alive at a time and exceeds the device crosses the link in both directions: whether a
 * plan may be better than the best so far. */
static bool link_permits(const struct choices *c, const struct trace *trace)
{
    const struct search_options *o = c->options;
    uint64_t held = most_held(trace);
    uint64_t bytes = held > o->device_bytes ? (held - o->device_bytes) * trace->micro_batches : 0;
    uint64_t ns = MAX(costs_copy(o->costs, MOVER_H2D, bytes, 0).alone_ns,
                      costs_copy(o->costs, MOVER_D2H, bytes, 0).alone_ns);

    if (o->objective == OBJECTIVE_TRAFFIC)
        return 2 * bytes < objective_traffic(c->best->plan);
    return o->objective == OBJECTIVE_MEMORY || ns < choices_nanoseconds(c->best->plan);
}

bool choices_offload_matters(const struct choices *c, uint32_t first, const uint8_t *offload)
{
    g_autofree uint8_t *recompute = g_new0(uint8_t, c->layers);
    struct model_choice choice = {recompute, c->traced_offload,
                                  c->best->as_alternative.host_embedding,
                                  c->best->as_alternative.second_backward};
    uint32_t batch = c->best->as_alternative.batch;
    struct trace *as_traced, *other;
    bool worth_while = false;

    memset(recompute, 1, first);
    as_traced = choices_trace(c, choice, batch);
    choice.offload = offload;
    other = choices_trace(c, choice, batch);
    if (as_traced && other) {
        uint64_t a = most_non_model(as_traced), b = most_non_model(other);
        worth_while = (a > b ? a - b : b - a) >= c->options->device_bytes / SEEN_SHARE &&
                      link_permits(c, other);
    }
    trace_free(as_traced);
    trace_free(other);
    return worth_while;
}
