#include "planner/choices_tried.h"

#include "planner/any_layout.h"
#include "planner/least.h"
#include "planner/needs.h"
#include "planner/placement.h"
#include "sim/layout_list.h"
#include "sim/replay.h"

#include <math.h>
#include <string.h>

/* How much worse than the best plan a choice's may be at a glance to be searched wholly. What is
 * offloaded makes for as many chunks again, and its searches take several times as long. */
#define NEARLY           1.03
#define NEARLY_OFFLOADED 1.0

#define FIRST_SHARE 0.6  /* of a limited time, for the choice that is searched first */
#define LEAST_TIME  1e-3 /* seconds; 0 would be no limit */

enum {
    SHARES = 4,   /* of the layers, tried first */
    HALVINGS = 3, /* of a share, about the best */
};

static void tried_free(void *data)
{
    struct tried *tried = data;

    g_free(tried->recompute);
    g_free(tried->offload);
    trace_free(tried->trace);
    plan_free(tried->plan);
    g_free(tried->as_alternative.recompute);
    g_free(tried->as_alternative.offload);
    g_free(tried);
}

/* With a share of the time that is left of the options' limit; where there is none, the search is
 * over. */
static struct search_options remaining(struct choices *c, double share)
{
    struct search_options options = *c->options;

    if (c->deadline) {
        double left = (double)(c->deadline - g_get_monotonic_time()) * 1e-6;
        c->stopped |= left <= 0;
        options.time_limit = fmax(share * left, LEAST_TIME);
    }
    return options;
}

static struct tried *find(const struct choices *c, struct model_choice choice, uint32_t batch)
{
    for (guint i = 0; i < c->tried->len; i++) {
        struct tried *tried = g_ptr_array_index(c->tried, i);
        if (tried->as_alternative.batch == batch &&
            tried->host_embedding == choice.host_embedding &&
            !memcmp(tried->recompute, choice.recompute, c->layers) &&
            !memcmp(tried->offload, choice.offload, c->layers))
            return tried;
    }
    return NULL;
}

/* Takes `trace`. */
static struct tried *add(struct choices *c, struct model_choice choice, struct trace *trace)
{
    struct tried *tried = g_new0(struct tried, 1);
    struct certificate_alternative *a = &tried->as_alternative;

    tried->recompute = g_memdup2(choice.recompute, c->layers);
    tried->offload = g_memdup2(choice.offload, c->layers);
    while (tried->first < c->layers && choice.recompute[tried->first])
        tried->first++;
    tried->host_embedding = choice.host_embedding;
    tried->trace = trace;
    a->recompute = trace_layers_format(choice.recompute, c->layers);
    a->offload = trace_layers_format(choice.offload, c->layers);
    a->host_embedding = choice.host_embedding;
    a->batch = trace->batch;
    a->micro_batches = trace->micro_batches;
    a->bound = any_layout_best(trace, c->options->platform, &a->host_price);
    g_ptr_array_add(c->tried, tried);
    return tried;
}

/* Other layers are offloaded than in the trace. */
static bool is_offload_other(const struct choices *c, const struct tried *tried)
{
    return memcmp(tried->offload, c->traced_offload, c->layers) != 0;
}

static void judge_by_time(struct choices *c, struct tried *tried)
{
    uint8_t *outcome = &tried->as_alternative.outcome;

    if (c->options->objective == OBJECTIVE_TIME &&
        tried->as_alternative.bound >= choices_nanoseconds(c->best->plan))
        *outcome = CERTIFICATE_BOUNDED;
    else if (!needs_are_met(tried->trace, c->options, NULL))
        *outcome = CERTIFICATE_DOES_NOT_FIT;
    else
        choices_glance(c, tried);
}

/* What needs more than the best plan's budget is no better; what does not, is searched wholly. */
static void judge_by_memory(struct choices *c, struct tried *tried)
{
    struct search_options options = remaining(c, 1);

    options.device_bytes = c->best->plan->device_budget;
    if (!needs_are_met(tried->trace, &options, NULL)) {
        tried->as_alternative.outcome = CERTIFICATE_DOES_NOT_FIT;
        return;
    }
    struct search_result *result = choices_search_wholly(tried->trace, &options, NULL);
    if (!result)
        return;
    c->stopped |= result->stopped;
    choices_take_plan(c, tried, g_steal_pointer(&result->plan));
    search_result_free(result);
}

static bool go_on(struct choices *c)
{
    const struct search_options options = remaining(c, 1);

    c->stopped |= options.progress &&
                  !options.progress(options.progress_data, c->tried->len, c->tried->len + 1);
    return !c->stopped;
}

/* The first layers computed again, as many as `first`; how the others of `rest` are is of no
 * consequence. */
static void consider(struct choices *c, int64_t first, struct model_choice rest, uint32_t batch)
{
    g_autofree uint8_t *recompute = g_new0(uint8_t, c->layers);
    const struct model_choice choice = {recompute, rest.offload, rest.host_embedding, rest.twice};
    struct trace *trace;

    if (first < 0 || first > c->layers || !go_on(c))
        return;
    memset(recompute, 1, (size_t)first);
    if (find(c, choice, batch) || !(trace = choices_trace(c, choice, batch)))
        return;
    struct tried *tried = add(c, choice, trace);
    if (c->options->objective == OBJECTIVE_MEMORY)
        judge_by_memory(c, tried);
    else
        judge_by_time(c, tried);
}

/* What is between none and all needs what is between theirs. */
static uint32_t first_step(const struct choices *c)
{
    return c->options->objective == OBJECTIVE_MEMORY ? c->layers : MAX(1, c->layers / SHARES);
}

static struct model_choice as_traced(const struct choices *c)
{
    return (struct model_choice){NULL, c->traced_offload, c->traced_host_embedding,
                                 c->traced_twice};
}

static struct model_choice as_best(const struct choices *c)
{
    return (struct model_choice){NULL, c->best->offload, c->best->host_embedding, c->traced_twice};
}

static void explore_layers(struct choices *c, uint32_t batch)
{
    for (uint32_t first = 0; first < c->layers; first += first_step(c))
        consider(c, first, as_traced(c), batch);
    consider(c, c->layers, as_traced(c), batch);
}

static void refine_layers(struct choices *c)
{
    uint32_t step = first_step(c);

    for (int i = 0; i < HALVINGS && step > 1 && step < c->layers; i++) {
        const struct model_choice best = as_best(c);
        uint32_t first = c->best->first, batch = c->best->as_alternative.batch;
        step /= 2;
        consider(c, (int64_t)first - step, best, batch);
        consider(c, (int64_t)first + step, best, batch);
    }
}

/* As in the best plan, but on the other side. */
static void explore_embedding(struct choices *c)
{
    struct model_choice other = as_best(c);

    other.host_embedding = !other.host_embedding;
    consider(c, c->best->first, other, c->best->as_alternative.batch);
}

/* Micro-batches of every size that divides the step's batch. */
static void explore(struct choices *c, const struct choices_scope *scope)
{
    uint32_t step = c->trace->batch * c->trace->micro_batches;

    explore_layers(c, c->trace->batch);
    for (uint32_t batch = step; scope->micro_batches && batch > 0; batch--)
        if (step % batch == 0)
            explore_layers(c, batch);
    refine_layers(c);
    if (scope->embedding && c->options->platform)
        explore_embedding(c);
}

/* All layers offloaded, and none, in the micro-batches of the best plan: with no layer computed
 * again, with all, and with those that the best plan has. */
static void explore_offload(struct choices *c)
{
    const uint32_t firsts[] = {c->best->first, 0, c->layers}, batch = c->best->as_alternative.batch;
    g_autofree uint8_t *offload = g_malloc(c->layers);
    const struct model_choice choice = {NULL, offload, c->best->host_embedding, c->traced_twice};

    for (int every = 1; every >= 0; every--) {
        memset(offload, every, c->layers);
        for (size_t i = 0; i < G_N_ELEMENTS(firsts); i++)
            if (memcmp(offload, c->traced_offload, c->layers) != 0 &&
                choices_offload_matters(c, firsts[i], offload))
                consider(c, firsts[i], choice, batch);
    }
    if (is_offload_other(c, c->best))
        refine_layers(c);
}

/* The best of the choices that have not been searched wholly, offloaded as traced or otherwise;
 * NULL where none has a plan. */
static struct tried *find_contender(const struct choices *c, bool offload_other)
{
    struct tried *best = NULL;

    for (guint i = 0; i < c->tried->len; i++) {
        struct tried *tried = g_ptr_array_index(c->tried, i);
        if (!tried->searched && tried->plan && is_offload_other(c, tried) == offload_other &&
            (!best || choices_prefers(c, tried->plan, best->plan)))
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
static void search_contender(struct choices *c, bool offload_other)
{
    struct tried *contender = find_contender(c, offload_other);
    g_autoptr(GPtrArray) layouts = g_ptr_array_new();
    struct search_options narrow = remaining(c, 1);
    double nearly = offload_other ? NEARLY_OFFLOADED : NEARLY;

    if (!contender || c->stopped || c->options->objective == OBJECTIVE_MEMORY ||
        value_of(c, contender->plan) > nearly * value_of(c, c->best->plan))
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
    choices_take_plan(c, contender, g_steal_pointer(&result->plan));
    search_result_free(result);
}

/* The whole search for one choice; takes `trace`. */
static bool search_first(struct choices *c, struct trace *trace, GError **error)
{
    struct trace_choices *own = trace_choices_of(trace);
    const struct model_choice choice = {own->recompute, own->offload, own->host_embedding,
                                        own->backward_twice};
    const struct search_options options = remaining(c, c->recognised ? FIRST_SHARE : 1);
    struct tried *tried = add(c, choice, trace);

    trace_choices_free(own);
    c->full = choices_search_wholly(trace, &options, error);
    if (!c->full) {
        if (!needs_are_met(trace, &options, NULL))
            tried->as_alternative.outcome = CERTIFICATE_DOES_NOT_FIT;
        return false;
    }
    c->stopped |= c->full->stopped && !c->deadline;
    choices_take_plan(c, tried, g_steal_pointer(&c->full->plan));
    return true;
}

/* The whole search for what needs little, where the traced choice does not fit. */
static bool search_lean(struct choices *c, bool offload, uint32_t batch, GError **error)
{
    g_autofree uint8_t *every = g_malloc(c->layers);
    const struct model_choice choice = {every, offload ? every : c->traced_offload,
                                        c->traced_host_embedding, c->traced_twice};
    struct trace *trace;

    memset(every, 1, c->layers);
    if (c->stopped || find(c, choice, batch) || !(trace = choices_trace(c, choice, batch)))
        return false;
    g_clear_error(error);
    return search_first(c, trace, error);
}

/* As traced; where that does not fit, with all layers computed again; where that does not, with all
 * of them offloaded too; and then with the smallest micro-batches. */
static bool begin(struct choices *c, const struct choices_scope *scope, GError **error)
{
    uint32_t batch = c->trace->batch;

    return search_first(c, trace_copy(c->trace), error) ||
           (c->recognised && search_lean(c, false, batch, error)) ||
           (c->recognised && scope->offload && search_lean(c, true, batch, error)) ||
           (c->recognised && scope->micro_batches && search_lean(c, scope->offload, 1, error));
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
        tried->as_alternative.recompute = tried->as_alternative.offload = NULL;
    }
    result->alternatives = alternatives;
    result->best = g_steal_pointer(&c->full);
    result->traced = g_steal_pointer(&c->best->trace);
    result->best->plan = g_steal_pointer(&c->best->plan);
    trace_free(result->best->trace);
    result->best->trace = placement_of_plan(result->best->plan, result->traced,
                                            c->options->platform, NULL);
    result->best->stopped |= c->stopped;
    return result;
}

static bool can_rebatch(const struct choices *c, GError **error)
{
    if (c->recognised && c->options->platform &&
        model_is_synthesised(c->recognised, c->trace, c->options->platform))
        return true;
    g_set_error(error, TRACE_ERROR, TRACE_ERROR_INVALID,
                "what other micro-batches take is not known of a measured run: collect one with "
                "each, or synthesise one for the platform");
    return false;
}

struct choices_result *choices_search(const struct trace *trace,
                                      const struct search_options *options,
                                      struct choices_scope scope, GError **error)
{
    struct trace_choices *own = trace_choices_of(trace);
    struct choices c = {.trace = trace,
                        .options = options,
                        .layers = own->layer_count,
                        .traced_offload = g_memdup2(own->offload, own->layer_count),
                        .traced_host_embedding = own->host_embedding,
                        .traced_twice = own->backward_twice,
                        .tried = g_ptr_array_new_with_free_func(tried_free)};
    struct choices_result *result = NULL;

    trace_choices_free(own);
    if (options->time_limit > 0)
        c.deadline = g_get_monotonic_time() + (gint64)(options->time_limit * 1e6);
    if (scope.layers && replay_is_timed(trace))
        c.recognised = recognise(trace, NULL);
    if ((!scope.micro_batches || can_rebatch(&c, error)) && begin(&c, &scope, error)) {
        c.best->searched = true;
        if (c.recognised && !c.stopped)
            explore(&c, &scope);
        search_contender(&c, false);
        if (c.recognised && scope.offload && !c.stopped) {
            explore_offload(&c);
            search_contender(&c, true);
        }
        result = finish(&c);
    }
    g_ptr_array_unref(c.tried);
    recognised_free(c.recognised);
    g_free(c.traced_offload);
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
