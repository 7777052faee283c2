#include "planner/search/choices_explore.h"

#include "planner/search/search.h"

#include <string.h>

enum {
    SHARES = 4,   /* of the layers, tried first */
    HALVINGS = 3, /* of a share, about the best */
};

static void judge_by_time(struct variant_search *c, struct variant *variant)
{
    uint8_t *outcome = &variant->alternative.outcome;

    if (c->options->objective == OBJECTIVE_TIME &&
        variant->alternative.bound >= variants_nanoseconds(c->best->plan))
        *outcome = CERTIFICATE_BOUNDED;
    else if (!requirement_is_met(variant->trace, c->options, NULL))
        *outcome = CERTIFICATE_DOES_NOT_FIT;
    else
        variants_plan_quickly(c, variant);
}

/* What needs more than the best plan's budget is no better; what does not, is searched wholly. */
static void judge_by_memory(struct variant_search *c, struct variant *variant)
{
    struct search_options options = variants_remaining(c, 1);

    options.device_budget = c->best->plan->device_budget;
    if (!requirement_is_met(variant->trace, &options, NULL)) {
        variant->alternative.outcome = CERTIFICATE_DOES_NOT_FIT;
        return;
    }
    struct search_result *result = variants_search_fully(variant->trace, c->trace, &options, NULL);
    if (!result)
        return;
    c->stopped |= result->stopped;
    variants_take_plan(c, variant, g_steal_pointer(&result->plan));
    search_result_free(result);
}

static bool go_on(struct variant_search *c)
{
    const struct search_options options = variants_remaining(c, 1);

    c->stopped |= options.progress &&
                  !options.progress(options.progress_data, c->variants->len, c->variants->len + 1);
    return !c->stopped;
}

/* Tries the choices `rest` with the first layers computed again, as many as `first`, and the others
 * kept. */
static void consider(struct variant_search *c, int64_t first, const struct run_choices *rest)
{
    if (first < 0 || first > c->layers || !go_on(c))
        return;
    struct run_choices *run = run_choices_copy(rest);
    memset(run->recompute, 0, c->layers);
    memset(run->recompute, 1, (size_t)first);
    struct trace *trace = variants_find(c, run) ? NULL : variants_trace(c, run);
    struct variant *variant = trace ? variants_add(c, run, trace) : NULL;
    run_choices_free(run);
    if (!variant)
        return;
    if (c->options->objective == OBJECTIVE_MEMORY)
        judge_by_memory(c, variant);
    else
        judge_by_time(c, variant);
}

/* What is between none and all needs what is between theirs. */
static uint32_t first_step(const struct variant_search *c)
{
    return c->options->objective == OBJECTIVE_MEMORY ? c->layers : MAX(1, c->layers / SHARES);
}

/* Backward runs twice with one micro-batch alone. */
static struct run_choices *as_traced(const struct variant_search *c, uint32_t batch)
{
    struct run_choices *run = run_choices_copy(c->traced);
    variants_set_batch(c, run, batch);
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

    for (int i = 0; i < HALVINGS && step > 1 && step < c->layers; i++) {
        struct run_choices *best = as_best(c);
        uint32_t first = c->best->first;
        step /= 2;
        consider(c, (int64_t)first - step, best);
        consider(c, (int64_t)first + step, best);
        run_choices_free(best);
    }
}

/* As in the best plan, but on the other side. */
static void explore_embedding(struct variant_search *c)
{
    struct run_choices *other = as_best(c);
    other->host_embedding = !other->host_embedding;
    consider(c, c->best->first, other);
    run_choices_free(other);
}

/* Frameworks that fuse nothing have no halves of masters; and a trace of halves with one backward
 * is of a run without clipping, to which a second one adds nothing. */
bool variants_may_split_masters(const struct variant_search *c, unsigned scope)
{
    return scope & RUN_MASTERS && !c->recognised->iteration->job.unfused &&
           (c->traced->second_backward || !c->traced->split_masters);
}

/* Backward twice over split masters where the best plan has it once, or the other way round: with
 * the layers computed again that it has, with none, and with all. */
static void explore_masters(struct variant_search *c)
{
    const struct variant *best = c->best;
    const uint32_t firsts[] = {best->first, 0, c->layers};
    struct run_choices *other = as_best(c);
    model_choose_backward(other, c->traced, !other->second_backward);
    other->host_embedding &= !other->second_backward;
    for (size_t i = 0; i < G_N_ELEMENTS(firsts); i++)
        consider(c, firsts[i], other);
    run_choices_free(other);
    if (c->best != best)
        refine_layers(c);
}

void variants_explore(struct variant_search *c, unsigned scope)
{
    uint32_t step = c->trace->batch * c->trace->micro_batches;

    explore_layers(c, c->trace->batch);
    for (uint32_t batch = step; scope & RUN_MICRO_BATCHES && batch > 0; batch--)
        if (step % batch == 0)
            explore_layers(c, batch);
    refine_layers(c);
    if (scope & RUN_EMBEDDING && c->options->platform)
        explore_embedding(c);
    if (variants_may_split_masters(c, scope))
        explore_masters(c);
}

void variants_explore_offload(struct variant_search *c)
{
    const uint32_t firsts[] = {c->best->first, 0, c->layers};
    struct run_choices *run = as_best(c);
    for (int every = 1; every >= 0; every--) {
        memset(run->offload, every, c->layers);
        for (size_t i = 0; i < G_N_ELEMENTS(firsts); i++)
            if (memcmp(run->offload, c->traced->offload, c->layers) != 0 &&
                variants_offload_matters(c, firsts[i], run->offload))
                consider(c, firsts[i], run);
    }
    run_choices_free(run);
    if (variants_offload_differs(c, c->best))
        refine_layers(c);
}
