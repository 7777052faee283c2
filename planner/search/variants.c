#include "planner/search/variants.h"
#include "models/derivation.h"
#include "planner/proof/bound.h"
#include "planner/schedule/placement.h"
#include "planner/search/search.h"
#include "planner/search/trials.h"
#include "planner/search/variant.h"
#include "sim/replay.h"
#include "sim/sizes.h"

#include <string.h>

/* Shares of a limited time: for the variant that is searched first, and for the other stage. */
#define FIRST_SHARE 0.6
#define STAGE_SHARE 0.5

enum {
    SHARES = 4,   /* of the layers, tried first */
    HALVINGS = 3, /* of a share, around the best */
    HALVINGS_VERY_LONG = 2,
};

/* Blocks that may be fetched, updated and written back at the same time, besides what else the
 * device holds; and the elements below which copies would be too short to be worth it. */
enum { BLOCKS_OF_DEVICE = 12, FILLING_BLOCKS = 4, LEAST_BLOCK = 1 << 16 };

/* Returns the outcome of a variant for which no plan was found within the budgets. If host memory
 * is limited, this need not prove that there is none. */
static uint8_t memory_outcome(const struct trace *trace, const struct search_options *options)
{
    return bound_excludes(trace, options->platform, options->device_budget, options->host_budget)
               ? CERTIFICATE_DOES_NOT_FIT
               : CERTIFICATE_SEARCHED;
}

static void judge_by_time(struct variant_search *c, struct variant *variant)
{
    uint8_t *outcome = &variant->alternative.outcome;
    if (variants_is_bounded(c, variant))
        *outcome = CERTIFICATE_BOUNDED;
    else if (!variants_may_fit(variant->trace, c->trace, c->options, NULL))
        *outcome = memory_outcome(variant->trace, c->options);
    else
        variants_plan_quickly(c, variant);
}

/* A variant that needs more than the best plan's budget is no better; others are searched fully. */
static void judge_by_memory(struct variant_search *c, struct variant *variant)
{
    struct search_options options = variants_remaining(c, 1);
    options.device_budget = c->best->plan->device_budget;
    if (!variants_may_fit(variant->trace, c->trace, &options, NULL)) {
        variant->alternative.outcome = memory_outcome(variant->trace, &options);
        return;
    }
    struct search_result *result = variants_search_fully(variant->trace, c->trace, &options, NULL);
    if (!result)
        return;
    c->stopped |= result->stopped;
    variants_take_plan(c, variant, g_steal_pointer(&result->plan));
    search_result_free(result);
}

static bool may_go_on(struct variant_search *c)
{
    const struct search_options options = variants_remaining(c, 1);
    c->stopped |= options.progress &&
                  !options.progress(options.progress_data, c->variants->len, c->variants->len + 1);
    return !c->stopped;
}

/* Tries the choices `rest` with the first `first` layers recomputed and the others kept. Returns
 * the variant, or NULL if there is none, or it was tried before. */
static const struct variant *consider(struct variant_search *c, int64_t first,
                                      const struct run_choices *rest)
{
    if (first < 0 || first > c->layers || !may_go_on(c))
        return NULL;
    struct run_choices *run = run_choices_copy(rest);
    variants_recompute_first(c, run, (uint32_t)first);
    struct trace *trace = variants_find(c, run) ? NULL : variants_trace(c, run);
    struct variant *variant = trace ? variants_add(c, run, trace) : NULL;
    run_choices_free(run);
    if (variant && c->options->objective == OBJECTIVE_MEMORY)
        judge_by_memory(c, variant);
    else if (variant)
        judge_by_time(c, variant);
    return variant;
}

/* Memory need grows monotonically with the number of recomputed layers, so none and all suffice. */
static uint32_t first_step(const struct variant_search *c)
{
    return c->options->objective == OBJECTIVE_MEMORY ? c->layers : MAX(1, c->layers / SHARES);
}

/* Backward runs twice with one micro-batch only. The stage is that of the best plan, and so are the
 * sums, if it has these micro-batches. */
static struct run_choices *as_traced(const struct variant_search *c, uint32_t batch)
{
    const struct run_choices *best = c->best->alternative.choices;
    struct run_choices *run = run_choices_copy(c->traced);
    run->stage = best->stage;
    variants_set_batch(c, run, batch);
    if (batch == best->batch)
        run->fast = best->fast;
    model_choose_backward(run, c->traced, c->traced->second_backward && batch == c->trace->batch);
    return run;
}

static struct run_choices *as_best(const struct variant_search *c)
{
    return run_choices_copy(c->best->alternative.choices);
}

static void explore_layers(struct variant_search *c, uint32_t batch)
{
    struct run_choices *run = as_traced(c, batch);
    for (uint32_t first = 0; first < c->layers; first += first_step(c))
        consider(c, first, run);
    consider(c, c->layers, run);
    run_choices_free(run);
}

static void refine_layers(struct variant_search *c)
{
    uint32_t step = first_step(c);
    int halvings = iteration_is_very_long(c->trace) ? HALVINGS_VERY_LONG : HALVINGS;
    for (int i = 0; i < halvings && step > 1 && step < c->layers; i++) {
        struct run_choices *best = as_best(c);
        uint32_t first = c->best->first;
        step /= 2;
        consider(c, (int64_t)first - step, best);
        consider(c, (int64_t)first + step, best);
        run_choices_free(best);
    }
}

/* Tries the choices `rest` with the recomputed layers of the best plan, with none and with all: the
 * layers that suit the best plan need not suit other choices. */
static void consider_layers(struct variant_search *c, const struct run_choices *rest)
{
    const struct variant *best = c->best;
    const uint32_t firsts[] = {best->first, 0, c->layers};
    for (size_t i = 0; i < G_N_ELEMENTS(firsts); i++)
        consider(c, firsts[i], rest);
    if (c->best != best)
        refine_layers(c);
}

/* Tries the embedding on the other side. */
static void explore_embedding(struct variant_search *c)
{
    struct run_choices *other = as_best(c);
    other->host_embedding = !other->host_embedding;
    consider_layers(c, other);
    run_choices_free(other);
}

/* Tries backward twice over split masters, or once over whole ones, whichever the best plan does
 * not have. */
static void explore_masters(struct variant_search *c)
{
    struct run_choices *other = as_best(c);
    model_choose_backward(other, c->traced, !other->second_backward);
    other->host_embedding &= !other->second_backward;
    consider_layers(c, other);
    run_choices_free(other);
}

/* Tries other recomputed layers, sizes of micro-batches in the scope, the embedding on the other
 * side, and split or whole masters. There is a best plan already. */
static void variants_explore(struct variant_search *c, unsigned scope)
{
    uint32_t step = c->trace->batch * c->trace->micro_batches;
    explore_layers(c, c->trace->batch);
    for (uint32_t batch = step; scope & RUN_MICRO_BATCHES && batch > 0; batch--)
        if (step % batch == 0)
            explore_layers(c, batch);
    refine_layers(c);
    if (scope & RUN_EMBEDDING && c->options->platform)
        explore_embedding(c);
    if (variants_may_split_masters(c->traced, c->recognised, scope))
        explore_masters(c);
}

static bool lacks_memory(const struct variant *variant)
{
    return variant && !variant->plan && variant->alternative.outcome != CERTIFICATE_BOUNDED;
}

/* The host may be too small for the activations of all layers. Then more and more layers are
 * recomputed, until it holds those of the others. */
static void explore_host_shares(struct variant_search *c, const struct run_choices *run)
{
    for (uint32_t first = first_step(c); first < c->layers; first += first_step(c))
        if (!lacks_memory(consider(c, first, run)))
            return;
}

/* Tries to offload all layers, and no layer, with the micro-batches of the best plan. Each is tried
 * with no layer recomputed, with all layers, and with the layers of the best plan. The side of the
 * embedding was chosen without, so the other one is tried again if this is better. */
static void variants_explore_offload(struct variant_search *c, unsigned scope)
{
    const uint32_t firsts[] = {c->best->first, 0, c->layers};
    struct run_choices *run = as_best(c);
    for (int every = 1; every >= 0; every--) {
        memset(run->offload, every, c->layers);
        for (size_t i = 0; i < G_N_ELEMENTS(firsts); i++) {
            if (memcmp(run->offload, c->traced->offload, c->layers) == 0 ||
                !variants_offload_matters(c, firsts[i], run->offload))
                continue;
            if (lacks_memory(consider(c, firsts[i], run)) && firsts[i] == 0 && every)
                explore_host_shares(c, run);
        }
    }
    run_choices_free(run);
    if (!variants_offload_differs(c, c->best))
        return;
    refine_layers(c);
    if (scope & RUN_EMBEDDING && c->options->platform)
        explore_embedding(c);
}

static bool cuts_any(const struct trace *trace, uint64_t state_block)
{
    for (tensor_id t = 0; t < trace->tensor_count; t++)
        if (trace_blocks_of(trace->tensors[t].elements, state_block) > 1)
            return true;
    return false;
}

static uint64_t block_of_model(const struct variant_search *c)
{
    uint64_t elements = 0;
    model_state_block(c->recognised->config, "auto", &elements, NULL);
    return elements;
}

/* Returns the elements of blocks of whose states the device holds BLOCKS_OF_DEVICE. */
static uint64_t block_of_device(const struct variant_search *c)
{
    uint64_t bytes = 0, step = TRACE_BLOCK_STEP;
    for (int list = TRACE_MASTER; list <= TRACE_EXP_AVG_SQ; list++)
        bytes += c->trace->list_element_bytes[list];
    uint64_t elements = c->options->device_budget / (BLOCKS_OF_DEVICE * bytes);
    return MAX(LEAST_BLOCK, elements / step * step);
}

/* Returns whether the states of any tensor fill much of the device. */
static bool any_fills(const struct variant_search *c)
{
    uint64_t most = FILLING_BLOCKS * block_of_device(c);
    for (tensor_id t = 0; t < c->trace->tensor_count; t++)
        if (c->trace->tensors[t].elements > most)
            return true;
    return false;
}

/* Tries the best choices with state blocks if the trace has none, and without if it has: with
 * blocks of the model's size, and with smaller ones where the states of a tensor fill much of the
 * device. This follows all searches of other variants, none of which it changes, so the plan is no
 * worse for it. A bound mostly counts parts of whole states as if they moved apart, so blocks gain
 * next to nothing where the plan is close to it. It counts very large ones as wholes. */
static void try_blocks(struct variant_search *c)
{
    const struct variant *best = c->best;
    if (best->close && !any_fills(c))
        return;
    guint from = c->variants->len;
    struct run_choices *other = as_best(c);
    if (other->state_block) {
        other->state_block = 0;
        consider(c, best->first, other);
    } else {
        uint64_t of_model = block_of_model(c), of_device = block_of_device(c);
        const uint64_t sizes[] = {of_model, of_device};
        for (size_t i = 0; i < (of_device <= of_model / 2 ? 2 : 1); i++) {
            other->state_block = sizes[i];
            if (cuts_any(c->trace, sizes[i]))
                consider(c, best->first, other);
        }
    }
    run_choices_free(other);
    if (c->best != best)
        refine_layers(c);
    struct variant *contender = variants_begin_contender(c, from, best);
    if (contender)
        variants_finish(c, contender);
}

/* ---- the stage of several ranks ---- */

/* Begins a search with baselines of its own, so that the result is no worse than they are, whatever
 * the stage. */
static void begin_stage(struct variant_search *c, struct variant *variant)
{
    const struct search_options options = variants_remaining(c, STAGE_SHARE);
    variant->search = variants_search_new(variant->trace, c->trace, &options);
    struct search_result *result = search_begin(variant->search, NULL);
    if (!result) {
        g_clear_pointer(&variant->search, search_free);
        return;
    }
    c->full->layouts_tried += result->layouts_tried;
    variants_take_result(c, variant, result);
}

/* A stage, and whether its sums may be fast: those in order are sometimes hidden better. */
struct stage_sums {
    uint8_t stage;
    bool fast;
};

static const struct stage_sums stages_sums[] = {{0, true},  {1, true}, {2, true},
                                                {2, false}, {3, true}, {3, false}};

/* Returns the choices in a stage, or NULL if they are there already, or if ranks cannot train so.
 * Buckets in stage 2 are those of stage 1. */
static struct run_choices *in_stage(const struct variant_search *c,
                                    const struct run_choices *choices, const struct stage_sums *of)
{
    struct run_choices *other = run_choices_copy(choices);
    other->stage = of->stage;
    variants_choose_sums(c, other);
    bool buckets = other->fast && of->stage < 3;
    bool possible = !of->fast ? other->fast : of->stage < 2 ? c->fast : of->stage == 3 || !buckets;
    other->fast &= of->fast;
    if (!possible || run_choices_equal(other, choices))
        g_clear_pointer(&other, run_choices_free);
    return other;
}

/* Tries the traced choices in another stage: a schedule in one says little about the others. */
static void explore_stage(struct variant_search *c, const struct stage_sums *of)
{
    struct run_choices *other = in_stage(c, c->first->alternative.choices, of);
    struct trace *trace = !other || variants_find(c, other) ? NULL : variants_trace(c, other);
    struct variant *variant = trace ? variants_add(c, other, trace) : NULL;
    run_choices_free(other);
    if (!variant || !may_go_on(c))
        return;
    if (c->options->objective == OBJECTIVE_MEMORY)
        judge_by_memory(c, variant);
    else if (variants_is_bounded(c, variant))
        variant->alternative.outcome = CERTIFICATE_BOUNDED;
    else if (!variants_may_fit(trace, c->trace, c->options, NULL))
        variant->alternative.outcome = memory_outcome(trace, c->options);
    else
        begin_stage(c, variant);
}

static void explore_stages(struct variant_search *c)
{
    for (size_t i = 0; i < G_N_ELEMENTS(stages_sums) && !c->stopped; i++)
        explore_stage(c, &stages_sums[i]);
}

/* Tries the best choices in the other stages, and in these all layers recomputed. */
static void refine_stages(struct variant_search *c)
{
    const struct variant *best = c->best;
    struct run_choices *of_best = run_choices_copy(best->alternative.choices);
    for (size_t i = 0; i < G_N_ELEMENTS(stages_sums) && !c->stopped; i++) {
        struct run_choices *other = in_stage(c, of_best, &stages_sums[i]);
        if (other) {
            consider(c, best->first, other);
            consider(c, c->layers, other);
        }
        run_choices_free(other);
    }
    run_choices_free(of_best);
    if (c->best != best)
        refine_layers(c);
}

/* Searches the variant that the others are compared with, unless nothing of it fits. Takes
 * ownership of `trace`. */
static bool search_first(struct variant_search *c, struct trace *trace, GError **error)
{
    struct run_choices *own = run_choices_of(trace);
    const struct search_options options = variants_remaining(c, c->derivation ? FIRST_SHARE : 1);
    struct variant *variant = variants_add(c, own, trace);
    run_choices_free(own);
    if (!variants_may_fit(trace, c->trace, &options, error)) {
        variant->alternative.outcome = memory_outcome(trace, &options);
        return false;
    }
    variant->search = variants_search_new(trace, c->trace, &options);
    c->full = search_begin(variant->search, error);
    if (!c->full) {
        g_clear_pointer(&variant->search, search_free);
        return false;
    }
    c->stopped |= c->full->stopped && !c->deadline;
    variant->close = c->full->close;
    c->slack = c->full->slack;
    c->first = variant;
    variants_take_plan(c, variant, g_steal_pointer(&c->full->plan));
    return true;
}

/* Searches a variant that needs little memory, if the traced one does not fit. */
static bool search_lean(struct variant_search *c, const struct lean_choice *lean, GError **error)
{
    struct run_choices *run = run_choices_copy(c->traced);
    variants_recompute_first(c, run, lean->recompute ? c->layers : 0);
    if (lean->offload)
        memset(run->offload, 1, c->layers);
    run->host_embedding &= !lean->second_backward;
    variants_set_batch(c, run, lean->batch);
    model_choose_backward(run, c->traced, lean->second_backward);
    struct trace *trace = c->stopped || variants_find(c, run) ? NULL : variants_trace(c, run);
    run_choices_free(run);
    if (!trace)
        return false;
    g_clear_error(error);
    return search_first(c, trace, error);
}

static bool begin_lean(struct variant_search *c, unsigned scope, GError **error)
{
    struct lean_choice lean[LEAN_MOST];
    uint32_t count = variants_list_lean(c->traced, c->recognised, scope, lean);
    for (uint32_t i = 0; i < count; i++)
        if (search_lean(c, &lean[i], error))
            return true;
    return false;
}

/* Ranks that share parameters need less memory than others. */
static bool begin_shared(struct variant_search *c, unsigned scope, GError **error)
{
    const struct stage_sums of = {3, true};
    struct run_choices *shared = scope & RUN_STAGE ? in_stage(c, c->traced, &of) : NULL;
    if (!shared)
        return false;
    run_choices_free(c->traced);
    c->traced = shared;
    struct trace *trace = c->stopped ? NULL : variants_trace(c, shared);
    if (!trace)
        return false;
    g_clear_error(error);
    return search_first(c, trace, error);
}

/* Searches the traced variant or, if that does not fit, one that needs less memory. */
static bool begin(struct variant_search *c, unsigned scope, GError **error)
{
    return search_first(c, trace_copy(c->trace), error) ||
           (c->derivation && (begin_shared(c, scope, error) || begin_lean(c, scope, error)));
}

static struct variants_result *finish(struct variant_search *c)
{
    struct variants_result *result = g_new0(struct variants_result, 1);
    struct certificate_alternative *alternatives = g_new0(struct certificate_alternative,
                                                          c->variants->len);
    for (guint i = 0; i < c->variants->len; i++) {
        struct variant *variant = g_ptr_array_index(c->variants, i);
        if (variant == c->best)
            continue;
        struct certificate_alternative *a = &alternatives[result->alternative_count++];
        *a = variant->alternative;
        variant->alternative.choices = NULL;
    }
    result->alternatives = alternatives;
    result->best = g_steal_pointer(&c->full);
    result->traced = g_steal_pointer(&c->best->trace);
    result->best->plan = g_steal_pointer(&c->best->plan);
    trace_free(result->best->trace);
    result->best->trace = model_place_chosen(result->traced, result->best->plan->choices,
                                             c->options->platform, NULL);
    plan_set_digest(result->best->plan, result->best->trace);
    result->best->stopped |= c->stopped;
    result->best->far = c->best->far;
    return result;
}

static bool can_rebatch(const struct variant_search *c, GError **error)
{
    if (c->recognised && c->options->platform &&
        model_is_synthesised(c->recognised, c->trace, c->options->platform))
        return true;
    g_set_error(
        error, TRACE_ERROR, TRACE_ERROR_INVALID,
        "how long other micro-batches take is unknown for a measured run: collect one trace "
        "for each size, or synthesise one for the platform");
    return false;
}

static struct variants_result *search_all(struct variant_search *c, unsigned scope, GError **error)
{
    bool staged = scope & RUN_STAGE && c->trace->ranks > 1;
    if (!begin(c, scope, error))
        return NULL;
    if (staged)
        explore_stages(c);
    if (c->derivation && !c->stopped)
        variants_explore(c, scope);
    if (staged)
        refine_stages(c);
    if (scope & RUN_OFFLOAD && !c->stopped)
        variants_explore_offload(c, scope);
    variants_begin_contenders(c);
    variants_finish_best(c);
    if (scope & RUN_STATE_BLOCKS && !c->stopped)
        try_blocks(c);
    variants_sweep_others(c);
    return finish(c);
}

struct variants_result *variants_search(const struct trace *trace,
                                        const struct search_options *options, unsigned scope,
                                        GError **error)
{
    struct run_choices *traced = run_choices_of(trace);
    struct variant_search c = {.trace = trace,
                               .options = options,
                               .layers = traced->layer_count,
                               .traced = traced,
                               .fast = traced->fast || scope & RUN_SUMS,
                               .recomputes_as_traced = !(scope & RUN_RECOMPUTE),
                               .variants = g_ptr_array_new_with_free_func(variant_free)};
    struct variants_result *result = NULL;
    if (options->time_limit > 0)
        c.deadline = g_get_monotonic_time() + (gint64)(options->time_limit * 1e6);
    if (scope & (RUN_RECOMPUTE | RUN_OFFLOAD) && replay_is_timed(trace))
        c.derivation = derivation_new(trace, NULL);
    c.recognised = derivation_model(c.derivation);
    unsigned chosen = scope & derivation_scope(c.derivation);
    if (!(scope & RUN_MICRO_BATCHES) || can_rebatch(&c, error))
        result = search_all(&c, scope & RUN_RECOMPUTE ? chosen : chosen & RUN_OFFLOAD, error);
    g_ptr_array_unref(c.variants);
    derivation_free(c.derivation);
    run_choices_free(c.traced);
    return result;
}

void variants_result_free(struct variants_result *result)
{
    if (!result)
        return;
    search_result_free(result->best);
    trace_free(result->traced);
    certificate_alternatives_free(result->alternatives, result->alternative_count);
    g_free(result);
}

void variants_list(struct variants_result *result, struct certificate *certificate)
{
    certificate->alternatives = g_steal_pointer(&result->alternatives);
    certificate->alternative_count = result->alternative_count;
    result->alternative_count = 0;
}
