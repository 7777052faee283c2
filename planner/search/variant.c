#include "planner/search/variant.h"
#include "models/derive.h"
#include "planner/proof/bound.h"
#include "planner/schedule/placement.h"
#include "planner/search/trials.h"
#include "sim/sizes.h"
#include "sim/workers.h"

#include <math.h>
#include <string.h>

/* Returns the best plan of a short local search with this layout and the updates where they are.
 * Returns NULL if it does not fit, or if its lower bound is clearly worse than the best plan. Of
 * the options, objective, budgets, costs and seed count. */
static struct plan *plan_quickly(const struct variant_search *c, const struct trace *trace,
                                 const struct layout *layout)
{
    const struct search_options *options = c->options;
    struct non_model *non_model = non_model_place(trace);
    const struct candidate_job job = {.trace = trace,
                                      .digest = "",
                                      .non_model = non_model,
                                      .costs = options->costs,
                                      .platform = options->platform,
                                      .device_budget = options->device_budget,
                                      .host_budget = options->host_budget};
    const gint stop = 0;
    const struct trial known = {
        .plan = c->best->plan,
        .slack = c->slack,
        .lower_bound = objective_of_plan(options->objective, c->best->plan)};
    const struct trial_context context = {
        .job = &job, .objective = options->objective, .stop = &stop, .incumbent = &known};
    const struct layout_spec spec = {.given = layout};
    bool timed = options->objective != OBJECTIVE_TRAFFIC;
    struct trial trial = {.placement = {.pattern = PLACEMENT_TRACED},
                          .bias = {.parameter_share = timed ? BIAS_PARTS / 2 : 0,
                                   .d2h_share = BIAS_PARTS / 2,
                                   .gather_share = BIAS_PARTS / 2},
                          .effort = EFFORT_1,
                          .slack = SEARCH_NO_SLACK};
    trial_run(&context, &spec, options->seed, &trial);
    g_clear_error(&trial.error);
    moment_times_free(trial.times);
    non_model_free(non_model);
    return trial.plan;
}

#define LEAST_TIME 1e-3 /* seconds; 0 would be no limit */

enum {
    COARSE_STEP = PLACEMENT_PARTS / 8,
    FINE_STEP = PLACEMENT_PARTS / 32,
    SEEN_SHARE = 32, /* changes of less than this fraction of the device are ignored */
};

void variant_free(void *data)
{
    struct variant *variant = data;
    search_free(variant->search);
    trace_free(variant->trace);
    plan_free(variant->plan);
    run_choices_free(variant->alternative.choices);
    g_free(variant);
}

struct search_options variants_remaining(struct variant_search *c, double share)
{
    struct search_options options = *c->options;
    if (c->deadline) {
        double left = (double)(c->deadline - g_get_monotonic_time()) * 1e-6;
        c->stopped |= left <= 0 && c->best;
        options.time_limit = fmax(share * left, LEAST_TIME);
    }
    return options;
}

void variants_recompute_first(const struct variant_search *c, struct run_choices *run,
                              uint32_t first)
{
    if (c->recomputes_as_traced)
        return;
    memset(run->recompute, 0, c->layers);
    memset(run->recompute, 1, first);
}

/* Frameworks without fused operators have no split masters. A trace of split masters with one
 * backward belongs to a run without clipping, which gains nothing from a second backward. */
bool variants_may_split_masters(const struct run_choices *traced, const struct recognised *model,
                                unsigned scope)
{
    return scope & RUN_MASTERS && model && !model->iteration->job.unfused &&
           (traced->second_backward || !traced->split_masters);
}

uint32_t variants_list_lean(const struct run_choices *traced, const struct recognised *model,
                            unsigned scope, struct lean_choice lean[LEAN_MOST])
{
    const bool offload = scope & RUN_OFFLOAD, twice = traced->second_backward,
               masters = variants_may_split_masters(traced, model, scope);
    const uint32_t batch = traced->batch;
    uint32_t count = 0;
    lean[count++] = (struct lean_choice){true, false, twice, batch};
    if (offload)
        lean[count++] = (struct lean_choice){true, true, twice, batch};
    if (masters)
        lean[count++] = (struct lean_choice){true, false, true, batch};
    if (masters && offload)
        lean[count++] = (struct lean_choice){true, true, true, batch};
    if (offload)
        lean[count++] = (struct lean_choice){false, true, twice, batch};
    if (scope & RUN_MICRO_BATCHES)
        lean[count++] = (struct lean_choice){true, offload, twice && batch == 1, 1};
    return count;
}

struct variant *variants_find(const struct variant_search *c, const struct run_choices *run)
{
    for (guint i = 0; i < c->variants->len; i++) {
        struct variant *variant = g_ptr_array_index(c->variants, i);
        if (!(run_choices_differ(variant->alternative.choices, run) & ~(unsigned)RUN_UPDATES))
            return variant;
    }
    return NULL;
}

struct variant *variants_add(struct variant_search *c, const struct run_choices *run,
                             struct trace *trace)
{
    struct variant *variant = g_new0(struct variant, 1);
    struct certificate_alternative *a = &variant->alternative;
    while (variant->first < c->layers && run->recompute[variant->first])
        variant->first++;
    variant->trace = trace;
    a->choices = run_choices_copy(run);
    a->bound = work_bound_best(trace, c->options->platform, &a->host_price);
    g_ptr_array_add(c->variants, variant);
    return variant;
}

bool variants_offload_differs(const struct variant_search *c, const struct variant *variant)
{
    return run_choices_differ(variant->alternative.choices, c->traced) & RUN_OFFLOAD;
}

uint64_t variants_nanoseconds(const struct plan *plan)
{
    return (uint64_t)llround(plan->predicted.iteration_seconds * 1e9);
}

bool variants_is_bounded(const struct variant_search *c, const struct variant *variant)
{
    return c->options->objective == OBJECTIVE_TIME &&
           variant->alternative.bound >= variants_nanoseconds(c->best->plan);
}

bool variants_prefers(const struct variant_search *c, const struct plan *plan,
                      const struct plan *than)
{
    if (c->options->objective == OBJECTIVE_MEMORY && than &&
        plan->device_budget != than->device_budget)
        return plan->device_budget < than->device_budget;
    return objective_prefers(c->options->objective, plan, than);
}

void variants_take_plan(struct variant_search *c, struct variant *variant, struct plan *plan)
{
    if (!plan || !variants_prefers(c, plan, variant->plan)) {
        plan_free(plan);
        return;
    }
    plan_free(variant->plan);
    variant->plan = plan;
    variant->alternative.achieved = variants_nanoseconds(plan);
    variant->alternative.achieved_traffic = objective_traffic(plan);
    if (!c->best || variant == c->best || variants_prefers(c, plan, c->best->plan))
        c->best = variant;
}

/* Returns the chunk size that holds the same number of elements. */
static uint64_t chunk_bytes(const struct layout *layout, const struct trace *of,
                            const struct trace *trace, int list)
{
    uint64_t bytes = layout->chunk_bytes[list], width = of->list_element_bytes[list];
    if (!bytes)
        return layout->chunk_bytes[TRACE_PARAM];
    return width ? layout_align(bytes * trace->list_element_bytes[list] / width) : bytes;
}

struct layout *variants_layout(const struct layout *layout, const struct trace *of,
                               const struct trace *trace)
{
    struct layout_spec spec = {.given = layout};
    for (int list = 0; list < TRACE_LISTS; list++) {
        uint8_t width = trace->list_element_bytes[list];
        spec.chunk_bytes[list] = chunk_bytes(layout, of, trace, list);
        if (!layout->places[list] != !width || width != of->list_element_bytes[list])
            spec.given = NULL;
    }
    if (trace->state_block != of->state_block ||
        trace->shared_parameters != of->shared_parameters ||
        trace->whole_gradients != of->whole_gradients || trace->whole_states != of->whole_states)
        spec.given = NULL;
    return layout_pack(trace, &spec, NULL);
}

static void free_named(void *data)
{
    struct named_layout *named = data;
    layout_free(named->layout);
    g_free(named);
}

GPtrArray *variants_layouts(const struct search_options *options, const struct trace *of,
                            const struct trace *trace)
{
    GPtrArray *layouts = options->layouts ? g_ptr_array_new_with_free_func(free_named) : NULL;
    for (guint i = 0; layouts && i < options->layouts->len; i++) {
        const struct named_layout *given = g_ptr_array_index(options->layouts, i);
        struct named_layout *named = g_new0(struct named_layout, 1);
        named->layout = variants_layout(given->layout, of, trace);
        g_ptr_array_add(layouts, named);
    }
    return layouts;
}

uint64_t variants_requirement(const struct trace *trace, const struct trace *of,
                              const struct search_options *options)
{
    g_autoptr(GPtrArray) layouts = variants_layouts(options, of, trace);
    struct search_options own = *options;
    own.layouts = layouts;
    return requirement_device_bytes(trace, &own, NULL);
}

bool variants_may_fit(const struct trace *trace, const struct trace *of,
                      const struct search_options *options, GError **error)
{
    g_autoptr(GPtrArray) layouts = variants_layouts(options, of, trace);
    struct search_options own = *options;
    own.layouts = layouts;
    return requirement_is_met(trace, &own, error);
}

struct search *variants_search_new(const struct trace *trace, const struct trace *of,
                                   const struct search_options *options)
{
    g_autoptr(GPtrArray) layouts = variants_layouts(options, of, trace);
    struct search_options own = *options;
    own.layouts = layouts;
    return search_new(trace, &own);
}

struct search_result *variants_search_fully(const struct trace *trace, const struct trace *of,
                                            const struct search_options *options, GError **error)
{
    g_autoptr(GPtrArray) layouts = variants_layouts(options, of, trace);
    struct search_options own = *options;
    own.layouts = layouts;
    return search_plan(trace, &own, error);
}

/* ---- plans with low effort ---- */

enum { AT_ONCE = 3 };

/* Placements that are tried at once, beside the best plan so far. */
struct quick_plans {
    const struct variant_search *search;
    const struct layout *layout;
    struct trace *placed[AT_ONCE]; /* elements may be NULL */
    struct plan *plans[AT_ONCE];
};

static void make_quick_plan(void *data, uint32_t index)
{
    struct quick_plans *quick_plans = data;
    const struct variant_search *c = quick_plans->search;
    if (quick_plans->placed[index])
        quick_plans->plans[index] = plan_quickly(c, quick_plans->placed[index],
                                                 quick_plans->layout);
    trace_free(quick_plans->placed[index]);
}

static void make_quick_plans(struct quick_plans *quick_plans)
{
    const struct workers_job job = {.task = make_quick_plan,
                                    .data = quick_plans,
                                    .count = AT_ONCE,
                                    .threads = quick_plans->search->options->threads};
    workers_run(&job);
}

/* Takes ownership of `plan`, which may be NULL. Returns whether it is the variant's best. */
static bool take(struct variant_search *c, struct variant *variant, struct plan *plan)
{
    bool better = plan && variants_prefers(c, plan, variant->plan);
    variants_take_plan(c, variant, plan);
    return better;
}

/* Returns what the host updates, in PLACEMENT_PARTS. */
static int host_parts(const struct variant_search *c, const struct plan *plan)
{
    double on_host = 0, all = 0;
    for (uint32_t t = 0; t < c->trace->tensor_count; t++) {
        double elements = (double)c->trace->tensors[t].elements;
        all += elements;
        on_host += plan->choices->host_update[t] ? elements : 0;
    }
    return (int)lround(PLACEMENT_PARTS * on_host / all);
}

/* Returns the trace with this many parts of the optimizer on the host, or NULL if that is
 * impossible. */
static struct trace *place(const struct variant_search *c, const struct variant *variant,
                           const struct layout *layout, int parts)
{
    const struct placement placement = {PLACEMENT_SPREAD, (uint16_t)parts, 0, NULL,
                                        c->best->plan->choices->first_update};
    if (parts < 0 || parts > (int)PLACEMENT_PARTS ||
        !placement_is_possible(variant->trace, c->options->platform))
        return NULL;
    return placement_trace(&placement, variant->trace, layout, c->options->platform);
}

/* Tries one step less on the host and one more, then further steps on the better side while they
 * help. Takes ownership of `placed`, which is tried first; it may be NULL. */
static void shift_updates(struct variant_search *c, struct variant *variant,
                          const struct layout *layout, struct trace *placed, int *parts, int step)
{
    struct quick_plans quick_plans = {.search = c,
                                      .layout = layout,
                                      .placed = {placed, place(c, variant, layout, *parts - step),
                                                 place(c, variant, layout, *parts + step)}};
    int side = 0;
    make_quick_plans(&quick_plans);
    take(c, variant, quick_plans.plans[0]);
    if (take(c, variant, quick_plans.plans[1]))
        side = -step;
    if (take(c, variant, quick_plans.plans[2]))
        side = step;
    for (bool better = side != 0; better;) {
        *parts += side;
        struct trace *next = place(c, variant, layout, *parts + side);
        better = next && take(c, variant, plan_quickly(c, next, layout));
        trace_free(next);
    }
}

/* A host that embeds also updates the embedding, so that it never crosses the link. */
static void keep_embedding(const struct trace *trace, uint8_t *on_host)
{
    for (uint32_t m = 0; m < trace->operator_count; m++) {
        const struct trace_operator *op = &trace->operators[m];
        for (uint32_t i = 0;
             op->phase == TRACE_FORWARD && op->place == TRACE_ON_HOST && i < op->access_count; i++)
            on_host[trace->accesses[op->first_access + i].tensor] = 1;
    }
}

/* In very long iterations only a variant that comes this near to the best plan does. */
#define FINE_RATIO 1.005

static bool deserves_fine_steps(const struct variant_search *c, const struct variant *variant)
{
    enum objective objective = c->options->objective;
    return !iteration_is_very_long(variant->trace) ||
           (variant->plan && objective_of_plan(objective, variant->plan) <=
                                 FINE_RATIO * objective_of_plan(objective, c->best->plan));
}

void variants_plan_quickly(struct variant_search *c, struct variant *variant)
{
    int parts = host_parts(c, c->best->plan);
    struct layout *layout = variants_layout(c->best->plan->layout, c->best->trace, variant->trace);
    g_autofree uint8_t *on_host = g_memdup2(c->best->plan->choices->host_update,
                                            variant->trace->tensor_count);
    if (variant->alternative.choices->host_embedding &&
        placement_is_possible(variant->trace, c->options->platform))
        keep_embedding(variant->trace, on_host);
    shift_updates(c, variant, layout,
                  model_place_updates_from(variant->trace, on_host,
                                           c->best->plan->choices->first_update,
                                           c->options->platform, NULL),
                  &parts, COARSE_STEP);
    if (deserves_fine_steps(c, variant))
        shift_updates(c, variant, layout, NULL, &parts, FINE_STEP);
    layout_free(layout);
}

void variants_choose_sums(const struct variant_search *c, struct run_choices *run)
{
    if (!c->recognised)
        return;
    struct model_job job = c->recognised->iteration->job;
    job.choices = *run;
    job.choices.fast = c->fast;
    run->fast = model_sums(&job) != MODEL_SUMS_IN_ORDER;
}

void variants_set_batch(const struct variant_search *c, struct run_choices *run, uint32_t batch)
{
    run->batch = batch;
    run->micro_batches = c->trace->batch * c->trace->micro_batches / batch;
    variants_choose_sums(c, run);
}

struct trace *variants_trace(const struct variant_search *c, const struct run_choices *run)
{
    return derivation_trace(c->derivation, run, c->options->platform, NULL);
}

static uint64_t most_non_model(const struct trace *trace)
{
    uint64_t most = 0;
    for (uint32_t m = 0; m < trace->operator_count; m++)
        most = MAX(most, trace->non_model_bytes[m]);
    return most;
}

/* Returns the most activation bytes that chunks hold at a time. */
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

/* Offloaded bytes that are alive together and exceed the device cross the link in both directions.
 * Returns whether a plan may still be better than the best so far. */
static bool link_permits(const struct variant_search *c, const struct trace *trace)
{
    const struct search_options *o = c->options;
    uint64_t held = most_held(trace);
    uint64_t bytes = held > o->device_budget ? (held - o->device_budget) * trace->micro_batches : 0;
    uint64_t ns = MAX(costs_copy(o->costs, MOVER_H2D, bytes, 0).alone_ns,
                      costs_copy(o->costs, MOVER_D2H, bytes, 0).alone_ns);
    if (o->objective == OBJECTIVE_TRAFFIC)
        return 2 * bytes < objective_traffic(c->best->plan);
    return o->objective == OBJECTIVE_MEMORY || ns < variants_nanoseconds(c->best->plan);
}

bool variants_offload_matters(const struct variant_search *c, uint32_t first,
                              const uint8_t *offload)
{
    struct run_choices *run = run_choices_copy(c->best->alternative.choices);
    bool worth_while = false;
    variants_recompute_first(c, run, first);
    memcpy(run->offload, c->traced->offload, c->layers);
    struct trace *as_traced = variants_trace(c, run);
    memcpy(run->offload, offload, c->layers);
    struct trace *other = variants_trace(c, run);
    run_choices_free(run);
    if (as_traced && other) {
        uint64_t a = most_non_model(as_traced), b = most_non_model(other);
        worth_while = (a > b ? a - b : b - a) >= c->options->device_budget / SEEN_SHARE &&
                      link_permits(c, other);
    }
    trace_free(as_traced);
    trace_free(other);
    return worth_while;
}
