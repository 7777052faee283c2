/* Searches of variants that seem good to their ends. All variants have plans with low effort. */
#include "planner/search/search.h"
#include "planner/search/trials.h"
#include "planner/search/variant.h"
#include "sim/sizes.h"

/* The ratio to the first variant's plan up to which another variant's plan, with low effort, is
 * searched further. Offloading doubles the number of chunks, and the search takes several times as
 * long; so it does in very long iterations. In iterations of few operators all searches are quick,
 * and there low effort says little. */
#define NEARLY       1.05
#define NEARLY_SLOW  1.0
#define NEARLY_QUICK 1.5

/* The most variants that were second to the first and are searched, too. Low effort does not tell
 * the best of those that are alike. An iteration with at most so many operators is searched
 * quickly. */
enum {
    FEW_OPERATORS = 500,
    CONTENDERS_QUICK = 3,
    MORE_OPERATORS = 2000,
    CONTENDERS = 2,
    CONTENDERS_SLOW = 1
};

/* Variants are alike if they recompute the same layers but for this part of all. */
enum { ALIKE_PART = 16 };

static double how_nearly(const struct variant_search *c, const struct variant *variant)
{
    if (c->trace->operator_count <= FEW_OPERATORS)
        return NEARLY_QUICK;
    return variants_offload_differs(c, variant) || iteration_is_very_long(variant->trace)
               ? NEARLY_SLOW
               : NEARLY;
}

/* Returns whether a variant with hardly more or fewer layers recomputed has been searched. */
static bool has_searched_alike(const struct variant_search *c, const struct variant *variant)
{
    for (guint i = 0; i < c->variants->len; i++) {
        const struct variant *other = g_ptr_array_index(c->variants, i);
        uint32_t apart = MAX(other->first, variant->first) - MIN(other->first, variant->first);
        unsigned differ = run_choices_differ(other->alternative.choices,
                                             variant->alternative.choices);
        if ((other == c->first || other->search) && apart <= c->layers / ALIKE_PART &&
            !(differ & ~(unsigned)RUN_RECOMPUTE))
            return true;
    }
    return false;
}

/* Returns the best of the variants with low effort from the variant numbered `from` on, and with
 * `unlike` only of those that differ from the searched ones by more than a few layers. Returns NULL
 * if it is not good enough beside `than`, or if its search has begun. */
static struct variant *find_best(const struct variant_search *c, guint from,
                                 const struct variant *than, bool unlike)
{
    struct variant *best = NULL;
    for (guint i = from; i < c->variants->len; i++) {
        struct variant *variant = g_ptr_array_index(c->variants, i);
        if (variant != c->first && variant->plan && !variant->search &&
            objective_of_plan(c->options->objective, variant->plan) <=
                how_nearly(c, variant) * objective_of_plan(c->options->objective, than->plan) &&
            (!best || variants_prefers(c, variant->plan, best->plan)) &&
            !(unlike && has_searched_alike(c, variant)))
            best = variant;
    }
    return best;
}

/* Variants that are alike have plans that are, so one that is not goes first. */
static struct variant *find_contender(const struct variant_search *c, guint from,
                                      const struct variant *than)
{
    struct variant *best = find_best(c, from, than, true);
    return best ? best : find_best(c, from, than, false);
}

void variants_take_result(struct variant_search *c, struct variant *variant,
                          struct search_result *result)
{
    if (!result)
        return;
    search_baselines_take_better(c->options->objective, c->full, result);
    c->full->plans_tried += result->plans_tried;
    c->slack = result->slack;
    c->stopped |= result->stopped && !c->deadline;
    variant->close |= result->close;
    variant->far = result->far;
    variants_take_plan(c, variant, g_steal_pointer(&result->plan));
    search_result_free(result);
}

/* Searches from the layout that the variant has, and tries others if that is affordable. */
static struct search *search_from(struct variant_search *c, const struct variant *variant)
{
    g_autoptr(GPtrArray) layouts = g_ptr_array_new();
    struct named_layout named = {.layout = variant->plan->layout};
    struct search_options options = variants_remaining(c, 1);
    options.alone = true;
    options.start = variant->plan->layout;
    if (!variants_offload_differs(c, variant))
        return variants_search_new(variant->trace, c->trace, &options);
    g_ptr_array_add(layouts, &named);
    options.layouts = layouts;
    return search_new(variant->trace, &options);
}

struct variant *variants_begin_contender(struct variant_search *c, guint from,
                                         const struct variant *than)
{
    struct variant *contender = find_contender(c, from, than);
    variants_remaining(c, 1);
    if (!contender || c->stopped || c->options->objective == OBJECTIVE_MEMORY)
        return NULL;
    contender->search = search_from(c, contender);
    variants_take_result(c, contender, search_begin(contender->search, NULL));
    return contender;
}

/* Runs the second part of a search that was begun. */
static void go_on(struct variant_search *c, struct variant *variant)
{
    const struct search_options options = variants_remaining(c, 1);
    if (variant->search && !c->stopped)
        variants_take_result(c, variant, search_go_on(variant->search, options.time_limit, NULL));
}

/* Runs the last part. */
static void end(struct variant_search *c, struct variant *variant)
{
    const struct search_options options = variants_remaining(c, 1);
    if (!variant->search || c->stopped)
        return;
    variants_take_result(c, variant, search_end(variant->search, options.time_limit, NULL));
    g_clear_pointer(&variant->search, search_free);
    variant->swept = true;
}

void variants_finish(struct variant_search *c, struct variant *variant)
{
    go_on(c, variant);
    end(c, variant);
}

/* Returns whether other searches may still find a better plan than that of the best variant, which
 * may have had low effort only. */
static bool others_may_gain(const struct variant_search *c)
{
    const struct variant *best = c->best;
    return c->trace->operator_count <= MORE_OPERATORS &&
           (best->search ? search_is_far(best->search) : !best->close);
}

/* In iterations of few operators all searches that were begun are finished, since only then it
 * shows which is best. In longer ones the other searches, and one more, go on if the best plan is
 * far above its bound, and only the last part is left to the best one. */
void variants_finish_best(struct variant_search *c)
{
    bool quick = c->trace->operator_count <= FEW_OPERATORS;
    void (*search)(struct variant_search * c, struct variant * variant) = quick ? variants_finish
                                                                                : go_on;
    struct variant *best = c->best;
    search(c, best);
    bool others = quick || others_may_gain(c);
    if (others && !quick)
        variants_begin_contender(c, 0, c->first);
    for (guint i = 0; i < c->variants->len && others; i++) {
        struct variant *other = g_ptr_array_index(c->variants, i);
        if (other != best)
            search(c, other);
    }
    end(c, c->best);
}

void variants_begin_contenders(struct variant_search *c)
{
    uint32_t operators = c->trace->operator_count;
    uint32_t most = operators <= FEW_OPERATORS    ? CONTENDERS_QUICK
                    : operators <= MORE_OPERATORS ? CONTENDERS
                                                  : CONTENDERS_SLOW;
    for (uint32_t i = 0; i < most && !(i && most < CONTENDERS_QUICK && c->best->close); i++)
        variants_begin_contender(c, 0, c->first);
}

/* Returns whether the baselines of a variant may beat the best plan: those of the first one, of one
 * whose search was begun, and with all layers recomputed. */
static bool may_be_swept(const struct variant_search *c, const struct variant *variant)
{
    bool recomputes_all = variant->first == c->layers && !variants_offload_differs(c, variant);
    return !variant->swept && !variants_is_bounded(c, variant) &&
           (variant->search || variant == c->first ||
            (recomputes_all && variant->alternative.outcome == CERTIFICATE_SEARCHED));
}

void variants_sweep_others(struct variant_search *c)
{
    for (guint i = 0; i < c->variants->len && c->options->objective != OBJECTIVE_MEMORY; i++) {
        struct variant *variant = g_ptr_array_index(c->variants, i);
        const struct search_options options = variants_remaining(c, 1);
        if (c->stopped || !may_be_swept(c, variant))
            continue;
        if (!variant->search)
            variant->search = variants_search_new(variant->trace, c->trace, &options);
        variants_take_result(
            c, variant,
            search_only_sweep(variant->search, c->best->plan, options.time_limit, NULL));
        g_clear_pointer(&variant->search, search_free);
    }
}
