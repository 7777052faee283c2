#include "planner/search/objective.h"

static const char *const names[OBJECTIVES] = {"time", "traffic", "memory"};

const char *objective_name(enum objective objective)
{
    return names[objective];
}

bool objective_parse(const char *name, enum objective *objective, GError **error)
{
    for (int i = 0; i < OBJECTIVES; i++) {
        *objective = i;
        if (g_str_equal(name, names[i]))
            return true;
    }
    g_set_error(error, PLAN_ERROR, PLAN_ERROR_INVALID,
                "the objective must be time, traffic or memory, not '%s'", name);
    return false;
}

uint64_t objective_traffic(const struct plan *plan)
{
    return plan->predicted.h2d_bytes + plan->predicted.d2h_bytes;
}

double objective_figure(enum objective objective, uint64_t bytes, double seconds)
{
    return objective == OBJECTIVE_TRAFFIC ? (double)bytes : seconds;
}

double objective_of_plan(enum objective objective, const struct plan *plan)
{
    return objective_figure(objective, objective_traffic(plan), plan->predicted.iteration_seconds);
}

static int by_traffic(const struct plan *a, const struct plan *b)
{
    uint64_t x = objective_traffic(a), y = objective_traffic(b);
    return (x > y) - (x < y);
}

static int by_time(const struct plan *a, const struct plan *b)
{
    double x = a->predicted.iteration_seconds, y = b->predicted.iteration_seconds;
    return (x > y) - (x < y);
}

bool objective_prefers(enum objective objective, const struct plan *plan, const struct plan *than)
{
    bool lean = objective == OBJECTIVE_TRAFFIC;
    int order;
    if (!than)
        return true;
    order = lean ? by_traffic(plan, than) : by_time(plan, than);
    if (!order)
        order = lean ? by_time(plan, than) : by_traffic(plan, than);
    return order < 0;
}
