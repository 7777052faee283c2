#include "planner/outcomes.h"

static uint64_t traffic(const struct plan *plan)
{
    return plan->predicted.h2d_bytes + plan->predicted.d2h_bytes;
}

static double seconds(const struct plan *plan)
{
    return plan->predicted.iteration_seconds;
}

static bool leaner(const struct plan *plan, const struct plan *than)
{
    return !than || traffic(plan) < traffic(than) ||
           (traffic(plan) == traffic(than) && seconds(plan) < seconds(than));
}

void outcomes_take_leaner(struct plan **best, struct plan *plan)
{
    if (leaner(plan, *best)) {
        plan_free(*best);
        *best = plan;
    } else {
        plan_free(plan);
    }
}

const struct plan *outcomes_best_policy(const struct outcome *outcomes, uint32_t count)
{
    const struct plan *best = NULL;

    for (uint32_t i = 0; i < count; i++)
        if (outcomes[i].policy && leaner(outcomes[i].policy, best))
            best = outcomes[i].policy;
    return best;
}

struct finalist {
    uint32_t choice;
    const struct plan *plan;
};

/* By traffic, then by time. */
static int finalists_first(const void *left, const void *right)
{
    const struct finalist *a = left, *b = right;
    if (leaner(a->plan, b->plan))
        return -1;
    if (leaner(b->plan, a->plan))
        return 1;
    return a->choice < b->choice ? -1 : 1;
}

uint32_t outcomes_rank(const struct outcome *outcomes, uint32_t count, uint32_t *choices,
                       uint32_t most)
{
    g_autoptr(GArray) ranked = g_array_new(FALSE, FALSE, sizeof(struct finalist));

    for (uint32_t i = 0; i < count; i++)
        if (outcomes[i].plan) {
            struct finalist finalist = {outcomes[i].choice, outcomes[i].plan};
            g_array_append_val(ranked, finalist);
        }
    g_array_sort(ranked, finalists_first);
    uint32_t finalists = MIN(ranked->len, most);
    for (uint32_t i = 0; i < finalists; i++)
        choices[i] = g_array_index(ranked, struct finalist, i).choice;
    return finalists;
}

/* Takes a plan out of the outcome that has it. */
static struct plan *take(struct outcome *outcomes, uint32_t count, const struct plan *plan)
{
    for (uint32_t i = 0; i < count; i++) {
        if (outcomes[i].plan == plan)
            return g_steal_pointer(&outcomes[i].plan);
        if (outcomes[i].policy == plan)
            return g_steal_pointer(&outcomes[i].policy);
    }
    g_assert_not_reached();
}

struct plan *outcomes_choose(struct outcome *outcomes, uint32_t count)
{
    const struct plan *best = NULL;

    for (uint32_t i = 0; i < count; i++) {
        if (outcomes[i].plan && leaner(outcomes[i].plan, best))
            best = outcomes[i].plan;
        if (outcomes[i].policy && leaner(outcomes[i].policy, best))
            best = outcomes[i].policy;
    }
    return take(outcomes, count, best);
}

void outcomes_refuse(const struct outcome *outcomes, uint32_t count, GError **error)
{
    const struct outcome *least = NULL;

    for (uint32_t i = 0; i < count; i++)
        if (outcomes[i].error && (!least || outcomes[i].needed < least->needed))
            least = &outcomes[i];
    if (least)
        g_propagate_error(error, g_error_copy(least->error));
    else
        g_set_error(error, PLAN_ERROR, PLAN_ERROR_DOES_NOT_FIT,
                    "stopped before any plan was found");
}

void outcomes_free(struct outcome *outcomes, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        plan_free(outcomes[i].plan);
        plan_free(outcomes[i].policy);
        g_clear_error(&outcomes[i].error);
    }
    g_free(outcomes);
}
