#include "planner/choices.h"

#include "models/derive.h"
#include "models/place_updates.h"
#include "planner/any_layout.h"
#include "planner/glance.h"
#include "planner/least.h"
#include "planner/needs.h"
#include "planner/placement.h"
#include "sim/layout_list.h"
#include "sim/replay.h"

#include <math.h>
#include <string.h>

/* How much worse than the best plan a choice's may be at a glance to be searched wholly. */
#define NEARLY 1.03

enum {
    SHARES = 4,   /* of the layers, tried first */
    HALVINGS = 3, /* of a share, about the best */
    COARSE_STEP = PLACEMENT_PARTS / 8,
    FINE_STEP = PLACEMENT_PARTS / 32,
};

/* One choice of layers, and what became of it. */
struct tried {
    uint8_t *recompute; /* [layers] */
    uint32_t first;     /* the layers before it are computed again, those from it on kept */
    struct trace *trace;
    struct plan *plan; /* NULL: none was made */
    struct certificate_alternative as_alternative;
};

struct choices {
    const struct trace *trace; /* as it was recorded */
    const struct search_options *options;
    struct recognised *recognised;
    uint32_t layers;
    GPtrArray *tried;           /* struct tried */
    struct tried *best;         /* with the best plan; NULL: none yet */
    struct search_result *full; /* of the choice that was searched first */
    gint64 deadline;            /* microseconds, monotonic; 0: none */
    bool stopped;
};

static void tried_free(void *data)
{
    struct tried *tried = data;

    g_free(tried->recompute);
    trace_free(tried->trace);
    plan_free(tried->plan);
    g_free(tried->as_alternative.recompute);
    g_free(tried);
}

static uint64_t nanoseconds(const struct plan *plan)
{
    return (uint64_t)llround(plan->predicted.iteration_seconds * 1e9);
}

/* Time that is left, of the options' limit; where there is none, the search is over. */
static struct search_options remaining(struct choices *c)
{
    struct search_options options = *c->options;

    if (c->deadline) {
        options.time_limit = (double)(c->deadline - g_get_monotonic_time()) * 1e-6;
        c->stopped |= options.time_limit <= 0;
    }
    return options;
}

static struct tried *find(const struct choices *c, const uint8_t *recompute)
{
    for (guint i = 0; i < c->tried->len; i++) {
        struct tried *tried = g_ptr_array_index(c->tried, i);
        if (!memcmp(tried->recompute, recompute, c->layers))
            return tried;
    }
    return NULL;
}

/* Takes `recompute`. */
static struct tried *add(struct choices *c, uint8_t *recompute, struct trace *trace)
{
    struct tried *tried = g_new0(struct tried, 1);
    struct certificate_alternative *a = &tried->as_alternative;

    tried->recompute = recompute;
    while (tried->first < c->layers && recompute[tried->first])
        tried->first++;
    tried->trace = trace;
    a->recompute = trace_layers_format(recompute, c->layers);
    a->bound = any_layout_best(trace, c->options->platform, &a->host_price);
    g_ptr_array_add(c->tried, tried);
    return tried;
}

/* For least memory, plans of different budgets are no equals. */
static bool prefers(const struct choices *c, const struct plan *plan, const struct plan *than)
{
    if (c->options->objective == OBJECTIVE_MEMORY && than &&
        plan->device_budget != than->device_budget)
        return plan->device_budget < than->device_budget;
    return objective_prefers(c->options->objective, plan, than);
}

/* Keeps the better plan of a choice, and the best of all. */
static void take_plan(struct choices *c, struct tried *tried, struct plan *plan)
{
    if (!plan || !prefers(c, plan, tried->plan)) {
        plan_free(plan);
        return;
    }
    plan_free(tried->plan);
    tried->plan = plan;
    tried->as_alternative.achieved = nanoseconds(plan);
    tried->as_alternative.achieved_traffic = objective_traffic(plan);
    if (!c->best || tried == c->best || prefers(c, plan, c->best->plan))
        c->best = tried;
}

/* A plan with the layout of the best so far; returns whether it is this choice's best. */
static bool try_placed(struct choices *c, struct tried *tried, struct trace *placed)
{
    struct plan *plan = placed ? glance(placed, c->best->plan, c->options) : NULL;
    bool better = plan && prefers(c, plan, tried->plan);

    trace_free(placed);
    take_plan(c, tried, plan);
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

/* In one direction, as long as that helps. */
static void shift_updates(struct choices *c, struct tried *tried, int *parts, int step)
{
    bool better = true;

    for (int next = *parts + step; better && next >= 0 && next <= (int)PLACEMENT_PARTS;
         next += step) {
        const struct placement placement = {PLACEMENT_SPREAD, (uint8_t)next};
        struct trace *placed = placement_trace(&placement, tried->trace, c->best->plan->layout,
                                               c->options->platform);
        better = try_placed(c, tried, placed);
        *parts = better ? next : *parts;
    }
}

/* With the updates where the best plan so far has them, and with more or fewer on the host: room
 * on the device changes what pays. */
static void try_choice(struct choices *c, struct tried *tried)
{
    static const int steps[] = {-COARSE_STEP, COARSE_STEP, -FINE_STEP, FINE_STEP};
    int parts = host_parts(c, c->best->plan);

    try_placed(c, tried,
               model_place_updates(tried->trace, c->best->plan->choices->host_update,
                                   c->options->platform, NULL));
    if (!placement_is_possible(tried->trace, c->options->platform))
        return;
    for (size_t i = 0; i < G_N_ELEMENTS(steps); i++)
        shift_updates(c, tried, &parts, steps[i]);
}

static void judge_by_time(struct choices *c, struct tried *tried)
{
    uint8_t *outcome = &tried->as_alternative.outcome;

    if (c->options->objective == OBJECTIVE_TIME &&
        tried->as_alternative.bound >= nanoseconds(c->best->plan))
        *outcome = CERTIFICATE_BOUNDED;
    else if (!needs_are_met(tried->trace, c->options, NULL))
        *outcome = CERTIFICATE_DOES_NOT_FIT;
    else
        try_choice(c, tried);
}

/* What needs more than the best plan's budget is no better; what does not, is searched wholly. */
static void judge_by_memory(struct choices *c, struct tried *tried)
{
    struct search_options options = remaining(c);

    options.device_bytes = c->best->plan->device_budget;
    if (!needs_are_met(tried->trace, &options, NULL)) {
        tried->as_alternative.outcome = CERTIFICATE_DOES_NOT_FIT;
        return;
    }
    struct search_result *result = search_plan(tried->trace, &options, NULL);
    if (!result)
        return;
    c->stopped |= result->stopped;
    take_plan(c, tried, g_steal_pointer(&result->plan));
    search_result_free(result);
}

static bool go_on(struct choices *c)
{
    const struct search_options options = remaining(c);

    c->stopped |= options.progress &&
                  !options.progress(options.progress_data, c->tried->len, c->tried->len + 1);
    return !c->stopped;
}

/* The first layers computed again, as many as `first`. */
static void consider(struct choices *c, int64_t first)
{
    g_autofree uint8_t *recompute = g_new0(uint8_t, c->layers);

    if (first < 0 || first > c->layers || !go_on(c))
        return;
    memset(recompute, 1, (size_t)first);
    if (find(c, recompute))
        return;
    struct trace *trace = model_derive(c->recognised, c->trace, recompute);
    struct tried *tried = add(c, g_steal_pointer(&recompute), trace);
    if (c->options->objective == OBJECTIVE_MEMORY)
        judge_by_memory(c, tried);
    else
        judge_by_time(c, tried);
}

static void explore(struct choices *c)
{
    uint32_t step = MAX(1, c->layers / SHARES);

    if (c->options->objective == OBJECTIVE_MEMORY)
        step = c->layers; /* what is between none and all needs what is between theirs */
    for (uint32_t first = 0; first < c->layers; first += step)
        consider(c, first);
    consider(c, c->layers);
    for (int i = 0; i < HALVINGS && step > 1 && step < c->layers; i++) {
        int64_t best = c->best->first;
        step /= 2;
        consider(c, best - step);
        consider(c, best + step);
    }
}

/* The best of the choices that have not been searched wholly; NULL where none has a plan. */
static struct tried *find_contender(const struct choices *c, const struct tried *searched)
{
    struct tried *best = NULL;

    for (guint i = 0; i < c->tried->len; i++) {
        struct tried *tried = g_ptr_array_index(c->tried, i);
        if (tried != searched && tried->plan && (!best || prefers(c, tried->plan, best->plan)))
            best = tried;
    }
    return best;
}

static double value_of(const struct choices *c, const struct plan *plan)
{
    return least_of(c->options->objective, objective_traffic(plan),
                    plan->predicted.iteration_seconds);
}

/* All placements and schedules of the best other choice, with its layout, if it is nearly as good:
 * it has had a glance only. */
static void search_contender(struct choices *c, const struct tried *searched)
{
    struct tried *contender = find_contender(c, searched);
    g_autoptr(GPtrArray) layouts = g_ptr_array_new();
    struct search_options narrow = remaining(c);

    if (!contender || c->stopped || c->options->objective == OBJECTIVE_MEMORY ||
        value_of(c, contender->plan) > NEARLY * value_of(c, c->best->plan))
        return;
    struct named_layout named = {.layout = contender->plan->layout};

    g_ptr_array_add(layouts, &named);
    narrow.layouts = layouts;
    narrow.alone = true;
    struct search_result *result = search_plan(contender->trace, &narrow, NULL);
    if (!result)
        return;
    c->stopped |= result->stopped;
    c->full->plans_tried += result->plans_tried;
    take_plan(c, contender, g_steal_pointer(&result->plan));
    search_result_free(result);
}

/* The whole search for one choice; takes `trace`. */
static bool search_first(struct choices *c, struct trace *trace, GError **error)
{
    struct trace_choices *own = trace_choices_of(trace);
    const struct search_options options = remaining(c);
    struct tried *tried = add(c, g_memdup2(own->recompute, c->layers), trace);

    trace_choices_free(own);
    c->full = search_plan(trace, &options, error);
    if (!c->full) {
        if (!needs_are_met(trace, &options, NULL))
            tried->as_alternative.outcome = CERTIFICATE_DOES_NOT_FIT;
        return false;
    }
    c->stopped |= c->full->stopped;
    take_plan(c, tried, g_steal_pointer(&c->full->plan));
    return true;
}

static bool all_are_recomputed(const struct choices *c)
{
    const struct tried *tried = g_ptr_array_index(c->tried, 0);
    return tried->first == c->layers;
}

/* As traced; where that does not fit, with as little as any choice needs. */
static bool begin(struct choices *c, GError **error)
{
    g_autofree uint8_t *every = g_malloc(c->layers);

    if (search_first(c, trace_copy(c->trace), error))
        return true;
    if (!c->recognised || all_are_recomputed(c) || c->stopped)
        return false;
    memset(every, 1, c->layers);
    g_clear_error(error);
    return search_first(c, model_derive(c->recognised, c->trace, every), error);
}

static struct choices_result *finish(struct choices *c)
{
    struct choices_result *result = g_new0(struct choices_result, 1);
    struct certificate_alternative *alternatives = g_new0(struct certificate_alternative,
                                                          c->tried->len);

    for (guint i = 0; i < c->tried->len; i++) {
        struct tried *tried = g_ptr_array_index(c->tried, i);
        if (tried == c->best)
            continue;
        struct certificate_alternative *a = &alternatives[result->alternative_count++];
        *a = tried->as_alternative;
        tried->as_alternative.recompute = NULL;
    }
    result->alternatives = alternatives;
    result->best = g_steal_pointer(&c->full);
    result->traced = g_steal_pointer(&c->best->trace);
    result->best->plan = g_steal_pointer(&c->best->plan);
    trace_free(result->best->trace);
    result->best->trace = placement_of_plan(result->best->plan, result->traced,
                                            c->options->platform, NULL);
    result->best->stopped = c->stopped;
    return result;
}

struct choices_result *choices_search(const struct trace *trace,
                                      const struct search_options *options, bool as_traced,
                                      GError **error)
{
    struct trace_choices *own = trace_choices_of(trace);
    struct choices c = {.trace = trace,
                        .options = options,
                        .layers = own->layer_count,
                        .tried = g_ptr_array_new_with_free_func(tried_free)};
    struct choices_result *result = NULL;

    trace_choices_free(own);
    if (options->time_limit > 0)
        c.deadline = g_get_monotonic_time() + (gint64)(options->time_limit * 1e6);
    if (!as_traced && replay_is_timed(trace))
        c.recognised = recognise(trace, NULL);
    if (begin(&c, error)) {
        const struct tried *searched = c.best;
        if (c.recognised && !c.stopped)
            explore(&c);
        search_contender(&c, searched);
        result = finish(&c);
    }
    g_ptr_array_unref(c.tried);
    recognised_free(c.recognised);
    return result;
}

void choices_result_free(struct choices_result *result)
{
    if (!result)
        return;
    search_result_free(result->best);
    trace_free(result->traced);
    certificate_alternatives_free(result->alternatives, result->alternative_count);
    g_free(result);
}

void choices_list(struct choices_result *result, struct certificate *certificate)
{
    certificate->alternatives = g_steal_pointer(&result->alternatives);
    certificate->alternative_count = result->alternative_count;
    result->alternative_count = 0;
}
