#include "planner/search/choices_explore.h"

#include "planner/search/search.h"

#include <string.h>

enum {
    SHARES = 4,   /* of the layers, tried first */
    HALVINGS = 3, /* of a share, about the best */
};

static void judge_by_time(struct variant_search *c, struct variant *variant)
{
    uint8_t *outcome = &variant->as_alternative.outcome;

    if (c->options->objective == OBJECTIVE_TIME &&
        variant->as_alternative.bound >= variants_nanoseconds(c->best->plan))
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
        variant->as_alternative.outcome = CERTIFICATE_DOES_NOT_FIT;
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

/* The first layers computed again, as many as `first`; how the others of `rest` are is of no
 * consequence. */
static void consider(struct variant_search *c, int64_t first, struct model_choice rest,
                     uint32_t batch)
{
    g_autofree uint8_t *recompute = g_new0(uint8_t, c->layers);
    const struct model_choice choice = {recompute, rest.offload, rest.host_embedding, rest.twice};
    struct trace *trace;

    if (first < 0 || first > c->layers || !go_on(c))
        return;
    memset(recompute, 1, (size_t)first);
    if (variants_find(c, choice, batch) || !(trace = variants_trace(c, choice, batch)))
        return;
    struct variant *variant = variants_add(c, choice, trace);
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
static struct model_choice as_traced(const struct variant_search *c, uint32_t batch)
{
    return (struct model_choice){NULL, c->traced_offload, c->traced_host_embedding,
                                 c->traced_twice && batch == c->trace->batch};
}

static struct model_choice as_best(const struct variant_search *c)
{
    return (struct model_choice){NULL, c->best->offload, c->best->as_alternative.host_embedding,
                                 c->best->as_alternative.second_backward};
}

static void explore_layers(struct variant_search *c, uint32_t batch)
{
    for (uint32_t first = 0; first < c->layers; first += first_step(c))
        consider(c, first, as_traced(c, batch), batch);
    consider(c, c->layers, as_traced(c, batch), batch);
}

static void refine_layers(struct variant_search *c)
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
static void explore_embedding(struct variant_search *c)
{
    struct model_choice other = as_best(c);

    other.host_embedding = !other.host_embedding;
    consider(c, c->best->first, other, c->best->as_alternative.batch);
}

/* Frameworks that fuse nothing have no halves of masters; and a trace of halves with one backward
 * is of a run without clipping, to which a second one adds nothing. */
bool variants_may_split_masters(const struct variant_search *c, const struct variants_scope *scope)
{
    const struct model_job *job = &c->recognised->iteration->job;

    return scope->masters && !job->unfused && (c->traced_twice || !job->split_masters);
}

/* Backward twice over split masters where the best plan has it once, or the other way round: with
 * the layers computed again that it has, with none, and with all. */
static void explore_masters(struct variant_search *c)
{
    const struct variant *best = c->best;
    const uint32_t firsts[] = {best->first, 0, c->layers}, batch = best->as_alternative.batch;
    struct model_choice other = as_best(c);

    other.twice = !other.twice;
    other.host_embedding &= !other.twice;
    for (size_t i = 0; i < G_N_ELEMENTS(firsts); i++)
        consider(c, firsts[i], other, batch);
    if (c->best != best)
        refine_layers(c);
}

void variants_explore(struct variant_search *c, const struct variants_scope *scope)
{
    uint32_t step = c->trace->batch * c->trace->micro_batches;

    explore_layers(c, c->trace->batch);
    for (uint32_t batch = step; scope->micro_batches && batch > 0; batch--)
        if (step % batch == 0)
            explore_layers(c, batch);
    refine_layers(c);
    if (scope->embedding && c->options->platform)
        explore_embedding(c);
    if (variants_may_split_masters(c, scope))
        explore_masters(c);
}

void variants_explore_offload(struct variant_search *c)
{
    const uint32_t firsts[] = {c->best->first, 0, c->layers}, batch = c->best->as_alternative.batch;
    g_autofree uint8_t *offload = g_malloc(c->layers);
    const struct model_choice choice = {NULL, offload, c->best->as_alternative.host_embedding,
                                        c->best->as_alternative.second_backward};

    for (int every = 1; every >= 0; every--) {
        memset(offload, every, c->layers);
        for (size_t i = 0; i < G_N_ELEMENTS(firsts); i++)
            if (memcmp(offload, c->traced_offload, c->layers) != 0 &&
                variants_offload_matters(c, firsts[i], offload))
                consider(c, firsts[i], choice, batch);
    }
    if (variants_offload_differs(c, c->best))
        refine_layers(c);
}
