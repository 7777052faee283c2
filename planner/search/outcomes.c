#include "planner/search/outcomes.h"

static struct trial *trial_at(const GArray *trials, guint index)
{
    return &g_array_index(trials, struct trial, index);
}

static void trial_clear(gpointer data)
{
    struct trial *trial = data;

    plan_free(trial->plan);
    moment_times_free(trial->times);
    plan_free(trial->policy);
    plan_free(trial->strategy);
    g_clear_error(&trial->error);
}

GArray *trials_new(void)
{
    GArray *trials = g_array_new(FALSE, TRUE, sizeof(struct trial));

    g_array_set_clear_func(trials, trial_clear);
    return trials;
}

void trials_take_better(enum objective objective, struct plan **best, struct plan *plan)
{
    if (plan && objective_prefers(objective, plan, *best)) {
        plan_free(*best);
        *best = plan;
    } else {
        plan_free(plan);
    }
}

const struct plan *trials_best_policy(const GArray *trials, enum objective objective)
{
    const struct plan *best = NULL;

    for (guint i = 0; i < trials->len; i++) {
        const struct plan *plan = trial_at(trials, i)->policy;
        if (plan && objective_prefers(objective, plan, best))
            best = plan;
    }
    return best;
}

const struct plan *trials_best_strategy(const GArray *trials, enum objective objective)
{
    const struct plan *best = NULL;

    for (guint i = 0; i < trials->len; i++) {
        const struct plan *plan = trial_at(trials, i)->strategy;
        if (plan && objective_prefers(objective, plan, best))
            best = plan;
    }
    return best;
}

static bool alike(const struct trial *a, const struct trial *b, bool layouts)
{
    return a->layout == b->layout && (layouts || placement_same(&a->placement, &b->placement));
}

/* The best outcome that is not like one of those ranked; the number of outcomes: there is none. */
static guint next_best(const GArray *trials, enum objective objective, bool layouts,
                       const uint32_t *ranked, uint32_t count)
{
    guint best = trials->len;

    for (guint i = 0; i < trials->len; i++) {
        const struct trial *trial = trial_at(trials, i);
        bool taken = !trial->plan;
        for (uint32_t r = 0; r < count && !taken; r++)
            taken = alike(trial, trial_at(trials, ranked[r]), layouts);
        if (!taken && objective_prefers(objective, trial->plan,
                                        best < trials->len ? trial_at(trials, best)->plan : NULL))
            best = i;
    }
    return best;
}

uint32_t trials_rank(const GArray *trials, enum objective objective, bool layouts, uint32_t *best,
                     uint32_t most)
{
    for (uint32_t count = 0; count < most; count++) {
        best[count] = next_best(trials, objective, layouts, best, count);
        if (best[count] == trials->len)
            return count;
    }
    return most;
}

struct plan *trials_choose(const GArray *trials, enum objective objective)
{
    struct plan *best = NULL;

    for (guint i = 0; i < trials->len; i++) {
        const struct trial *trial = trial_at(trials, i);
        struct plan *plans[] = {trial->plan, trial->policy, trial->strategy};
        for (size_t p = 0; p < G_N_ELEMENTS(plans); p++)
            if (plans[p] && objective_prefers(objective, plans[p], best))
                best = plans[p];
    }
    return best ? plan_share(best) : NULL;
}

void trials_refuse(const GArray *trials, GError **error)
{
    const struct trial *least = NULL;

    for (guint i = 0; i < trials->len; i++) {
        const struct trial *trial = trial_at(trials, i);
        if (trial->error && (!least || trial->needed < least->needed))
            least = trial;
    }
    if (least)
        g_propagate_error(error, g_error_copy(least->error));
    else
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
                    "stopped before any plan was found");
}
