#include "planner/outcomes.h"

/* Plans as fast as this, relative to the fastest, are chosen by what they move; and by time those
 * that move less than one part in so many more than the least. */
#define AS_FAST 1.002
#define AS_LEAN 1000

static uint64_t traffic(const struct plan *plan)
{
    return plan->predicted.h2d_bytes + plan->predicted.d2h_bytes;
}

static double seconds(const struct plan *plan)
{
    return plan->predicted.iteration_seconds;
}

static bool faster(const struct plan *plan, const struct plan *than)
{
    return !than || seconds(plan) < seconds(than) ||
           (seconds(plan) == seconds(than) && traffic(plan) < traffic(than));
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

static uint64_t least_traffic(const struct outcome *outcomes, uint32_t count)
{
    uint64_t least = UINT64_MAX;

    for (uint32_t i = 0; i < count; i++) {
        if (outcomes[i].plan)
            least = MIN(least, traffic(outcomes[i].plan));
        if (outcomes[i].policy)
            least = MIN(least, traffic(outcomes[i].policy));
    }
    return least;
}

/* What a plan may move: no more than the best policy, and little more than the least found, because
 * sizes that were not tried may do better than those that were. */
static uint64_t traffic_limit(const struct outcome *outcomes, uint32_t count,
                              const struct plan *policy)
{
    uint64_t least = least_traffic(outcomes, count);
    return MIN(traffic(policy), least + least / AS_LEAN);
}

struct finalist {
    uint32_t choice;
    const struct plan *plan;
    bool lean;
};

/* The lean by time, the others by traffic. */
static int finalists_first(const void *left, const void *right)
{
    const struct finalist *a = left, *b = right;
    if (a->lean != b->lean)
        return a->lean ? -1 : 1;
    if (a->lean && seconds(a->plan) != seconds(b->plan))
        return seconds(a->plan) < seconds(b->plan) ? -1 : 1;
    if (traffic(a->plan) != traffic(b->plan))
        return traffic(a->plan) < traffic(b->plan) ? -1 : 1;
    return a->choice < b->choice ? -1 : 1;
}

uint32_t outcomes_rank(const struct outcome *outcomes, uint32_t count, const struct plan *policy,
                       uint32_t *choices, uint32_t most)
{
    g_autoptr(GArray) ranked = g_array_new(FALSE, FALSE, sizeof(struct finalist));
    uint64_t limit = traffic_limit(outcomes, count, policy);

    for (uint32_t i = 0; i < count; i++)
        if (outcomes[i].plan) {
            struct finalist finalist = {outcomes[i].choice, outcomes[i].plan,
                                        traffic(outcomes[i].plan) <= limit};
            g_array_append_val(ranked, finalist);
        }
    g_array_sort(ranked, finalists_first);
    uint32_t finalists = MIN(ranked->len, most);
    for (uint32_t i = 0; i < finalists; i++)
        choices[i] = g_array_index(ranked, struct finalist, i).choice;
    return finalists;
}

/* Every plan that moves no more than `limit`, in a fixed order. */
static GPtrArray *eligible(struct outcome *outcomes, uint32_t count, uint64_t limit)
{
    GPtrArray *plans = g_ptr_array_new();

    for (uint32_t i = 0; i < count; i++) {
        if (outcomes[i].plan && traffic(outcomes[i].plan) <= limit)
            g_ptr_array_add(plans, outcomes[i].plan);
        if (outcomes[i].policy && traffic(outcomes[i].policy) <= limit)
            g_ptr_array_add(plans, outcomes[i].policy);
    }
    return plans;
}

/* See search.h. */
static const struct plan *choose(const GPtrArray *plans)
{
    const struct plan *fastest = NULL, *chosen = NULL;

    for (guint i = 0; i < plans->len; i++)
        if (faster(plans->pdata[i], fastest))
            fastest = plans->pdata[i];
    for (guint i = 0; i < plans->len; i++) {
        const struct plan *plan = plans->pdata[i];
        if (seconds(plan) <= seconds(fastest) * AS_FAST && leaner(plan, chosen))
            chosen = plan;
    }
    return chosen;
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

struct plan *outcomes_choose(struct outcome *outcomes, uint32_t count, const struct plan *policy)
{
    uint64_t limit = traffic_limit(outcomes, count, policy);
    g_autoptr(GPtrArray) plans = eligible(outcomes, count, limit);
    return take(outcomes, count, choose(plans));
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
