#include "planner/search/outcomes.h"

static struct outcome *outcome_at(const GArray *outcomes, guint index)
{
    return &g_array_index(outcomes, struct outcome, index);
}

static void outcome_clear(gpointer data)
{
    struct outcome *outcome = data;

    plan_free(outcome->plan);
    pace_free(outcome->pace);
    plan_free(outcome->policy);
    plan_free(outcome->strategy);
    g_clear_error(&outcome->error);
}

GArray *outcomes_new(void)
{
    GArray *outcomes = g_array_new(FALSE, TRUE, sizeof(struct outcome));

    g_array_set_clear_func(outcomes, outcome_clear);
    return outcomes;
}

void outcomes_take_better(enum objective objective, struct plan **best, struct plan *plan)
{
    if (plan && objective_prefers(objective, plan, *best)) {
        plan_free(*best);
        *best = plan;
    } else {
        plan_free(plan);
    }
}

const struct plan *outcomes_best_policy(const GArray *outcomes, enum objective objective)
{
    const struct plan *best = NULL;

    for (guint i = 0; i < outcomes->len; i++) {
        const struct plan *plan = outcome_at(outcomes, i)->policy;
        if (plan && objective_prefers(objective, plan, best))
            best = plan;
    }
    return best;
}

const struct plan *outcomes_best_strategy(const GArray *outcomes, enum objective objective)
{
    const struct plan *best = NULL;

    for (guint i = 0; i < outcomes->len; i++) {
        const struct plan *plan = outcome_at(outcomes, i)->strategy;
        if (plan && objective_prefers(objective, plan, best))
            best = plan;
    }
    return best;
}

static bool alike(const struct outcome *a, const struct outcome *b, bool layouts)
{
    return a->layout == b->layout && (layouts || placement_same(&a->placement, &b->placement));
}

/* The best outcome that is not like one of those ranked; the number of outcomes: there is none. */
static guint next_best(const GArray *outcomes, enum objective objective, bool layouts,
                       const uint32_t *ranked, uint32_t count)
{
    guint best = outcomes->len;

    for (guint i = 0; i < outcomes->len; i++) {
        const struct outcome *outcome = outcome_at(outcomes, i);
        bool taken = !outcome->plan;
        for (uint32_t r = 0; r < count && !taken; r++)
            taken = alike(outcome, outcome_at(outcomes, ranked[r]), layouts);
        if (!taken &&
            objective_prefers(objective, outcome->plan,
                              best < outcomes->len ? outcome_at(outcomes, best)->plan : NULL))
            best = i;
    }
    return best;
}

uint32_t outcomes_rank(const GArray *outcomes, enum objective objective, bool layouts,
                       uint32_t *best, uint32_t most)
{
    for (uint32_t count = 0; count < most; count++) {
        best[count] = next_best(outcomes, objective, layouts, best, count);
        if (best[count] == outcomes->len)
            return count;
    }
    return most;
}

struct plan *outcomes_choose(const GArray *outcomes, enum objective objective)
{
    struct plan *best = NULL;

    for (guint i = 0; i < outcomes->len; i++) {
        const struct outcome *outcome = outcome_at(outcomes, i);
        struct plan *plans[] = {outcome->plan, outcome->policy, outcome->strategy};
        for (size_t p = 0; p < G_N_ELEMENTS(plans); p++)
            if (plans[p] && objective_prefers(objective, plans[p], best))
                best = plans[p];
    }
    return best ? plan_share(best) : NULL;
}

void outcomes_refuse(const GArray *outcomes, GError **error)
{
    const struct outcome *least = NULL;

    for (guint i = 0; i < outcomes->len; i++) {
        const struct outcome *outcome = outcome_at(outcomes, i);
        if (outcome->error && (!least || outcome->needed < least->needed))
            least = outcome;
    }
    if (least)
        g_propagate_error(error, g_error_copy(least->error));
    else
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
                    "stopped before any plan was found");
}
